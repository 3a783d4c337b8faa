//! A transactional outbox: an application writes an event in the same database transaction as its own data, and a relay delivers
//! it at least once.
//!
//! Without an outbox, a process that dies between the commit and the send loses the message, and a process that sends before the
//! commit sends what may be rolled back. With an outbox, the event is committed or rolled back with the data.
//!
//! # Quick start
//!
//! ```
//! use std::sync::Arc;
//!
//! use pillarbox::store::sqlite::SqliteStore;
//! use pillarbox::{Event, Relay, SendError, emit};
//! use serde_json::json;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("shop.db");
//! // On PostgreSQL: PostgresStore::connect(url, "public"). The rest is the same.
//! let store = SqliteStore::open(path).await?;
//! store.migrate().await?;
//! # sqlx::query("CREATE TABLE orders (id INTEGER PRIMARY KEY, cents INTEGER)").execute(store.pool()).await?;
//!
//! // The order and its event are committed together, or not at all.
//! let mut tx = store.pool().begin().await?;
//! sqlx::query("INSERT INTO orders (id, cents) VALUES (42, 1990)").execute(&mut *tx).await?;
//! emit(&mut tx, Event::new("Order", 42, "order.placed").payload(json!({ "cents": 1990 }))).await?;
//! tx.commit().await?;
//!
//! // A relay with a handler in this process. Events without a success are tried again, with growing pauses.
//! let relay = Relay::builder(Arc::new(store))
//!     .handler("order.*", |message| async move {
//!         println!("{} of order {}: {}", message.event_type, message.aggregate_id, message.payload.get());
//!         Ok::<_, SendError>(())
//!     })
//!     .build()?;
//!
//! // A service calls `relay.run(shutdown)` in a task. A test or a job drains what is due.
//! assert_eq!(relay.drain().await?.processed, 1);
//! # Ok(())
//! # }
//! ```
//!
//! # The path of an event
//!
//! | step | does | see |
//! |---|---|---|
//! | emit | writes the event in the caller's transaction | [`emit()`], [`Outbox`], [`Event`] |
//! | claim | takes due events, so that no other relay sends them | [`store`], [`Claims`] |
//! | route | decides where each event goes | [`Route`], [`Pattern`] |
//! | send | hands the event to a receiver, which confirms it | [`Sink`], [`Destination`] |
//! | settle | records the result: delivered, try again, or failed | [`delivery`], [`RetryPolicy`] |
//!
//! The relay runs in this process, as above, or as the program `pillarbox`, which reads a configuration file and also has
//! metrics and pages for people. Both may run on the same tables. The crate `pillarbox-sinks` sends to HTTP endpoints, Celery, Kafka,
//! NATS, RabbitMQ, Redis streams, SQS and SNS.
//!
//! # Guarantees
//!
//! - What was committed is delivered at least once, and what was rolled back is never delivered.
//! - A receiver may see an event twice, for example when a relay dies between the send and the settle. [`StoredEvent::id`] is the
//!   same every time.
//! - Events of one aggregate can be delivered in order: [`Order::Aggregate`].
//!
//! # Features
//!
//! | feature | default | for |
//! |---|---|---|
//! | `postgres` | yes | a store on PostgreSQL, and `emit` in transactions of sqlx |
//! | `sqlite` | yes | the same on SQLite |
//! | `mysql` | | the same on MariaDB and MySQL |
//! | `tokio-postgres`, `diesel`, `diesel-mysql`, `diesel-async`, `sea-orm` | | `emit` in transactions of these drivers |
//! | `schemas` | | JSON Schemas of payloads: [`Check`] |
//! | `schemars` | | the same, and schemas of Rust types |
//! | `wal` | | a relay on PostgreSQL's write-ahead log: `source::wal::WalStore` |
//! | `opentelemetry` | | the current trace context in the headers of each event |

pub mod celery;
pub mod check;
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
#[cfg(feature = "schemas")]
pub mod schema;
pub mod sink;
#[cfg(feature = "wal")]
pub mod source;
pub mod store;
pub mod trace;

pub use check::{Check, Violation};
pub use emit::{Emitted, emit, emit_all, emit_once};
pub use error::{BuildError, EmitError, StoreError};
pub use event::{Event, EventType, Headers, NewEvent, Status, StoredEvent};
pub use observe::{Observed, Observer};
pub use outbox::Outbox;
pub use relay::wake::Waker;
pub use relay::{Destination, OnDelivered, Pass, RecordAttempts, Relay, RelayBuilder, RelaySettings, Unrouted};
pub use retry::RetryPolicy;
pub use route::{Condition, Pattern, Route, Routes};
pub use sink::{Message, SendError, SendErrorKind, Sink, runs};
pub use store::{ClaimBy, Claims, Fleet, Inspect, OnFailed, Order, Parking, Store};
