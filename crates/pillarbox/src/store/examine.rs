//! Problems of a database and their fixes. The store finds them; people read them.

#[cfg(any(feature = "mysql", feature = "sqlite"))]
use std::time::Duration;

use serde::Serialize;

#[cfg(any(feature = "mysql", feature = "sqlite"))]
use super::Inspect;

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

/// How long an event must be due, with no relay alive, to be reported.
#[cfg(any(feature = "mysql", feature = "sqlite"))]
const FORGOTTEN: Duration = Duration::from_secs(60);

/// Checks whether relays are alive, and how long events have been due.
#[cfg(any(feature = "mysql", feature = "sqlite"))]
pub(super) async fn attendance(store: &impl Inspect) -> Finding {
    let (depth, relays) = match (store.depth().await, store.relays().await) {
        (Ok(depth), Ok(relays)) => (depth, relays),
        (Err(error), _) | (_, Err(error)) => return Finding::bad("relays", error.to_string(), ""),
    };
    let alive = relays.iter().filter(|relay| relay.alive).count();
    let waits = depth.oldest_due.unwrap_or_default();
    let oldest = depth.oldest_due.map(|waits| format!(", the oldest for {} s", waits.as_secs()));
    let found = format!("{alive} alive; {} due{}", depth.due, oldest.unwrap_or_default());
    let fix = "start one: `pillarbox relay`";
    match alive {
        0 if waits > FORGOTTEN => Finding::bad("relays", found, fix),
        0 => Finding::notice("relays", found, fix),
        _ => Finding::good("relays", found),
    }
}
