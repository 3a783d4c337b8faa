//! The history of one event: past steps with their times, its destinations, and the next step. Pure.

use chrono::{DateTime, Utc};
use pillarbox::store::{AttemptView, EventDetail, REPLAY_OF, REPLAY_TO, State};

use super::destinations::DestinationInfo;
use crate::opaque::OpaqueView;

const TRACEPARENT: &str = "traceparent";

/// An event with its history, masked.
#[derive(Debug)]
#[non_exhaustive]
pub struct EventStory {
    /// The event with its deliveries and attempts.
    pub detail: EventDetail,
    /// The payload, if it is opaque.
    pub opaque: Option<OpaqueView>,
    /// The destinations that it is routed to; `None` if no route matches.
    pub goes_to: Option<Vec<String>>,
    /// The id of the trace in which it was emitted.
    pub trace_id: Option<String>,
    /// The id of the event of which this is a replay.
    pub replay_of: Option<String>,
    /// The only destination of a replay that is not for all. The others do not receive it.
    pub replay_to: Option<String>,
    /// The history, oldest first, and the next step.
    pub timeline: Vec<Moment>,
    /// Its requests to destinations, without secrets.
    pub requests: Vec<Request>,
}

/// A request to a destination, as a command to paste and try.
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Request {
    /// The destination's name.
    pub destination: String,
    /// The command, without secrets.
    pub command: String,
}

/// One step of an event's history, or the next one.
#[derive(Debug, PartialEq)]
#[non_exhaustive]
pub struct Moment {
    /// The time.
    pub at: DateTime<Utc>,
    /// The kind of step.
    pub what: What,
}

/// A kind of step in an event's history.
#[derive(Debug, PartialEq)]
#[non_exhaustive]
pub enum What {
    /// The application's transaction was committed.
    Committed,
    /// An attempt failed.
    Failed {
        /// The number of the attempt.
        number: u32,
        /// The destination's name.
        destination: String,
        /// The duration, in milliseconds.
        took_ms: u64,
        /// The HTTP status of the response.
        status_code: Option<u16>,
        /// The error.
        error: String,
        /// The beginning of the response.
        answer: Option<String>,
    },
    /// An attempt succeeded, and was recorded.
    Succeeded {
        /// The number of the attempt.
        number: u32,
        /// The destination's name.
        destination: String,
        /// The duration, in milliseconds.
        took_ms: u64,
        /// The HTTP status of the response.
        status_code: Option<u16>,
    },
    /// One of several destinations received it.
    DeliveredTo {
        /// The destination's name.
        destination: String,
    },
    /// All destinations received it.
    Delivered,
    /// It became a dead letter.
    GivenUp {
        /// The last error.
        error: String,
    },
    /// It waits for a destination or a route. The time is that of its last change.
    Parked {
        /// The destination's name, or `unrouted`.
        on: String,
        /// The last error.
        error: String,
    },
    /// The next attempt.
    Next,
}

impl EventStory {
    pub(super) fn tell(
        detail: EventDetail,
        goes_to: Option<Vec<String>>,
        opaque: Option<OpaqueView>,
        destinations: &[DestinationInfo],
    ) -> Self {
        let requests = destinations
            .iter()
            .filter(|destination| goes_to.iter().flatten().any(|name| *name == destination.name))
            .filter_map(|destination| {
                let command = destination.request.as_ref()?.of(&detail)?;
                Some(Request { destination: destination.name.clone(), command })
            })
            .collect();
        Self {
            goes_to,
            opaque,
            trace_id: detail.headers.get(TRACEPARENT).and_then(|parent| trace_id(parent)),
            replay_of: detail.headers.get(REPLAY_OF).cloned(),
            replay_to: detail.headers.get(REPLAY_TO).cloned(),
            timeline: timeline(&detail),
            requests,
            detail,
        }
    }
}

/// Returns the trace id of a W3C header: `00-TRACE-SPAN-FLAGS`.
fn trace_id(traceparent: &str) -> Option<String> {
    let id = traceparent.split('-').nth(1)?;
    let is_one =
        id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()) && id.bytes().any(|byte| byte != b'0');
    is_one.then(|| id.to_owned())
}

