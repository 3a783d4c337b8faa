//! The problems of an outbox, for people: what is wrong, since when, and which events wait for it. Pure: it looks at an
//! [`Overview`] and decides nothing.

use std::time::Duration;

use chrono::{DateTime, Utc};
use pillarbox::delivery::UNROUTED;
use pillarbox::store::{Depth, LogView};
use serde::Serialize;

use super::destinations::DestinationStatus;
use super::health::Health;
use super::metrics::Overview;

/// A due event that has waited for longer is late.
pub const LATE: Duration = Duration::from_secs(60);

/// The kind of a problem. The worst come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ProblemKind {
    /// No relay is running: nothing is delivered.
    NoRelay,
    /// The server has removed a part of the write-ahead log that no relay has read.
    LogLost,
    /// No relay reads the write-ahead log.
    LogUnread,
    /// Events in the write-ahead log are not delivered in time.
    LogBehind,
    /// A destination is down.
    Down,
    /// Too many attempts to a destination fail.
    Failing,
    /// Due events are not sent in time.
    Late,
    /// Events wait for a destination that no running relay has.
    Unknown,
    /// No route matches events.
    Unrouted,
    /// Events wait for a destination's rate.
    RateLimited,
    /// A destination is paused.
    Paused,
    /// Events are kept out of the write-ahead log.
    LogClosed,
    /// Events have failed for good.
    DeadLetters,
}

impl ProblemKind {
    /// Returns whether the problem needs somebody now. The others are the result of a decision, or wait.
    #[must_use]
    pub fn is_urgent(self) -> bool {
        use ProblemKind::{Down, Failing, Late, LogBehind, LogLost, LogUnread, NoRelay};
        matches!(self, NoRelay | LogLost | LogUnread | LogBehind | Down | Failing | Late)
    }
}

/// A problem of the outbox. Which fields are set depends on its kind.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Problem {
    /// The kind.
    pub kind: ProblemKind,
    /// The destination that has the problem.
    pub destination: Option<String>,
    /// The number of events that wait because of it, or of dead letters.
    pub events: u64,
    /// Whether there may be more events.
    pub at_least: bool,
    /// The age of the oldest of these events.
    pub oldest: Option<Duration>,
    /// When it began: of dead letters, when the first of them failed; without a relay, the last heartbeat.
    pub since: Option<DateTime<Utc>>,
    /// When the destination is tried next.
    pub next_probe: Option<DateTime<Utc>>,
    /// The last error, and its time: of dead letters, that of the newest.
    pub error: Option<(DateTime<Utc>, String)>,
    /// The user who paused the destination. Without one, the configuration did.
    pub paused_by: Option<String>,
    /// The share of successful attempts in the last five minutes.
    pub success_rate: Option<f64>,
    /// Some of the types of these events.
    pub event_types: Vec<String>,
    /// What is known about it, in a sentence.
    pub detail: Option<String>,
}

impl Problem {
    fn new(kind: ProblemKind) -> Self {
        Self {
            kind,
            destination: None,
            events: 0,
            at_least: false,
            oldest: None,
            since: None,
            next_probe: None,
            error: None,
            paused_by: None,
            success_rate: None,
            event_types: Vec::new(),
            detail: None,
        }
    }

    /// Returns the problem in a few words: `mail is down`.
    #[must_use]
    pub fn title(&self) -> String {
        let name = self.destination.as_deref().unwrap_or("a destination");
        match self.kind {
            ProblemKind::NoRelay => "No relay is running".to_owned(),
            ProblemKind::LogLost => "Events in the write-ahead log may be lost".to_owned(),
            ProblemKind::LogUnread => "No relay reads the write-ahead log".to_owned(),
            ProblemKind::LogBehind => "Events in the write-ahead log are late".to_owned(),
            ProblemKind::LogClosed => "Events are kept out of the write-ahead log".to_owned(),
            ProblemKind::Down => format!("{name} is down"),
            ProblemKind::Failing => format!("{name} is failing"),
            ProblemKind::Late => "Due events are late".to_owned(),
            ProblemKind::Unknown => format!("No running relay has {name}"),
            ProblemKind::Unrouted if self.event_types.is_empty() => "No route matches some events".to_owned(),
            ProblemKind::Unrouted => format!("No route matches {}", self.event_types.join(", ")),
            ProblemKind::RateLimited => format!("{name} is rate limited"),
            ProblemKind::Paused => format!("{name} is paused"),
            ProblemKind::DeadLetters => "Events failed for good".to_owned(),
        }
    }
}

