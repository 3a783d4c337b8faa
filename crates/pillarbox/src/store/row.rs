//! The conversions that every store shares.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{LOSSES_BEFORE_FAILED, Marked, Replayed, Retried, Settlement, Ticket};
use crate::delivery::{Change, Delivery};
use crate::error::StoreError;

/// The number of attempts that are kept per event.
pub(crate) const ATTEMPTS_KEPT: i32 = 20;
/// The number of bytes that are kept of an error or a response, so that an endpoint cannot fill the table.
const TEXT_KEPT: usize = 2048;

/// Returns the error of an event that has killed its relays.
pub(crate) fn killed_its_relays() -> String {
    format!(
        "given up: {LOSSES_BEFORE_FAILED} relays died or hung while they had this event, the last ones while they had \
         no other event; find the cause before you retry it"
    )
}

/// A settlement in the form of the event's row.
pub(crate) struct Written<'a> {
    pub(crate) ticket: Ticket,
    pub(crate) change: &'static str,
    pub(crate) attempts: i32,
    pub(crate) after: f64,
    pub(crate) parked_on: Option<&'a str>,
    pub(crate) error: Cow<'a, str>,
}

impl<'a> Written<'a> {
    pub(crate) fn of(settlement: &'a Settlement) -> Self {
        let verdict = settlement.verdict();
        let (change, after, parked_on, error) = match &verdict.change {
            Change::Deliver => ("deliver", Duration::ZERO, None, ""),
            Change::Retry { after, error } => ("retry", *after, None, error.as_str()),
            Change::Fail { error } => ("fail", Duration::ZERO, None, error.as_str()),
            Change::Park { on, error } => ("park", Duration::ZERO, Some(on.as_str()), error.as_str()),
            Change::Release { after } => ("release", *after, None, ""),
        };
        Self {
            ticket: settlement.ticket(),
            change,
            attempts: verdict.attempts.cast_signed(),
            after: after.as_secs_f64(),
            parked_on,
            error: kept(error),
        }
    }
}

/// An attempt in the form of its row.
pub(crate) struct KeptAttempt<'a> {
    pub(crate) event_id: Uuid,
    pub(crate) destination: &'a str,
    pub(crate) took_ms: i64,
    pub(crate) status_code: Option<i32>,
    pub(crate) error: Cow<'a, str>,
    pub(crate) answer: Option<Cow<'a, str>>,
    pub(crate) delivered: bool,
    /// The position within its event and round, counted from 1.
    pub(crate) position: i32,
}

impl Settlement {
    /// Returns the attempts of this round that are written: the failed ones, and the successful ones if they are recorded.
    pub(crate) fn attempts(&self) -> impl Iterator<Item = KeptAttempt<'_>> {
        let event_id = self.ticket().id;
        let failed = self.verdict().failures.iter().map(move |attempt| KeptAttempt {
            event_id,
            destination: &attempt.destination,
            took_ms: milliseconds(attempt.took),
            status_code: attempt.error.status.map(i32::from),
            error: kept(&attempt.error.message),
            answer: attempt.error.answer.as_deref().map(kept),
            delivered: false,
            position: 0,
        });
        let delivered = self.verdict().successes.iter().map(move |success| KeptAttempt {
            event_id,
            destination: &success.destination,
            took_ms: milliseconds(success.took),
            status_code: success.status.map(i32::from),
            error: Cow::Borrowed(""),
            answer: None,
            delivered: true,
            position: 0,
        });
        (1..).zip(failed.chain(delivered)).map(|(position, attempt)| KeptAttempt { position, ..attempt })
    }
}

fn milliseconds(took: Duration) -> i64 {
    i64::try_from(took.as_millis()).unwrap_or(i64::MAX)
}

/// Returns the part of a text that is stored. It replaces NUL, which a database's text cannot hold.
pub(crate) fn kept(text: &str) -> Cow<'_, str> {
    if text.len() <= TEXT_KEPT && !text.contains('\0') {
        return Cow::Borrowed(text);
    }
    let end = (0..=TEXT_KEPT.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
    Cow::Owned(text[..end].replace('\0', "\u{fffd}"))
}

/// A delivery as a claim reads it.
#[derive(Deserialize)]
struct ClaimedDelivery {
    destination: String,
    status: String,
    attempts: u32,
    due_in: Option<f64>,
    /// SQLite returns 0 or 1.
    #[serde(deserialize_with = "truth")]
    parked: bool,
    error: String,
}

fn truth<'de, D: serde::Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Truth {
        Word(bool),
        Number(u8),
    }
    Ok(match Truth::deserialize(from)? {
        Truth::Word(word) => word,
        Truth::Number(number) => number != 0,
    })
}

