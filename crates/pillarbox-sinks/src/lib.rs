//! Destinations with clients of their own. A sink sends to its system and returns the outcome. It knows no store, reads no
//! file and no environment, and leaves concurrency, breaker and retry to the relay.
//!
//! Each kind of destination is a module and a feature of the same name: `http`, `celery`, `nats`. No feature is enabled by default,
//! because each client brings dozens of crates. An application enables the kinds that it sends to. `kind = "discard"` needs
//! no feature, and `all` enables every kind.
//!
//! An application builds a sink from its settings in code, or reads destinations from TOML through a [`Registry`], which
//! also takes kinds of the application's own.

#![cfg_attr(test, allow(clippy::unwrap_used))]

#[cfg(feature = "amqp")]
pub mod amqp;
#[cfg(feature = "aws")]
pub mod aws;
#[cfg(any(feature = "rabbitmq", feature = "redis"))]
#[cfg_attr(not(feature = "celery"), allow(dead_code, reason = "some parts are for one kind only"))]
mod broker_url;
#[cfg(feature = "celery")]
pub mod celery;
#[cfg(feature = "client")]
pub mod client;
pub mod config;
pub mod content;
pub mod discard;
#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "kafka")]
pub mod kafka;
#[cfg(feature = "nats")]
pub mod nats;
#[cfg(feature = "rabbitmq")]
mod rabbitmq;
pub mod redact;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(any(feature = "celery", feature = "redis"))]
mod redis_server;
pub mod registry;
mod secret;
#[cfg(feature = "sns")]
pub mod sns;
#[cfg(feature = "sqs")]
pub mod sqs;
mod template;
pub mod tls;

pub use content::{Content, Format};
pub use registry::{DestinationSettings, Registry};
pub use secret::Secret;
pub use template::Template;
pub use tls::Tls;
