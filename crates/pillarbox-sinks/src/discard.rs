//! Discard: marks events as delivered and sends nothing, for dry runs and measurements.

use std::sync::Arc;

use pillarbox::{Sink, sink};

use crate::config::shown::Key;
use crate::config::{ConfigError, Section};
use crate::registry::{Build, Kind, Target};

/// The kind's name in the configuration.
pub const KIND: &str = "discard";

/// `kind = "discard"`. It has no keys, so the type is its own target.
#[derive(Debug, Clone, Copy)]
pub struct Discard;

impl Kind for Discard {
    fn name(&self) -> &'static str {
        KIND
    }

    fn read(&self, _section: &mut Section<'_>) -> Arc<dyn Target> {
        Arc::new(Self)
    }

    fn is_dry_run(&self) -> bool {
        true
    }
}

impl Target for Discard {
    fn shown(&self) -> Vec<Key> {
        Vec::new()
    }

    fn untestable(&self) -> Option<&'static str> {
        Some("discards events and sends nothing, so there is nothing to test")
    }

    fn sink(&self, _build: &Build<'_>) -> Result<Arc<dyn Sink>, ConfigError> {
        Ok(Arc::new(sink::Discard))
    }
}
