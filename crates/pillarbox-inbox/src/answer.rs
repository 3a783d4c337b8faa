//! The receiver's response. Its text is for people: the relay keeps it with a failure.

use std::borrow::Cow;
use std::time::Duration;

/// The response to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct Answer {
    status: u16,
    text: Cow<'static, str>,
    retry_after: Option<Duration>,
}

impl Answer {
    pub(crate) fn new(status: u16, text: impl Into<Cow<'static, str>>) -> Self {
        Self { status, text: text.into(), retry_after: None }
    }

    pub(crate) fn after(self, wait: Duration) -> Self {
        Self { retry_after: Some(wait), ..self }
    }

    /// Returns the HTTP status.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Returns the body, as plain text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the seconds of the header `Retry-After`, if the response has it.
    pub fn retry_after(&self) -> Option<u64> {
        self.retry_after.map(|wait| wait.as_secs().max(1))
    }
}
