//! The Celery sink against real brokers: what arrives in them, and what their answers come to.

#![allow(clippy::unwrap_used)]

mod amqp;
mod fixture;
mod outages;
mod producers;
mod redis;
mod secrets;
mod tls;
mod wire;
