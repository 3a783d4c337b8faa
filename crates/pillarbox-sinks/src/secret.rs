//! Secrets: passwords, tokens and signing keys on their way from the configuration to a sink.

use std::fmt;

/// A text that is never shown: its `Debug` is `***`, and it has no `Display`.
///
/// ```
/// use pillarbox_sinks::Secret;
/// let token = Secret::new("hunter2");
/// assert_eq!(format!("{token:?}"), "***");
/// assert_eq!(token.expose(), "hunter2");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Hides a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text itself. Do not log it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}
