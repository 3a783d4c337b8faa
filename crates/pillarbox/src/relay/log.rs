//! The relay's log lines: event, type, destination, attempt, trace. A kind of line that operators search for has a name, in
//! the field `event`.

use std::fmt::{self, Display};
use std::time::Duration;

use super::Engine;
use super::flight::Job;
use super::lane::Lane;
use crate::sink::SendError;
use crate::trace::SpanContext;

/// The name of a kind of log line, such as `pillarbox_batch_processed`.
pub(super) struct Named {
    prefix: &'static str,
    name: &'static str,
}

impl Named {
    pub(super) fn new(prefix: &'static str, name: &'static str) -> Self {
        Self { prefix, name }
    }
}

impl Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}", self.prefix, self.name)
    }
}

/// Returns the trace id in the form that people search for.
pub(super) fn trace_id(span: Option<SpanContext>) -> Option<String> {
    span.map(|span| format!("{:032x}", span.trace_id))
}

impl Engine {
    pub(super) fn named(&self, name: &'static str) -> Named {
        Named::new(self.settings.log_prefix, name)
    }
}

impl Lane {
    pub(super) fn log_sent(&self, job: &Job, took: Duration) {
        let event = job.event();
        tracing::debug!(
            id = %event.id,
            event_type = event.event_type,
            destination = self.name,
            attempt = job.attempt(),
            trace_id = trace_id(job.span()),
            ?took,
            "event sent"
        );
    }

    pub(super) fn log_failed(&self, engine: &Engine, job: &Job, error: &SendError) {
        let event = job.event();
        tracing::warn!(
            event = %engine.named("send_failed"),
            id = %event.id,
            event_type = event.event_type,
            destination = self.name,
            attempt = job.attempt(),
            trace_id = trace_id(job.span()),
            %error,
            "send failed"
        );
    }

    /// Logs a probe that failed.
    pub(super) fn log_still_down(&self, engine: &Engine, job: &Job, error: &SendError) {
        let event = job.event();
        tracing::info!(
            event = %engine.named("relay_breaker_open"),
            id = %event.id,
            event_type = event.event_type,
            destination = self.name,
            attempt = job.attempt(),
            trace_id = trace_id(job.span()),
            %error,
            "destination is still down"
        );
    }
}