impl Overview {
    /// Returns the problems, the worst first. Without problems, everything that was emitted is delivered in time.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        let is_running = self.observed.relays.iter().any(|relay| relay.alive);
        let mut problems: Vec<Problem> =
            self.destinations.iter().filter_map(|destination| of_destination(destination, is_running)).collect();
        if !is_running {
            let depth = &self.depth;
            let events = depth.due + depth.scheduled + depth.sending + depth.parked;
            problems.push(Problem {
                events,
                oldest: depth.oldest_due,
                since: self.observed.relays.iter().map(|relay| relay.heartbeat_at).max(),
                ..Problem::new(ProblemKind::NoRelay)
            });
        } else if let Some(oldest) = self.depth.oldest_due.filter(|age| *age > LATE) {
            let events = self.depth.due;
            problems.push(Problem { events, oldest: Some(oldest), ..Problem::new(ProblemKind::Late) });
        }
        if let Some(unrouted) = self.observed.waiting.iter().find(|waiting| waiting.on == UNROUTED) {
            problems.push(Problem {
                events: unrouted.count,
                at_least: unrouted.at_least,
                oldest: unrouted.oldest,
                event_types: self.observed.unrouted.clone(),
                ..Problem::new(ProblemKind::Unrouted)
            });
        }
        if self.depth.failed > 0 {
            let span = self.observed.dead_letters.as_ref();
            problems.push(Problem {
                events: self.depth.failed,
                at_least: self.depth.failed >= Depth::EXACT,
                since: span.map(|span| span.since),
                error: span.map(|span| span.last.clone()),
                ..Problem::new(ProblemKind::DeadLetters)
            });
        }
        problems.extend(self.log.iter().flat_map(of_log));
        // Of two problems of one kind, the one with more events comes first.
        problems.sort_by(|one, other| (one.kind, other.events).cmp(&(other.kind, one.events)));
        problems
    }
}

/// Returns the problems of the write-ahead log. One that is being disabled has none, unless a part of it is lost.
fn of_log(log: &LogView) -> Vec<Problem> {
    let (slot, from) = (&log.slot, log.confirmed.as_deref().unwrap_or("its beginning"));
    let found = |kind, detail| Problem { detail: Some(detail), ..Problem::new(kind) };
    if !log.is_whole {
        let detail = format!(
            "the replication slot {slot} does not exist or has lost its log behind {from}; compare with the application's data, then run \
             pillarbox wal disable --force --yes and pillarbox wal enable"
        );
        return vec![found(ProblemKind::LogLost, detail)];
    }
    if log.leaving {
        return Vec::new();
    }
    if !log.is_read {
        let detail = format!("the replication slot {slot} keeps the log; start a relay with [source] kind = \"wal\"");
        return vec![Problem { oldest: Some(log.behind), ..found(ProblemKind::LogUnread, detail) }];
    }
    let mut problems = Vec::new();
    if log.behind > LATE {
        problems.push(Problem { oldest: Some(log.behind), ..Problem::new(ProblemKind::LogBehind) });
    }
    if !log.closed.is_empty() {
        problems.push(found(ProblemKind::LogClosed, log.closed.clone()));
    }
    problems
}

