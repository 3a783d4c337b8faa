//! The state machine: what becomes of an event, given what its destinations answered. Pure: no database, no clock.
//!
//! An event with one destination has its whole state in its own row. One with several gets a row per destination the
//! first time that not all of them succeed; from then on only the open ones are sent.

use std::time::Duration;

use crate::event::Status;
use crate::retry::{LONGEST_WAIT, RetryPolicy};
use crate::sink::{SendError, SendErrorKind};

/// What `parked_on` says of an event that no route matches.
pub const UNROUTED: &str = "unrouted";

/// The state of one destination of a fan-out, as it stands in `outbox_delivery`.
#[derive(Debug, Clone, PartialEq)]
pub struct Delivery {
    /// Its name.
    pub destination: String,
    /// Pending, delivered or failed, each destination for itself.
    pub status: Status,
    /// Failed attempts at it so far.
    pub attempts: u32,
    /// How long until it is due again; zero when it is.
    pub due_in: Duration,
    /// It waits for its destination, which is down, paused or behind.
    pub parked: bool,
    /// The last error.
    pub error: String,
}

impl Delivery {
    /// Before anything was sent.
    pub fn open(destination: impl Into<String>, attempts: u32) -> Self {
        Self {
            destination: destination.into(),
            status: Status::Pending,
            attempts,
            due_in: Duration::ZERO,
            parked: false,
            error: String::new(),
        }
    }

    /// Whether a claim of the event should send to it.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.status == Status::Pending && !self.parked && self.due_in.is_zero()
    }
}

/// What sending to one destination came to in this round.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// Confirmed by the other side.
    Sent,
    /// An attempt that failed; permanently or not, its kind says.
    Failed {
        /// Why.
        error: SendError,
        /// How long it took.
        took: Duration,
    },
    /// Not sent, or in vain, because the destination is down, paused or behind: it waits for it without being looked at.
    Parked {
        /// What the destination last said.
        error: Option<SendError>,
        /// How long it took to find out, if this event was what it was tried with.
        tried: Option<Duration>,
    },
    /// Not sent, because people want nothing sent there: it waits for them.
    Paused,
    /// In vain because of what may be an outage: again after a short while, no attempt used.
    Postponed {
        /// Why.
        error: SendError,
        /// How long it took.
        took: Duration,
        /// How long to wait.
        after: Duration,
    },
    /// Not sent, through no fault of anybody's: due again at once.
    Released,
}

impl Answer {
    /// What went wrong when it was sent, and after how long. What was not sent did not fail.
    fn failure(&self) -> Option<(&SendError, Duration)> {
        match self {
            Self::Failed { error, took } | Self::Postponed { error, took, .. } => Some((error, *took)),
            Self::Parked { error, tried } => error.as_ref().zip(*tried),
            Self::Sent | Self::Paused | Self::Released => None,
        }
    }
}

/// What the event's row becomes.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// All destinations have it.
    Deliver,
    /// Pending, due after this long.
    Retry {
        /// By the database's clock.
        after: Duration,
        /// The last error.
        error: String,
    },
    /// A dead letter.
    Fail {
        /// The last error.
        error: String,
    },
    /// Pending, not looked at until what it waits for is back.
    Park {
        /// The destination, or [`UNROUTED`].
        on: String,
        /// The last error.
        error: String,
    },
    /// Given back as it was.
    Release {
        /// How long until it is due again.
        after: Duration,
    },
}

/// A failed attempt, for people to look at; those in an outage, too, though they do not count.
#[derive(Debug, Clone, PartialEq)]
pub struct Attempt {
    /// Where to.
    pub destination: String,
    /// How long it took.
    pub took: Duration,
    /// Why it failed, and what the other side answered.
    pub error: SendError,
}

impl Attempt {
    /// Whether it used one of the event's attempts; an outage uses none.
    #[must_use]
    pub fn counts(&self) -> bool {
        self.error.kind != SendErrorKind::Unavailable
    }
}

