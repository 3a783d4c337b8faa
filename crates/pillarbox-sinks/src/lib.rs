//! Destinations with clients of their own. A sink talks to its system and says what came of it; it knows no store, reads
//! no file and no environment, and leaves concurrency, breaker and retry to the relay.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod celery;
pub mod http;
mod secret;

pub use secret::Secret;
