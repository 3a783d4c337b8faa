//! The testkit's own tests: what other tests stand on holds.

mod brokers;
mod mysql;
mod postgres;
mod process;
mod receiver;

use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);