fn attempt_of(moment: &Moment) -> Option<u32> {
    match moment.what {
        What::Failed { number, .. } | What::Succeeded { number, .. } => Some(number),
        _ => None,
    }
}

fn timeline(detail: &EventDetail) -> Vec<Moment> {
    let event = &detail.event;
    let mut moments = vec![Moment { at: event.created_at, what: What::Committed }];
    // Attempts of one round are written by one statement, in any order, so their numbers say more than their times.
    let mut latest = event.created_at;
    for attempt in detail.attempts().into_iter().cloned() {
        let AttemptView { number, destination, took_ms, status_code, error, answer, .. } = attempt;
        let what = if attempt.delivered {
            What::Succeeded { number, destination, took_ms, status_code }
        } else {
            What::Failed { number, destination, took_ms, status_code, error, answer }
        };
        // A success is written a moment after the event's row.
        let at = event.delivered_at.map_or(attempt.attempted_at, |delivered| delivered.min(attempt.attempted_at));
        latest = latest.max(at);
        moments.push(Moment { at: latest, what });
    }
    let only = detail.headers.get(REPLAY_TO);
    let is_left_out = |name: &str| only.is_some_and(|only| only != name);
    let is_recorded = |name: &str| detail.delivered_attempts.iter().any(|attempt| attempt.destination == name);
    let untold = |name: &str| !is_left_out(name) && !is_recorded(name);
    for delivery in detail.deliveries.iter().filter(|delivery| untold(&delivery.destination)) {
        let what = What::DeliveredTo { destination: delivery.destination.clone() };
        moments.extend(delivery.delivered_at.map(|at| Moment { at, what }));
    }
    moments.extend(event.delivered_at.map(|at| Moment { at, what: What::Delivered }));
    moments.sort_by_key(|moment| (moment.at, moment.what == What::Delivered, attempt_of(moment)));
    moments.extend(ending(detail));
    moments
}

/// Returns the current state as a step, if the event is not delivered.
fn ending(detail: &EventDetail) -> Option<Moment> {
    let event = &detail.event;
    let error = event.error_message.clone();
    match event.state {
        State::Failed => Some(Moment { at: event.updated_at, what: What::GivenUp { error } }),
        State::Parked => {
            let on = event.parked_on.clone().unwrap_or_else(|| pillarbox::delivery::UNROUTED.to_owned());
            Some(Moment { at: event.updated_at, what: What::Parked { on, error } })
        }
        State::Pending | State::Due | State::Scheduled => {
            event.next_attempt_at.map(|at| Moment { at, what: What::Next })
        }
        State::Sending | State::Delivered => None,
    }
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;
    use pillarbox::event::StoredEvent;

    use super::*;

    #[test]
    fn attempts_are_in_the_order_of_their_numbers() {
        let mut detail = EventDetail::for_tests(&StoredEvent::for_tests("order.placed", "{}"));
        let written = |microseconds| detail.event.created_at + TimeDelta::microseconds(microseconds);
        let attempt = |number, at| AttemptView {
            number,
            destination: "mail".to_owned(),
            attempted_at: at,
            took_ms: 3,
            status_code: Some(500),
            error: "500".to_owned(),
            answer: None,
            delivered: false,
        };
        // The rows of the first two were written by one statement, the second one first.
        detail.failed_attempts = vec![attempt(1, written(20)), attempt(2, written(10)), attempt(3, written(90))];
        let numbers: Vec<_> = timeline(&detail).iter().filter_map(attempt_of).collect();
        assert_eq!(numbers, [1, 2, 3]);
    }

    #[test]
    fn a_trace_id_is_taken_only_from_a_traceparent() {
        let id = "4bf92f3577b34da6a3ce929d0e0e4736";
        assert_eq!(trace_id(&format!("00-{id}-00f067aa0ba902b7-01")).as_deref(), Some(id));
        for wrong in ["", "00", "00-xyz-1-1", &format!("00-{}-1-1", "0".repeat(32)), "00-<script>-1-1"] {
            assert_eq!(trace_id(wrong), None, "{wrong}");
        }
    }
}
