//! Check: a condition on events, before the first send and, where an application asks for it, before emit. Pure: an event in, a
//! violation out. It knows no database, no relay and no schema language; `schema` is the check by JSON Schema.

use std::fmt::Display;

/// A condition that events must satisfy.
///
/// A relay checks each event once, before its first send: see [`RelayBuilder::check`](crate::RelayBuilder::check). An application
/// checks what it emits with [`Event::check`](crate::Event::check) or [`Outbox::checking`](crate::Outbox::checking).
///
/// The relay waits for the call, so it must be fast and must not block.
pub trait Check: Send + Sync + 'static {
    /// Returns the violation of an event that must not be sent.
    ///
    /// # Errors
    /// The violation. People see its text, so it should quote no values of the payload.
    fn check(&self, event: &Checked<'_>) -> Result<(), Violation>;
}

/// The parts of an event that a check sees.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Checked<'a> {
    /// The type of the aggregate, such as `Order`.
    pub aggregate_type: &'a str,
    /// The id of the aggregate, such as `42`.
    pub aggregate_id: &'a str,
    /// The type of the event, such as `order.placed`.
    pub event_type: &'a str,
    /// JSON text.
    pub payload: &'a str,
    /// Whether the payload is the base64 of [opaque](crate::event::Opaque) bytes.
    pub is_opaque: bool,
}

impl<'a> Checked<'a> {
    /// Returns the parts of an event of this type with this payload.
    #[must_use]
    pub fn new(aggregate_type: &'a str, aggregate_id: &'a str, event_type: &'a str, payload: &'a str) -> Self {
        Self { aggregate_type, aggregate_id, event_type, payload, is_opaque: false }
    }

    /// Says whether the payload is opaque.
    #[must_use]
    pub fn opaque(self, is_opaque: bool) -> Self {
        Self { is_opaque, ..self }
    }
}

/// The reason why an event does not satisfy a check.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Violation(String);

impl Violation {
    /// Returns a violation with this text.
    pub fn new(what: impl Display) -> Self {
        Self(what.to_string())
    }
}