pub(crate) fn read_deliveries(id: Uuid, json: Option<&str>) -> Result<Vec<Delivery>, StoreError> {
    let Some(json) = json else { return Ok(Vec::new()) };
    let bad = |what: String| StoreError::BadRow { id: id.to_string(), what };
    let rows: Vec<ClaimedDelivery> = serde_json::from_str(json).map_err(|error| bad(error.to_string()))?;
    rows.into_iter()
        .map(|row| {
            Ok(Delivery {
                destination: row.destination,
                status: row.status.parse().map_err(bad)?,
                attempts: row.attempts,
                due_in: seconds(row.due_in.unwrap_or_default()),
                parked: row.parked,
                error: row.error,
            })
        })
        .collect()
}

/// Converts a database's seconds. Returns zero for negative values and NaN, and at most a hundred years.
pub(crate) fn seconds(seconds: f64) -> Duration {
    const LONGEST: Duration = Duration::from_secs(100 * 366 * 86_400);
    if seconds > 0.0 {
        Duration::try_from_secs_f64(seconds).map_or(LONGEST, |span| span.min(LONGEST))
    } else {
        Duration::ZERO
    }
}

/// Returns rows as one JSON array; `None` when there are none.
pub(crate) fn as_json<T: Serialize>(rows: &[T]) -> Result<Option<String>, serde_json::Error> {
    (!rows.is_empty()).then(|| serde_json::to_string(rows)).transpose()
}

/// Converts a name in which `*` matches anything into a LIKE pattern.
pub(crate) fn like(pattern: &str) -> String {
    pattern.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_").replace('*', "%")
}

/// Converts a name in which `*` matches anything into a GLOB pattern. GLOB is case-sensitive.
#[cfg(feature = "sqlite")]
pub(crate) fn glob(pattern: &str) -> String {
    pattern.replace('[', "[[]").replace('?', "[?]")
}

/// Returns a LIKE pattern that matches any text that contains this text.
pub(crate) fn search_like(text: &str) -> String {
    format!("%{}%", text.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_"))
}

/// Returns each id once, in the order of the list.
pub(crate) fn distinct(ids: &[Uuid]) -> Vec<Uuid> {
    let mut seen = HashSet::new();
    ids.iter().copied().filter(|id| seen.insert(*id)).collect()
}

/// Returns a result for each requested id, in order.
pub(crate) fn answers<T>(ids: &[Uuid], told: &[(Uuid, String)], answer: impl Fn(Option<&str>) -> T) -> Vec<(Uuid, T)> {
    let told: HashMap<Uuid, &str> = told.iter().map(|(id, answer)| (*id, answer.as_str())).collect();
    ids.iter().map(|id| (*id, answer(told.get(id).copied()))).collect()
}

impl Retried {
    /// Parses the result that the statements return; `None` if there is no such event.
    pub(crate) fn of(answer: Option<&str>) -> Self {
        match answer {
            Some("due") => Self::Due,
            Some("delivered") => Self::Delivered,
            Some(_) => Self::BeingSent,
            None => Self::Unknown,
        }
    }
}

impl Marked {
    /// Parses the result that the statements return; `None` if there is no such event.
    pub(crate) fn of(answer: Option<&str>) -> Self {
        match answer {
            Some("failed") => Self::Failed,
            Some("already") => Self::Already,
            Some("delivered") => Self::Delivered,
            Some(_) => Self::BeingSent,
            None => Self::Unknown,
        }
    }
}

/// Returns a result for each requested id, in order.
pub(crate) fn replayed(
    ids: &[Uuid],
    made: &HashMap<Uuid, Uuid>,
    refused: &HashMap<Uuid, Replayed>,
) -> Vec<(Uuid, Replayed)> {
    let answer = |id: &Uuid| match made.get(id) {
        Some(new_id) => Replayed::As { id: *new_id },
        None => refused.get(id).copied().unwrap_or(Replayed::Unknown),
    };
    ids.iter().map(|id| (*id, answer(id))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_of_a_text_is_bounded_and_storable() {
        assert_eq!(kept("fine"), "fine");
        assert_eq!(kept("a\0b"), "a\u{fffd}b");
        assert_eq!(kept(&"é".repeat(2000)).len(), TEXT_KEPT);
    }

    #[test]
    fn seconds_of_any_size_are_a_duration() {
        assert_eq!(seconds(1.5), Duration::from_millis(1500));
        for nothing in [-1.0, f64::NAN, f64::NEG_INFINITY, 0.0] {
            assert_eq!(seconds(nothing), Duration::ZERO);
        }
        assert_eq!(seconds(f64::INFINITY), seconds(1e300));
        assert!(std::time::Instant::now().checked_add(seconds(f64::INFINITY)).is_some());
    }

    #[test]
    fn patterns_become_likes_without_their_own_wildcards() {
        assert_eq!(like("order_*.%"), "order\\_%.\\%");
        assert_eq!(glob("a[b]?*"), "a[[]b][?]*");
        assert_eq!(search_like("50%_*"), "%50\\%\\_*%");
    }
}
