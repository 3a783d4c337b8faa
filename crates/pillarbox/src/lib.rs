//! Pillarbox: a transactional outbox.
//!
//! An application writes an event in the same database transaction as its own data; a relay delivers it, at least once.
//! Five verbs, in the order of an event's path: emit, claim, route, send, settle.

pub mod delivery;
pub mod event;
pub mod retry;
pub mod route;
pub mod sink;

pub use event::{Event, Headers, NewEvent, Status, StoredEvent};
pub use retry::RetryPolicy;
pub use route::{Pattern, Route, Routes};
pub use sink::{Message, SendError, SendErrorKind, Sink};
