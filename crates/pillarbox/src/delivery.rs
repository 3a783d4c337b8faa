//! The state machine: turns the answers of an event's destinations into a verdict. Pure: no database, no clock.
//!
//! An event with one destination has its whole state in its own row. An event with several gets a row per destination the
//! first time that not all of them succeed. From then on, only the open deliveries are sent.

use std::time::Duration;

use crate::event::Status;
use crate::retry::{LONGEST_WAIT, RetryPolicy};
use crate::sink::{SendError, SendErrorKind};

/// The value of `parked_on` for an event that no route matches.
pub const UNROUTED: &str = "unrouted";

/// The destination of the attempt that is recorded when the relay's check refuses an event.
pub const CHECK: &str = "schema check";

/// The state of one destination of a fan-out, as in `outbox_delivery`.
#[derive(Debug, Clone, PartialEq)]
pub struct Delivery {
    /// The name of the destination.
    pub destination: String,
    /// Pending, delivered or failed, for this destination alone.
    pub status: Status,
    /// The number of failed attempts so far.
    pub attempts: u32,
    /// The time until it is due again; zero if it is due.
    pub due_in: Duration,
    /// Whether it waits for its destination, which is down, paused or congested.
    pub parked: bool,
    /// The last error.
    pub error: String,
}

impl Delivery {
    /// Returns a delivery that is still to be sent.
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

    /// Returns whether a claim of the event should send this delivery.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.status == Status::Pending && !self.parked && self.due_in.is_zero()
    }
}

/// The result of sending to one destination in this round.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// The destination confirmed the event.
    Sent,
    /// The destination confirmed the event, and the attempt is recorded for people to look at.
    Recorded {
        /// The receiver's status code, if its protocol has them.
        status: Option<u16>,
        /// The duration of the attempt.
        took: Duration,
    },
    /// The attempt failed. The kind of the error says whether permanently.
    Failed {
        /// The reason.
        error: SendError,
        /// The duration of the attempt.
        took: Duration,
    },
    /// The event was not sent, or the send failed, because the destination is down, congested or removed. It is parked.
    Parked {
        /// The destination's last error.
        error: Option<SendError>,
        /// The duration of the attempt, if this event was sent.
        tried: Option<Duration>,
    },
    /// The event was not sent, because people paused the destination. It is parked until they resume it.
    Paused,
    /// The send failed, perhaps because of an outage. It is tried again after a short while, and uses no attempt.
    Postponed {
        /// The reason.
        error: SendError,
        /// The duration of the attempt.
        took: Duration,
        /// The wait before the next attempt.
        after: Duration,
    },
    /// The event was not sent, for reasons of the relay. It is due again at once.
    Released,
}

impl Answer {
    /// Returns the error of a send and its duration. An event that was not sent has no failure.
    fn failure(&self) -> Option<(&SendError, Duration)> {
        match self {
            Self::Failed { error, took } | Self::Postponed { error, took, .. } => Some((error, *took)),
            Self::Parked { error, tried } => error.as_ref().zip(*tried),
            Self::Sent | Self::Recorded { .. } | Self::Paused | Self::Released => None,
        }
    }
}

/// The change of the event's row.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// All destinations have confirmed the event.
    Deliver,
    /// The event stays pending, and is due after this long.
    Retry {
        /// The wait, by the database's clock.
        after: Duration,
        /// The last error.
        error: String,
    },
    /// A dead letter.
    Fail {
        /// The last error.
        error: String,
    },
    /// The event stays pending, and is not claimed until its destination is back or a route matches.
    Park {
        /// The destination, or [`UNROUTED`].
        on: String,
        /// The last error.
        error: String,
    },
    /// The event is given back unchanged.
    Release {
        /// The time until it is due again.
        after: Duration,
    },
}

/// A failed attempt, for people to look at. Attempts during an outage are included, though they do not count.
#[derive(Debug, Clone, PartialEq)]
pub struct Attempt {
    /// The name of the destination.
    pub destination: String,
    /// The duration of the attempt.
    pub took: Duration,
    /// The reason, and the destination's response.
    pub error: SendError,
}

impl Attempt {
    /// Returns whether it used one of the event's attempts. An outage uses none.
    #[must_use]
    pub fn counts(&self) -> bool {
        self.error.kind != SendErrorKind::Unavailable
    }
}

/// A successful attempt that is recorded for people to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Success {
    /// The name of the destination.
    pub destination: String,
    /// The duration of the attempt.
    pub took: Duration,
    /// The receiver's status code, if its protocol has them.
    pub status: Option<u16>,
}