/// What is to be written about an event after a round.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// For the event's row.
    pub change: Change,
    /// The row's count of failed attempts.
    pub attempts: u32,
    /// Rows of its destinations, none in the common case.
    pub deliveries: Vec<Delivery>,
    /// The attempts of this round that failed.
    pub failures: Vec<Attempt>,
}

impl Verdict {
    /// A verdict on the event as a whole, whatever its destinations.
    #[must_use]
    pub fn of(change: Change, attempts: u32) -> Self {
        Self { change, attempts, deliveries: Vec::new(), failures: Vec::new() }
    }

    /// The failure that made this a retry; `None` when it is none, or when an outage did.
    #[must_use]
    pub fn retried_after(&self) -> Option<&Attempt> {
        let retried = matches!(self.change, Change::Retry { .. });
        self.failures.iter().find(|attempt| retried && attempt.counts())
    }
}

/// Judges a round: `before` has a delivery per destination of the event, `answers` what those that were sent to said.
///
/// `kept` says that `before` stands in the table already; `own_limit` is the event's `max_attempts`; `chance` is in
/// `[0, 1)`.
#[must_use]
pub fn judge(
    before: &[Delivery],
    kept: bool,
    answers: &[(String, Answer)],
    policy: &RetryPolicy,
    own_limit: Option<u32>,
    chance: f64,
) -> Verdict {
    let mut after = before.to_vec();
    let (mut parked, mut paused) = (None, None);
    let mut failures = Vec::new();
    let mut released = 0;
    for (destination, answer) in answers {
        let Some(delivery) = after.iter_mut().find(|delivery| delivery.destination == *destination) else { continue };
        if let Some((error, took)) = answer.failure() {
            failures.push(Attempt { destination: destination.clone(), took, error: error.clone() });
        }
        match answer {
            Answer::Sent => *delivery = Delivery { status: Status::Delivered, ..Delivery::open(destination, 0) },
            Answer::Failed { error, .. } => fail(delivery, error, policy, own_limit, chance),
            Answer::Postponed { error, after, .. } => {
                delivery.due_in = *after;
                delivery.error.clone_from(&error.message);
            }
            Answer::Parked { error, .. } => {
                delivery.parked = true;
                if let Some(error) = error {
                    delivery.error.clone_from(&error.message);
                }
                parked.get_or_insert_with(|| destination.clone());
            }
            Answer::Paused => {
                delivery.parked = true;
                paused.get_or_insert_with(|| destination.clone());
            }
            Answer::Released => released += 1,
        }
    }
    let nothing_happened = released == answers.len() && !answers.is_empty();
    let change = if nothing_happened {
        Change::Release { after: Duration::ZERO }
    } else {
        // What is down may be back in a moment, and a pause may last.
        conclude(&after, parked.or(paused))
    };
    let attempts = after.iter().map(|delivery| delivery.attempts).max().unwrap_or_default();
    let alone = before.len() == 1 && !kept;
    if alone || nothing_happened || (change == Change::Deliver && !kept) {
        after.clear();
    }
    Verdict { change, attempts, deliveries: after, failures }
}

fn fail(delivery: &mut Delivery, error: &SendError, policy: &RetryPolicy, own_limit: Option<u32>, chance: f64) {
    delivery.attempts = delivery.attempts.saturating_add(1);
    delivery.parked = false;
    delivery.error.clone_from(&error.message);
    if error.kind == SendErrorKind::Reject || policy.exhausted(delivery.attempts, own_limit) {
        delivery.status = Status::Failed;
    } else {
        // The other side may ask for more patience than ours, never for less.
        let asked = error.after.unwrap_or_default().min(LONGEST_WAIT);
        delivery.due_in = policy.delay(delivery.attempts, chance).max(asked);
    }
}

