//! Pillarbox: a transactional outbox.
//!
//! An application writes an event in the same database transaction as its own data. A relay delivers it, at least once.
//! The path of an event has five steps: emit, claim, route, send, settle.

pub mod celery;
mod clock;
pub mod delivery;
pub mod emit;
pub mod error;
pub mod event;
mod observe;
mod outbox;
pub mod relay;
pub mod retry;
pub mod route;
pub mod sink;
pub mod store;
pub mod trace;

pub use emit::{Emitted, emit, emit_all, emit_once};
pub use error::{BuildError, EmitError, StoreError};
pub use event::{Event, Headers, NewEvent, Status, StoredEvent};
pub use observe::{Observed, Observer};
pub use outbox::Outbox;
pub use relay::wake::Waker;
pub use relay::{Destination, OnDelivered, Pass, Relay, RelayBuilder, RelaySettings, Unrouted};
pub use retry::RetryPolicy;
pub use route::{Pattern, Route, Routes};
pub use sink::{Message, SendError, SendErrorKind, Sink, runs};
pub use store::{ClaimBy, Claims, Fleet, Inspect, OnFailed, Order, Parking, Store};
