//! Celery: messages for its workers as they stand in the outbox. Every producer writes one form, and the sinks that talk to
//! Celery's brokers read it.
//!
//! Pure: no database, no broker, no tokio.

mod fields;
mod protocol;
mod recorded;
mod repr;

pub use fields::Fields;
pub use protocol::Embed;
pub use recorded::{Body, Declaration, InvalidRecord, Recorded, VERSION};

/// The `aggregate_type` of the events that carry a Celery message.
pub const AGGREGATE_TYPE: &str = "celery";
