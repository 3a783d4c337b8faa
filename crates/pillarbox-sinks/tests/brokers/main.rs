//! The sinks of brokers against real servers: one module per kind, each with the suite of all sinks and what is its own.

#![allow(clippy::unwrap_used)]

mod amqp;
mod http;
mod kafka;
mod nats;
mod redis;
mod sns;
mod sqs;
