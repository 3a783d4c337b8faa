//! The monotonic clock of relays and claims. It is tokio's: a simulation pauses it and moves it by itself. It decides how
//! long this process waits; what is due, the database's clock decides.

use std::time::{Duration, Instant};

/// This moment.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// How long ago that moment was.
pub(crate) fn since(moment: Instant) -> Duration {
    now().saturating_duration_since(moment)
}
