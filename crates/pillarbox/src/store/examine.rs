//! What may be wrong with a database, and what to do about it: found by its store, told to people.

use serde::Serialize;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// As it should be.
    Good,
    /// It works, and could be better.
    Notice,
    /// Events wait or may come late because of it.
    Bad,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was looked at, in a word or two.
    pub about: &'static str,
    /// How bad it is.
    pub level: Level,
    /// What was found.
    pub found: String,
    /// What to do; empty when nothing is to be done.
    pub fix: String,
}

impl Finding {
    /// As it should be.
    pub fn good(about: &'static str, found: impl Into<String>) -> Self {
        Self { about, level: Level::Good, found: found.into(), fix: String::new() }
    }

    /// It works, and could be better.
    pub fn notice(about: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { about, level: Level::Notice, found: found.into(), fix: fix.into() }
    }

    /// Events wait or may come late because of it.
    pub fn bad(about: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { about, level: Level::Bad, found: found.into(), fix: fix.into() }
    }
}
