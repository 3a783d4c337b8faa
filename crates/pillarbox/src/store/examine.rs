//! Problems of a database and their fixes. The store finds them; people read them.

use serde::Serialize;

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// No problem.
    Good,
    /// It works, but could be better.
    Notice,
    /// Events wait or may be late because of it.
    Bad,
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The subject of the check, in a word or two.
    pub about: &'static str,
    /// The severity.
    pub level: Level,
    /// What the check found.
    pub found: String,
    /// The fix; empty when no fix is needed.
    pub fix: String,
}

impl Finding {
    /// Creates a finding without a problem.
    pub fn good(about: &'static str, found: impl Into<String>) -> Self {
        Self { about, level: Level::Good, found: found.into(), fix: String::new() }
    }

    /// Creates a finding that works, but could be better.
    pub fn notice(about: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { about, level: Level::Notice, found: found.into(), fix: fix.into() }
    }

    /// Creates a finding because of which events wait or may be late.
    pub fn bad(about: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { about, level: Level::Bad, found: found.into(), fix: fix.into() }
    }
}
