//! The result of a test event on the page of destinations: a notice for the person who sent it, and the last result of this process.

use std::fmt;

use chrono::{DateTime, TimeDelta, Utc};
use pillarbox::SendErrorKind;

use super::words::{self, When};
use crate::desk::{Trial, advice, kind_name};

/// A result is shown for so long.
const SHOWN: TimeDelta = TimeDelta::hours(1);
const KINDS: [SendErrorKind; 4] =
    [SendErrorKind::Retry, SendErrorKind::Reject, SendErrorKind::Unavailable, SendErrorKind::Timeout];

/// The last test event of a destination.
pub(super) struct Tested {
    /// The CSS class of the notice.
    pub(super) class: &'static str,
    pub(super) who: String,
    pub(super) at: When,
    pub(super) id: String,
    /// The result in a sentence.
    pub(super) result: String,
    pub(super) error: String,
    /// The beginning of the receiver's response.
    pub(super) answer: Option<String>,
    pub(super) advice: &'static str,
}

impl Tested {
    /// Returns a result that is not too old.
    pub(super) fn recent(trial: &Trial, now: DateTime<Utc>) -> Option<Self> {
        let error = trial.tested.result.as_ref().err();
        (now - trial.at < SHOWN).then(|| Self {
            class: if error.is_some() { "bad" } else { "good" },
            who: trial.who.clone(),
            at: When::new(trial.at, now),
            id: trial.tested.id.to_string(),
            result: Outcome::of(trial).sentence(),
            error: error.map(|error| error.message.clone()).unwrap_or_default(),
            answer: error.and_then(|error| error.answer.clone()),
            advice: error.map_or("", |error| advice(error.kind)),
        })
    }
}

/// The outcome of a test event, as the link to the page carries it: `tested.ok.204.12`. It has words of ours and numbers only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Outcome {
    failed: Option<SendErrorKind>,
    /// 0 without one.
    status: u16,
    took_ms: u64,
}

impl Outcome {
    pub(super) fn of(trial: &Trial) -> Self {
        let (failed, status) = match &trial.tested.result {
            Ok(receipt) => (None, receipt.status),
            Err(error) => (Some(error.kind), error.status),
        };
        let took_ms = u64::try_from(trial.tested.took.as_millis()).unwrap_or(u64::MAX);
        Self { failed, status: status.unwrap_or(0), took_ms }
    }

    pub(super) fn parse(did: &str) -> Option<Self> {
        let mut parts = did.strip_prefix("tested.")?.split('.');
        let (word, status, took) = (parts.next()?, parts.next()?, parts.next()?);
        let failed = match word {
            "ok" => None,
            word => Some(KINDS.into_iter().find(|kind| kind_name(*kind) == word)?),
        };
        let outcome = Self { failed, status: status.parse().ok()?, took_ms: took.parse().ok()? };
        parts.next().is_none().then_some(outcome)
    }

    /// Returns the result in a sentence.
    fn sentence(self) -> String {
        let took = words::number(self.took_ms);
        let done = match self.failed {
            None => format!("delivered in {took} ms"),
            Some(_) => format!("not delivered, after {took} ms"),
        };
        if self.status == 0 { done } else { format!("{done}: status {}", self.status) }
    }

    pub(super) fn is_success(self) -> bool {
        self.failed.is_none()
    }

    pub(super) fn notice(self) -> String {
        let advice = self.failed.map(advice).unwrap_or_default();
        format!("The test event was {}. {advice}", self.sentence()).trim_end().to_owned()
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tested.{}.{}.{}", self.failed.map_or("ok", kind_name), self.status, self.took_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_travels_in_a_link_and_nothing_else_does() {
        for (failed, status) in [(None, 204), (Some(SendErrorKind::Timeout), 0), (Some(SendErrorKind::Retry), 500)] {
            let outcome = Outcome { failed, status, took_ms: 12 };
            assert_eq!(Outcome::parse(&outcome.to_string()), Some(outcome));
        }
        for forged in [
            "tested",
            "tested.ok",
            "tested.ok.1",
            "tested.ok.1.2.3",
            "tested.yes.1.2",
            "tested.ok.<b>.2",
            "pause.ok.1.2",
        ] {
            assert_eq!(Outcome::parse(forged), None, "{forged}");
        }
        let notice = Outcome { failed: None, status: 204, took_ms: 1200 }.notice();
        assert_eq!(notice, "The test event was delivered in 1,200 ms: status 204.");
    }
}
