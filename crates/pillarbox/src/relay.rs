//! The relay.
pub mod wake;