/// What becomes of the event as a whole. It is parked only when all that is open is: on what was `parked` in this round, or
/// else on what has waited since before.
fn conclude(after: &[Delivery], parked: Option<String>) -> Change {
    let open = || after.iter().filter(|delivery| delivery.status == Status::Pending);
    let waiting = open().filter(|delivery| !delivery.parked).min_by_key(|delivery| delivery.due_in);
    let error = last_error(after);
    if let Some(next) = waiting {
        Change::Retry { after: next.due_in, error }
    } else if let Some(on) = parked.or_else(|| open().next().map(|delivery| delivery.destination.clone())) {
        Change::Park { on, error }
    } else if after.iter().any(|delivery| delivery.status == Status::Failed) {
        Change::Fail { error }
    } else {
        Change::Deliver
    }
}

/// One destination's error as it is; several with their names.
fn last_error(after: &[Delivery]) -> String {
    let wrong: Vec<&Delivery> = after.iter().filter(|delivery| !delivery.error.is_empty()).collect();
    match wrong.as_slice() {
        [only] if after.len() == 1 => only.error.clone(),
        several => several
            .iter()
            .map(|delivery| format!("{}: {}", delivery.destination, delivery.error))
            .collect::<Vec<_>>()
            .join("; "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(error: SendError) -> Answer {
        Answer::Failed { error, took: Duration::from_millis(7) }
    }

    fn round(before: &[Delivery], kept: bool, answers: Vec<(&str, Answer)>) -> Verdict {
        let answers: Vec<_> = answers.into_iter().map(|(name, answer)| (name.to_owned(), answer)).collect();
        judge(before, kept, &answers, &RetryPolicy::default(), None, 0.0)
    }

    #[test]
    fn one_destination_needs_no_row_of_its_own() {
        let before = [Delivery::open("a", 0)];
        assert_eq!(round(&before, false, vec![("a", Answer::Sent)]), Verdict::of(Change::Deliver, 0));

        let verdict = round(&before, false, vec![("a", failed(SendError::retry("no")))]);
        let retry = Change::Retry { after: Duration::from_secs(60), error: "no".into() };
        assert_eq!(verdict.retried_after().map(|attempt| attempt.error.message.as_str()), Some("no"));
        assert_eq!((verdict.change, verdict.attempts, verdict.deliveries), (retry, 1, vec![]));
        assert_eq!(verdict.failures.len(), 1);
    }

    #[test]
    fn the_last_attempt_and_a_rejection_make_it_failed() {
        let fail = Change::Fail { error: "no".into() };
        let verdict = round(&[Delivery::open("a", 4)], false, vec![("a", failed(SendError::retry("no")))]);
        assert_eq!((&verdict.change, verdict.attempts, verdict.retried_after()), (&fail, 5, None));
        let verdict = round(&[Delivery::open("a", 0)], false, vec![("a", failed(SendError::reject("no")))]);
        assert_eq!((&verdict.change, verdict.attempts), (&fail, 1));
    }

    #[test]
    fn an_outage_uses_no_attempt() {
        let before = [Delivery::open("a", 3)];
        let down = SendError::unavailable("down");
        let verdict = round(&before, false, vec![("a", Answer::Parked { error: Some(down.clone()), tried: None })]);
        assert_eq!((verdict.change, verdict.attempts), (Change::Park { on: "a".into(), error: "down".into() }, 3));
        assert!(verdict.failures.is_empty(), "it was not sent");
        let (after, took) = (Duration::from_secs(1), Duration::from_millis(7));
        let verdict = round(&before, false, vec![("a", Answer::Postponed { error: down, took, after })]);
        assert_eq!(verdict.retried_after(), None);
        assert_eq!((verdict.change, verdict.attempts), (Change::Retry { after, error: "down".into() }, 3));
        assert_eq!(verdict.failures.len(), 1, "people can see it");
    }

    #[test]
    fn retry_after_can_only_lengthen_the_wait() {
        let before = [Delivery::open("a", 0)];
        let wait = |seconds| {
            let error = SendError::retry("no").after(Some(Duration::from_secs(seconds)));
            match round(&before, false, vec![("a", failed(error))]).change {
                Change::Retry { after, .. } => after.as_secs(),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!((wait(1), wait(90)), (60, 90));
    }

    #[test]
    fn a_fan_out_that_succeeds_writes_no_rows_and_one_that_does_not_keeps_the_open_ones() {
        let before = [Delivery::open("a", 0), Delivery::open("b", 0)];
        let verdict = round(&before, false, vec![("a", Answer::Sent), ("b", Answer::Sent)]);
        assert_eq!(verdict, Verdict::of(Change::Deliver, 0));

        let verdict = round(&before, false, vec![("a", Answer::Sent), ("b", failed(SendError::retry("no")))]);
        let retry = Change::Retry { after: Duration::from_secs(60), error: "b: no".into() };
        assert_eq!((&verdict.change, verdict.attempts), (&retry, 1));
        assert_eq!(verdict.deliveries[0].status, Status::Delivered);
        assert_eq!((verdict.deliveries[1].status, verdict.deliveries[1].attempts), (Status::Pending, 1));
    }

    #[test]
    fn kept_rows_are_written_to_the_end() {
        let before = [Delivery { status: Status::Delivered, ..Delivery::open("a", 0) }, Delivery::open("b", 1)];
        let verdict = round(&before, true, vec![("b", Answer::Sent)]);
        assert_eq!(verdict.change, Change::Deliver);
        assert!(verdict.deliveries.iter().all(|delivery| delivery.status == Status::Delivered));
        assert_eq!(verdict.deliveries.len(), 2);
    }

    #[test]
    fn a_fan_out_waits_for_the_next_open_one_and_parks_only_when_all_of_them_do() {
        let before = [Delivery::open("a", 0), Delivery { due_in: Duration::from_secs(9), ..Delivery::open("b", 1) }];
        let park = || Answer::Parked { error: None, tried: None };
        let verdict = round(&before, true, vec![("a", park())]);
        assert_eq!(verdict.change, Change::Retry { after: Duration::from_secs(9), error: String::new() });
        let parked: Vec<bool> = verdict.deliveries.iter().map(|delivery| delivery.parked).collect();
        assert_eq!(parked, [true, false], "each waits for itself");
        // The other is delivered: what is left has waited since before.
        let mut before = verdict.deliveries;
        before[1].due_in = Duration::ZERO;
        assert!(!before[0].is_due() && before[1].is_due());
        let verdict = round(&before, true, vec![("b", Answer::Sent)]);
        assert_eq!(verdict.change, Change::Park { on: "a".into(), error: String::new() });
        let before = [Delivery::open("a", 0), Delivery::open("b", 0)];
        let verdict = round(&before, true, vec![("a", park()), ("b", park())]);
        assert_eq!(verdict.change, Change::Park { on: "a".into(), error: String::new() });
    }

    #[test]
    fn a_fan_out_fails_only_when_none_is_open() {
        let before = [Delivery::open("a", 0), Delivery::open("b", 0)];
        let reject = || failed(SendError::reject("gone"));
        let verdict = round(&before, false, vec![("a", reject()), ("b", failed(SendError::retry("no")))]);
        assert!(matches!(verdict.change, Change::Retry { .. }));
        let verdict = round(&verdict.deliveries, true, vec![("b", Answer::Sent)]);
        assert_eq!(verdict.change, Change::Fail { error: "a: gone".into() });
    }

    #[test]
    fn what_was_not_sent_is_given_back_as_it_was() {
        let before = [Delivery::open("a", 2)];
        assert_eq!(
            round(&before, false, vec![("a", Answer::Released)]),
            Verdict::of(Change::Release { after: Duration::ZERO }, 2)
        );
    }
}
