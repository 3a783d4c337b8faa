//! Destinations with clients of their own. A sink sends to its system and returns the outcome. It knows no store, reads no
//! file and no environment, and leaves concurrency, breaker and retry to the relay.
//!
//! Each kind of destination is a module and a feature of the same name: `http`, `celery`. No feature is enabled by default,
//! because each client brings dozens of crates. An application enables the kinds that it sends to. `kind = "discard"` needs
//! no feature, and `all` enables every kind.
//!
//! An application builds a sink from its settings in code, or reads destinations from TOML through a [`Registry`], which
//! also takes kinds of the application's own.

#![cfg_attr(test, allow(clippy::unwrap_used))]

#[cfg(feature = "celery")]
pub mod celery;
pub mod config;
pub mod content;
pub mod discard;
#[cfg(feature = "http")]
pub mod http;
pub mod redact;
pub mod registry;
mod secret;
mod template;
pub mod tls;

pub use content::{Content, Format};
pub use registry::{DestinationSettings, Registry};
pub use secret::Secret;
pub use template::Template;
pub use tls::Tls;
