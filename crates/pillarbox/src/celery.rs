//! Celery: tasks for its workers, sent from Rust in the caller's transaction, and the stored form of messages.
//!
//! [`Task`] is a call of a task; [`chain`], [`group`] and [`chord`] combine tasks. [`send_task`] and [`send`] emit them
//! through any driver that [`emit`](crate::emit()) supports, `celery::blocking` through blocking diesel. Workers need no
//! changes. [`Recorded`] is the stored form that every producer writes, in any language, and that the sinks for Celery's
//! brokers read.
//!
//! Pure: no database, no broker, no tokio, except for the functions that emit.

#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(crate) mod adopted;
#[cfg(feature = "diesel")]
pub mod blocking;
mod canvas;
mod fields;
mod messages;
mod options;
mod protocol;
mod recorded;
mod repr;
mod send;
mod task;

pub use canvas::{Signature, chain, chord, group};
pub use fields::Fields;
pub use messages::Sent;
pub use protocol::{Embed, PROTOCOL_HEADERS};
pub use recorded::{Body, Declaration, InvalidRecord, Recorded, VERSION};
pub use send::{send, send_task};
pub use task::Task;

/// The `aggregate_type` of the events that carry a Celery message.
pub const AGGREGATE_TYPE: &str = "celery";
