//! Problems on the overview: one line each, with a link to the page where they are solved. Pure.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::words::{self, When};
use crate::desk::{Problem, ProblemKind};
use crate::refusal::in_query;

/// The longest error that is shown in a line.
const ERROR: usize = 160;

/// A problem on the page.
pub(super) struct Line {
    /// A name that no other line has.
    pub(super) id: String,
    pub(super) kind: &'static str,
    pub(super) destination: String,
    pub(super) is_urgent: bool,
    pub(super) title: String,
    /// The page that helps, without the prefix.
    pub(super) place: String,
    pub(super) facts: Vec<Fact>,
    pub(super) error: Option<String>,
}

/// A fact in a few words. Some end with a time.
pub(super) struct Fact {
    pub(super) text: String,
    pub(super) at: Option<When>,
}

impl Fact {
    fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), at: None }
    }

    fn at(text: &str, at: DateTime<Utc>, now: DateTime<Utc>) -> Self {
        Self { text: text.to_owned(), at: Some(When::new(at, now)) }
    }
}

impl Line {
    pub(super) fn of(problem: &Problem, now: DateTime<Utc>) -> Self {
        let kind = name(problem.kind);
        let destination = problem.destination.clone().unwrap_or_default();
        let is_of_error = matches!(
            problem.kind,
            ProblemKind::Down | ProblemKind::Failing | ProblemKind::RateLimited | ProblemKind::DeadLetters
        );
        let error = problem.error.as_ref().filter(|_| is_of_error).map(|(_, error)| words::shortened(error, ERROR));
        Self {
            id: format!("problem-{kind}-{}", in_query(&destination)),
            kind,
            is_urgent: problem.kind.is_urgent(),
            title: problem.title(),
            place: place(problem),
            facts: facts(problem, now),
            error,
            destination,
        }
    }
}

fn name(kind: ProblemKind) -> &'static str {
    match kind {
        ProblemKind::NoRelay => "no-relay",
        ProblemKind::LogLost => "log-lost",
        ProblemKind::LogUnread => "log-unread",
        ProblemKind::LogBehind => "log-behind",
        ProblemKind::LogClosed => "log-closed",
        ProblemKind::Down => "down",
        ProblemKind::Failing => "failing",
        ProblemKind::Late => "late",
        ProblemKind::Unknown => "unknown",
        ProblemKind::Unrouted => "unrouted",
        ProblemKind::RateLimited => "rate-limited",
        ProblemKind::Paused => "paused",
        ProblemKind::DeadLetters => "dead-letters",
    }
}

/// Returns the page where the problem is solved.
fn place(problem: &Problem) -> String {
    let name = in_query(problem.destination.as_deref().unwrap_or_default());
    match problem.kind {
        ProblemKind::NoRelay => "/#relays".to_owned(),
        ProblemKind::LogLost | ProblemKind::LogUnread | ProblemKind::LogBehind | ProblemKind::LogClosed => {
            "/#log".to_owned()
        }
        ProblemKind::Down | ProblemKind::Failing | ProblemKind::RateLimited | ProblemKind::Paused => {
            format!("/destinations#{name}")
        }
        ProblemKind::Late => "/events?state=due&oldest_first=1".to_owned(),
        ProblemKind::Unknown => format!("/events?state=parked&parked_on={name}"),
        ProblemKind::Unrouted => "/events?state=parked&parked_on=unrouted".to_owned(),
        ProblemKind::DeadLetters => "/dead-letters".to_owned(),
    }
}

fn facts(problem: &Problem, now: DateTime<Utc>) -> Vec<Fact> {
    let mut facts = Vec::new();
    let since = |text: &str| problem.since.map(|since| Fact::at(text, since, now));
    let lasting = problem.since.map(|since| Fact { text: "for".to_owned(), at: Some(When::lasting(since, now)) });
    match problem.kind {
        ProblemKind::NoRelay => {
            facts.extend(since("the last heartbeat"));
            facts.push(Fact::new("start one with pillarbox relay"));
        }
        ProblemKind::Down | ProblemKind::RateLimited => facts.extend(lasting),
        ProblemKind::Paused => {
            let by = problem.paused_by.as_deref().unwrap_or("the configuration");
            facts.push(since(&format!("by {by}")).unwrap_or_else(|| Fact::new(format!("by {by}"))));
        }
        ProblemKind::Failing => {
            facts.extend(lasting);
            facts.extend(problem.success_rate.map(|rate| {
                Fact::new(format!("{} of the attempts of the last 5 minutes succeeded", words::share(rate)))
            }));
        }
        ProblemKind::Unknown => facts.push(Fact::new("add it to a configuration, or mark its events failed")),
        ProblemKind::Unrouted => facts.push(Fact::new("add a route")),
        ProblemKind::DeadLetters => {
            let last = |text: &str| problem.error.as_ref().map(|(at, _)| Fact::at(text, *at, now));
            if problem.events == 1 {
                facts.push(Fact::new("1 dead letter"));
                facts.extend(last("failed"));
            } else {
                facts.push(Fact::new(format!("{} dead letters", words::counted(problem.events, problem.at_least))));
                facts.extend(since("the first"));
                facts.extend(last("the last"));
            }
        }
        ProblemKind::LogUnread | ProblemKind::LogBehind => {
            facts.extend(problem.oldest.map(|age| Fact::new(format!("{} behind", words::age(age)))));
        }
        ProblemKind::LogLost | ProblemKind::LogClosed | ProblemKind::Late => {}
    }
    facts.extend(problem.detail.clone().map(Fact::new));
    if problem.kind != ProblemKind::DeadLetters && problem.events > 0 {
        facts.push(Fact::new(waiting(problem)));
    }
    let probe = problem.next_probe.filter(|_| problem.kind != ProblemKind::Paused);
    facts.extend(probe.map(|at| Fact { text: "next probe".to_owned(), at: Some(When::soon(at, now)) }));
    facts
}

/// Returns the number of waiting events and the age of the oldest.
fn waiting(problem: &Problem) -> String {
    let age = |age: Duration| format!(", the oldest for {}", words::age(age));
    format!("{}{}", words::waiting(problem.events, problem.at_least), problem.oldest.map(age).unwrap_or_default())
}
