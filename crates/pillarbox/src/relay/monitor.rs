//! What can be seen of a relay while it runs: for metrics and for people.

use std::sync::Weak;
use std::sync::atomic::Ordering;

use serde::Serialize;

use super::lane::Lane;
use super::load::lock;
use super::{Engine, Relay};

/// Looks at a relay from outside, without keeping it alive.
#[derive(Clone)]
pub struct Monitor {
    engine: Weak<Engine>,
}

/// A relay at this moment.
#[derive(Debug, Clone, Serialize, Default)]
#[non_exhaustive]
pub struct RelayStatus {
    /// Claimed and not settled.
    pub in_flight: usize,
    /// Their payloads.
    pub bytes_in_flight: usize,
    /// By name.
    pub destinations: Vec<DestinationStatus>,
}

/// A destination, as this relay finds it at this moment.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct DestinationStatus {
    /// Its name.
    pub name: String,
    /// Nothing is sent there, because people said so.
    pub paused: bool,
    /// The breaker is open: it is down, and its events wait for it.
    pub down: bool,
    /// It is behind: what comes is parked until its queue is short.
    pub congested: bool,
    /// Events that wait in the relay.
    pub queued: usize,
    /// Events that are being sent.
    pub sending: usize,
    /// The last outage; not gone when it is over.
    pub last_error: Option<String>,
}

impl Relay {
    /// To look at this relay while it runs.
    #[must_use]
    pub fn monitor(&self) -> Monitor {
        Monitor { engine: std::sync::Arc::downgrade(&self.engine) }
    }
}

impl Monitor {
    /// `None` when the relay is gone.
    #[must_use]
    pub fn status(&self) -> Option<RelayStatus> {
        let engine = self.engine.upgrade()?;
        let load = engine.load.now();
        let destinations = engine.lanes.values().map(|lane| lane.status()).collect();
        Some(RelayStatus { in_flight: load.events, bytes_in_flight: load.bytes, destinations })
    }
}

impl Lane {
    fn status(&self) -> DestinationStatus {
        let state = lock(&self.state);
        DestinationStatus {
            name: self.name.clone(),
            paused: self.is_paused(),
            down: state.breaker.is_open(),
            congested: state.congested,
            queued: state.queue.len(),
            sending: self.sending.load(Ordering::Relaxed),
            last_error: state.last_error.as_ref().map(ToString::to_string),
        }
    }
}
