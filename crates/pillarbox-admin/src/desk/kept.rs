//! How long delivered events are kept, and so whether a search can find them. Pure.

use std::time::Duration;

use super::Desk;

/// How long the relays keep delivered events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kept {
    /// They are deleted this long after their delivery.
    For(Duration),
    /// They are deleted when they are delivered.
    UntilDelivered,
}

impl Desk {
    /// Returns how long delivered events are kept, if that is known.
    #[must_use]
    pub fn kept(&self) -> Option<Kept> {
        self.kept
    }
}
