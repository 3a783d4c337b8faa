//! The state of a running relay, for metrics and for people.

use std::sync::Weak;
use std::sync::atomic::Ordering;

use serde::Serialize;

use super::lane::Lane;
use super::load::lock;
use super::{Engine, Relay};
use crate::store::LaneView;

/// Reads the state of a relay without keeping it alive.
#[derive(Clone)]
pub struct Monitor {
    engine: Weak<Engine>,
}

/// The current state of a relay.
#[derive(Debug, Clone, Serialize, Default)]
#[non_exhaustive]
pub struct RelayStatus {
    /// The number of events that are claimed and not settled.
    pub in_flight: usize,
    /// The bytes of their payloads.
    pub bytes_in_flight: usize,
    /// The lanes of the destinations, ordered by name.
    pub destinations: Vec<LaneView>,
}

impl Relay {
    /// Returns a monitor of this relay.
    #[must_use]
    pub fn monitor(&self) -> Monitor {
        Monitor { engine: std::sync::Arc::downgrade(&self.engine) }
    }
}

impl Monitor {
    /// Returns the current state, or `None` when the relay is gone.
    #[must_use]
    pub fn status(&self) -> Option<RelayStatus> {
        let engine = self.engine.upgrade()?;
        let load = engine.load.now();
        let destinations = engine.lanes.values().map(|lane| lane.view()).collect();
        Some(RelayStatus { in_flight: load.events, bytes_in_flight: load.bytes, destinations })
    }
}

impl Lane {
    pub(super) fn view(&self) -> LaneView {
        let (last_error_at, last_error) = self.tally.last_error().unzip();
        let state = lock(&self.state);
        LaneView {
            paused: self.is_paused(),
            // While the breaker is ajar, the outage has not ended.
            down: state.breaker.is_open() || state.breaker.is_ajar(),
            limited: self.is_limited(&state),
            down_since: state.outage.since(),
            probe_at: state.outage.probe_at(&state.breaker),
            recovered_at: state.outage.ended_at(),
            queued: state.queue.len() as u64,
            sending: self.sending.load(Ordering::Relaxed) as u64,
            last_error,
            last_error_at,
            ..LaneView::new(&self.name)
        }
    }
}
