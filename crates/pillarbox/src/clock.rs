//! The monotonic clock of relays and claims. It is tokio's, so that a simulation can pause and advance it. It decides how long
//! this process waits; the database's clock decides what is due.

use std::time::{Duration, Instant};

/// Returns the current time.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// Returns the time since that moment.
pub(crate) fn since(moment: Instant) -> Duration {
    now().saturating_duration_since(moment)
}