/// The outcome of an event after a round.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// The change of the event's row.
    pub change: Change,
    /// The row's number of failed attempts.
    pub attempts: u32,
    /// The rows of its destinations; none in the common case.
    pub deliveries: Vec<Delivery>,
    /// The failed attempts of this round.
    pub failures: Vec<Attempt>,
    /// The successful attempts of this round that are to be recorded; usually none.
    pub successes: Box<[Success]>,
}

impl Verdict {
    /// Returns a verdict on the event as a whole, without deliveries.
    #[must_use]
    pub fn of(change: Change, attempts: u32) -> Self {
        Self { change, attempts, deliveries: Vec::new(), failures: Vec::new(), successes: Box::default() }
    }

    /// Returns the failure that caused this retry. `None` if it is no retry, or if an outage caused it.
    #[must_use]
    pub fn retried_after(&self) -> Option<&Attempt> {
        let retried = matches!(self.change, Change::Retry { .. });
        self.failures.iter().find(|attempt| retried && attempt.counts())
    }
}

/// Judges a round. `before` has a delivery per destination of the event; `answers` has the answers of this round.
///
/// `kept` means that `before` is in the table already. `own_limit` is the event's `max_attempts`. `chance` is in `[0, 1)`.
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
    let (mut failures, mut successes) = (Vec::new(), Vec::new());
    let mut released = 0;
    for (destination, answer) in answers {
        let Some(delivery) = after.iter_mut().find(|delivery| delivery.destination == *destination) else { continue };
        if let Some((error, took)) = answer.failure() {
            failures.push(Attempt { destination: destination.clone(), took, error: error.clone() });
        }
        if let Answer::Recorded { status, took } = answer {
            successes.push(Success { destination: destination.clone(), took: *took, status: *status });
        }
        match answer {
            // The failures before the delivery stay counted.
            Answer::Sent | Answer::Recorded { .. } => {
                let open = Delivery::open(destination, delivery.attempts);
                *delivery = Delivery { status: Status::Delivered, ..open };
            }
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
        // A destination that is down may be back in a moment, while a pause may last.
        conclude(&after, parked.or(paused))
    };
    let attempts = after.iter().map(|delivery| delivery.attempts).max().unwrap_or_default();
    let alone = before.len() == 1 && !kept;
    if alone || nothing_happened || (change == Change::Deliver && !kept) {
        after.clear();
    }
    Verdict { change, attempts, deliveries: after, failures, successes: successes.into() }
}

fn fail(delivery: &mut Delivery, error: &SendError, policy: &RetryPolicy, own_limit: Option<u32>, chance: f64) {
    delivery.attempts = delivery.attempts.saturating_add(1);
    delivery.parked = false;
    delivery.error.clone_from(&error.message);
    if error.kind == SendErrorKind::Reject || policy.exhausted(delivery.attempts, own_limit) {
        delivery.status = Status::Failed;
    } else {
        // The destination may ask for a longer wait than the policy's, never for a shorter one.
        let asked = error.after.unwrap_or_default().min(LONGEST_WAIT);
        delivery.due_in = policy.delay(delivery.attempts, chance).max(asked);
    }
}

/// Returns the change of the event as a whole. It is parked only if all open deliveries are: on the destination `parked` in
/// this round, or else on one that was parked before.
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

/// Returns the error of a single destination as it is, and errors of several with their names.
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

        let after_failures = round(&[Delivery::open("a", 2)], false, vec![("a", Answer::Sent)]);
        assert_eq!(after_failures, Verdict::of(Change::Deliver, 2), "they stay counted");

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
    fn a_recorded_success_is_kept_beside_the_failures_of_its_round() {
        let took = Duration::from_millis(35);
        let success = Success { destination: "a".into(), took, status: Some(204) };
        let recorded = || Answer::Recorded { status: Some(204), took };
        let verdict = round(&[Delivery::open("a", 0)], false, vec![("a", recorded())]);
        let delivered = Verdict { successes: Box::new([success.clone()]), ..Verdict::of(Change::Deliver, 0) };
        assert_eq!(verdict, delivered, "otherwise it is as if it were not recorded");

        let before = [Delivery::open("a", 0), Delivery::open("b", 0)];
        let verdict = round(&before, false, vec![("a", recorded()), ("b", failed(SendError::retry("no")))]);
        assert_eq!(verdict.deliveries[0].status, Status::Delivered);
        assert_eq!((&*verdict.successes, verdict.failures.len()), (&[success][..], 1));
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
        // The other is delivered. The remaining delivery was parked before this round.
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
