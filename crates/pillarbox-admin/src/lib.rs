//! The admin of a Pillarbox outbox: pages for people and an API for programs.
//!
//! [`Desk`] is the library underneath: it reads events, metrics, destinations and the audit, and it retries, replays and
//! fails events, one by one or in jobs. [`Admin`] serves the desk as an axum [`Router`](axum::Router). The program
//! `pillarbox` serves it on its own listener; a service with an embedded relay mounts it in its own server:
//!
//! ```
//! # use std::sync::Arc;
//! # use axum::Router;
//! # use pillarbox::store::AdminStore;
//! use pillarbox_admin::{Admin, Desk, DestinationInfo, Identity, Role};
//!
//! # fn service(store: Arc<dyn AdminStore>) -> Router {
//! let desk = Desk::builder(store).destination(DestinationInfo::new("mail", "handler")).build();
//! let admin = Admin::new(Arc::new(desk)).authenticate(|request| {
//!     // A middleware of the service has put its user into the request.
//!     let user = request.extensions.get::<String>()?;
//!     Some(Identity::new(user.clone(), Role::Operator))
//! });
//! Router::new().nest("/outbox", admin.router())
//! # }
//! ```
//!
//! [`Mask`] keeps values of payloads out of pages, API, logs and stored errors.

mod access;
mod api;
mod asked;
mod assets;
mod base;
mod condition;
pub mod desk;
mod mask;
mod network;
mod opaque;
mod pages;
mod pretty;
mod refusal;
mod router;
pub mod secret;
mod theme;

pub use access::{ANYONE, CredentialError, Identity, Role, User};
pub use condition::{ConditionError, condition};
pub use desk::{Desk, DeskError, DestinationInfo};
pub use mask::{Discreet, Hidden, Mask, MaskError, Masked};
pub use network::{Network, Networks, NotANetwork, network_of};
pub use opaque::OpaqueView;
pub use pretty::pretty;
pub use router::Admin;
