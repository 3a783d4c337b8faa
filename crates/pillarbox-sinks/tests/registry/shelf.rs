//! A kind of destination from outside the crate: events are kept in memory, on a shelf that is opened with a key. This file
//! is all that a kind needs in Rust; one call of `Registry::with` adds it.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use pillarbox::{Message, SendError, Sink};
use pillarbox_sinks::Secret;
use pillarbox_sinks::config::shown::{Key, hidden, number, text};
use pillarbox_sinks::config::{ConfigError, SecretRef, Section};
use pillarbox_sinks::registry::{Build, Kind, Target};

/// The keys of events, as they arrived.
pub(crate) type Kept = Arc<Mutex<Vec<String>>>;

/// `kind = "shelf"`
pub(crate) struct Shelf {
    pub(crate) kept: Kept,
    /// What opens it.
    pub(crate) key: Secret,
}

#[derive(Debug)]
struct ShelfTarget {
    room: Option<String>,
    key: Option<SecretRef>,
    batch: usize,
    kept: Kept,
    fits: Secret,
}

impl Kind for Shelf {
    fn name(&self) -> &'static str {
        "shelf"
    }

    fn read(&self, section: &mut Section<'_>) -> Arc<dyn Target> {
        Arc::new(ShelfTarget {
            room: section.require("room", "write where the shelf is, like \"cellar\""),
            key: section.take("key"),
            batch: section.take("batch").unwrap_or(10),
            kept: self.kept.clone(),
            fits: self.key.clone(),
        })
    }

    fn concurrency(&self) -> Option<usize> {
        Some(3)
    }
}

impl Target for ShelfTarget {
    fn shown(&self) -> Vec<Key> {
        let mut keys = vec![("batch", number(self.batch))];
        keys.extend(self.room.as_ref().map(|room| ("room", text(room))));
        keys.extend(self.key.as_ref().map(|key| ("key", hidden(key))));
        keys
    }

    fn address(&self) -> Option<String> {
        self.room.clone()
    }

    fn sink(&self, build: &Build<'_>) -> Result<Arc<dyn Sink>, ConfigError> {
        let key = build.optional_secret("key", self.key.as_ref())?;
        if key.as_ref().is_none_or(|key| key.expose().is_empty()) {
            return Err(build.problem("key is missing; the shelf is locked"));
        }
        Ok(Arc::new(ShelfSink { kept: self.kept.clone(), key, fits: self.fits.clone(), batch: self.batch }))
    }
}

struct ShelfSink {
    kept: Kept,
    key: Option<Secret>,
    fits: Secret,
    batch: usize,
}

#[async_trait]
impl Sink for ShelfSink {
    async fn send(&self, batch: &[Message]) -> Vec<Result<(), SendError>> {
        let mut kept = self.kept.lock().unwrap();
        kept.extend(batch.iter().map(|message| message.event_type.clone()));
        vec![Ok(()); batch.len()]
    }

    async fn reach(&self) -> Result<(), SendError> {
        let fits = self.key.as_ref() == Some(&self.fits);
        if fits { Ok(()) } else { Err(SendError::unavailable("the key does not fit")) }
    }

    fn batch_limit(&self) -> usize {
        self.batch
    }
}