fn of_destination(destination: &DestinationStatus, is_running: bool) -> Option<Problem> {
    let kind = match destination.health {
        Health::Down => ProblemKind::Down,
        Health::Failing => ProblemKind::Failing,
        Health::RateLimited => ProblemKind::RateLimited,
        Health::Paused => ProblemKind::Paused,
        // Without a relay, all destinations are unknown, and that is one problem.
        Health::Unknown if is_running && destination.waiting() > 0 => ProblemKind::Unknown,
        Health::Unknown | Health::Healthy => return None,
    };
    let paused = destination.paused.as_ref();
    Some(Problem {
        destination: Some(destination.name.clone()),
        events: destination.waiting(),
        at_least: destination.at_least,
        oldest: destination.oldest,
        since: match kind {
            ProblemKind::Failing => destination.failing_since,
            _ => paused.map(|paused| paused.paused_at).or(destination.down_since),
        },
        next_probe: destination.next_probe,
        error: destination.last_error.clone().filter(|_| kind != ProblemKind::Paused),
        paused_by: paused.map(|paused| paused.paused_by.clone()),
        success_rate: destination.recent.success_rate(),
        ..Problem::new(kind)
    })
}

#[cfg(test)]
mod tests {
    use pillarbox::Routes;
    use pillarbox::store::{LaneView, Minute, PausedView, RelayView, Waiting};
    use uuid::Uuid;

    use super::*;
    use crate::desk::{DeadSpan, Metrics, Observations};

    fn now() -> DateTime<Utc> {
        "2026-03-01T12:30:20Z".parse().unwrap()
    }

    fn overview(observed: Observations, depth: Depth) -> Overview {
        let destinations = observed.destinations(&[], &Routes::default());
        let metrics = Metrics::default();
        Overview { at: now(), depth, metrics, series: Vec::new(), destinations, observed, log: None }
    }

    fn running(lanes: Vec<LaneView>) -> RelayView {
        RelayView {
            id: Uuid::nil(),
            host: "vm".to_owned(),
            started_at: now(),
            heartbeat_at: now(),
            in_flight: 0,
            idle: false,
            configuration: None,
            alive: true,
            lanes,
        }
    }

    #[test]
    fn a_healthy_outbox_has_no_problems() {
        let observed =
            Observations { at: now(), relays: vec![running(vec![LaneView::new("mail")])], ..Observations::default() };
        let mut depth = Depth::default();
        (depth.due, depth.oldest_due) = (12, Some(Duration::from_secs(3)));
        assert_eq!(overview(observed, depth).problems(), []);
    }

    #[test]
    fn without_a_relay_that_is_the_problem() {
        let mut depth = Depth::default();
        (depth.due, depth.parked, depth.oldest_due) = (12, 3, Some(Duration::from_secs(900)));
        let observed =
            Observations { at: now(), waiting: vec![Waiting::new("mail", 3, None)], ..Observations::default() };
        let problems = overview(observed, depth).problems();
        let [problem] = &problems[..] else { panic!("{problems:?}") };
        assert_eq!((problem.kind, problem.events, problem.oldest), (ProblemKind::NoRelay, 15, depth.oldest_due));
        assert!(problem.kind.is_urgent() && problem.since.is_none());
        let silent = RelayView { alive: false, ..running(Vec::new()) };
        let observed = Observations { at: now(), relays: vec![silent], ..Observations::default() };
        assert_eq!(overview(observed, Depth::default()).problems()[0].since, Some(now()));
    }

