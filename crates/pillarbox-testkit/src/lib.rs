//! The basis of Pillarbox's tests and measurements: private servers, a receiver that records requests, programs that can be
//! killed, and one bounded wait.
//!
//! Everything here panics when the machine lacks something that a test needs, with how to get it: a test without its server
//! fails and is not skipped. It is never a normal dependency.

pub mod brokers;
pub mod celery;
pub mod celery_outbox;
pub mod conformance;
pub mod mysql;
pub mod pgbouncer;
mod port;
pub mod postgres;
pub mod process;
pub mod proxy;
pub mod rabbitmq;
pub mod receiver;
pub mod redis;
mod server;
pub mod simulation;
pub mod wait;

pub use celery::{Celery, CeleryWorker};
pub use celery_outbox::CeleryOutbox;
pub use mysql::{PrivateMysql, TestMysql};
pub use pgbouncer::PgBouncer;
pub use port::free as free_port;
pub use postgres::{LoggedPostgres, PrivatePostgres, TestDatabase};
pub use process::{Program, Signal};
pub use proxy::{Proxy, Swallow};
pub use rabbitmq::RabbitMq;
pub use receiver::{Answer, Received, Receiver};
pub use redis::Redis;
pub use wait::wait_until;