    #[test]
    fn problems_say_what_waits_for_whom_since_when_and_why_and_the_worst_come_first() {
        let lane = |name: &str, change: fn(&mut LaneView)| {
            let mut lane = LaneView::new(name);
            change(&mut lane);
            lane
        };
        let lanes = vec![
            lane("crm", |lane| {
                (lane.down, lane.queued, lane.down_since) = (true, 2, Some(now()));
                (lane.last_error, lane.last_error_at, lane.probe_at) =
                    (Some("503".to_owned()), Some(now()), Some(now()));
            }),
            lane("ledger", |_| {}),
            lane("mail", |lane| lane.limited = true),
        ];
        let mut bad = Minute::new(now(), "ledger");
        (bad.delivered, bad.failed) = (1, 3);
        let paused = PausedView { destination: "audit".to_owned(), paused_at: now(), paused_by: "ann".to_owned() };
        let (hour, later) = (Some(Duration::from_secs(3600)), now() + chrono::TimeDelta::hours(1));
        let observed = Observations {
            at: now(),
            relays: vec![running(lanes)],
            minutes: vec![bad],
            pauses: vec![paused],
            waiting: vec![
                Waiting::new("crm", 35, hour),
                Waiting::new("gone", 1, hour),
                Waiting::new(UNROUTED, 4, None),
            ],
            unrouted: vec!["coupon.issued".to_owned()],
            dead_letters: Some(DeadSpan { since: now(), last: (later, "410".to_owned()) }),
            ..Observations::default()
        };
        let mut depth = Depth::default();
        (depth.failed, depth.oldest_due) = (7, Some(Duration::from_secs(61)));
        let problems = overview(observed, depth).problems();
        let titles: Vec<String> = problems.iter().map(Problem::title).collect();
        assert_eq!(
            titles,
            [
                "crm is down",
                "ledger is failing",
                "Due events are late",
                "No running relay has gone",
                "No route matches coupon.issued",
                "mail is rate limited",
                "audit is paused",
                "Events failed for good",
            ]
        );
        let down = &problems[0];
        assert_eq!((down.events, down.oldest, down.since, down.next_probe), (37, hour, Some(now()), Some(now())));
        assert_eq!(down.error, Some((now(), "503".to_owned())));
        assert_eq!((problems[1].success_rate, problems[6].paused_by.as_deref()), (Some(0.25), Some("ann")));
        assert_eq!(problems[1].since, Some(now()));
        assert_eq!((problems[4].events, problems[7].events), (4, 7));
        assert_eq!((problems[7].since, &problems[7].error), (Some(now()), &Some((later, "410".to_owned()))));
    }

    #[test]
    fn a_log_that_is_lost_unread_behind_or_closed_is_a_problem_and_a_good_one_is_none() {
        let problems = |change: fn(&mut LogView)| {
            let mut log = LogView::new("shop");
            change(&mut log);
            let observed = Observations { relays: vec![running(vec![])], ..Observations::default() };
            let overview = Overview { log: Some(log), ..overview(observed, Depth::default()) };
            let told = |problem: &Problem| (problem.kind, problem.detail.clone().unwrap_or_default(), problem.oldest);
            overview.problems().iter().map(told).collect::<Vec<_>>()
        };
        assert_eq!(problems(|_| {}), []);
        assert_eq!(problems(|log| (log.leaving, log.is_read, log.is_open) = (true, false, false)), []);
        let [(kind, detail, _)] = &problems(|log| (log.is_whole, log.leaving) = (false, true))[..] else { panic!() };
        assert_eq!(*kind, ProblemKind::LogLost);
        assert!(detail.contains("the replication slot shop") && detail.contains("wal disable --force"), "{detail}");
        let late = Some(Duration::from_secs(61));
        let unread = problems(|log| {
            (log.is_read, log.is_open, log.behind) = (false, false, Duration::from_secs(61));
        });
        let [(kind, detail, oldest)] = &unread[..] else { panic!("{unread:?}") };
        assert_eq!((*kind, *oldest), (ProblemKind::LogUnread, late));
        assert!(detail.contains("[source] kind"), "{detail}");
        let both = problems(|log| {
            (log.is_open, log.closed, log.behind) = (false, "the disk is full".to_owned(), Duration::from_secs(61));
        });
        let closed = (ProblemKind::LogClosed, "the disk is full".to_owned(), None);
        assert_eq!(both, [(ProblemKind::LogBehind, String::new(), late), closed]);
        assert!(ProblemKind::LogUnread.is_urgent() && !ProblemKind::LogClosed.is_urgent());
    }
}
