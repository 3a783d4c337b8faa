//! `pillarbox events`: lists and shows events, and retries, replays and fails them.

use std::io::{BufRead, IsTerminal, Write};
use std::process::ExitCode;

use chrono::{DateTime, SecondsFormat, Utc};
use clap::{Args, Subcommand};
use pillarbox::store::{Filter, State};
use uuid::Uuid;

use super::{Misuse, Session};

mod act;
mod list;
mod retry;
mod show;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List events, the newest first
    List(list::Arguments),
    /// Show all details of one event
    Show {
        /// The event's id. Other text is searched: an aggregate (`42`, `Order 42`, `Order:42`) or a key
        #[arg(required = true, value_name = "ID")]
        id: Vec<String>,
    },
    /// Make events due now, with their attempts reset
    Retry(retry::Arguments),
    /// Emit delivered or failed events again, as new events
    Replay(act::Replay),
    /// Mark events failed: they become dead letters, and are not sent until a person retries them
    Fail(act::Fail),
}

pub(crate) async fn run(command: Command, session: &Session) -> anyhow::Result<ExitCode> {
    session.own(
        "use Django's admin and `manage.py celery_outbox_stats` for tasks, and retry dead letters with `manage.py \
         celery_outbox_replay_dead_letter`",
    )?;
    match command {
        Command::List(arguments) => list::run(arguments, session).await.map(|()| ExitCode::SUCCESS),
        Command::Show { id } => show::run(&id.join(" "), session).await.map(|()| ExitCode::SUCCESS),
        Command::Retry(arguments) => retry::run(arguments, session).await,
        Command::Replay(arguments) => act::replay(&arguments, session).await,
        Command::Fail(arguments) => act::fail(&arguments, session).await,
    }
}

/// A filter of events; each flag narrows it.
#[derive(Debug, Args)]
struct Which {
    /// Event type; * matches any characters: 'order.*'
    #[arg(long = "type", value_name = "PATTERN")]
    event_type: Option<String>,
    /// Exactly this aggregate type
    #[arg(long, value_name = "TYPE")]
    aggregate_type: Option<String>,
    /// Exactly this aggregate id
    #[arg(long, value_name = "ID")]
    aggregate_id: Option<String>,
    /// Part of the id, type, aggregate, key or error; case does not matter
    #[arg(long, value_name = "TEXT")]
    search: Option<String>,
    /// Emitted at or after this time: 2026-03-01T08:00:00Z, or this long ago: 2h
    #[arg(long, value_name = "MOMENT", value_parser = moment_or_age)]
    since: Option<DateTime<Utc>>,
}

impl Which {
    fn is_open(&self) -> bool {
        let Self { event_type, aggregate_type, aggregate_id, search, since } = self;
        [event_type, aggregate_type, aggregate_id, search].into_iter().all(Option::is_none) && since.is_none()
    }

    /// Returns the filter as text, for the audit.
    fn in_words(&self) -> String {
        let Self { event_type, aggregate_type, aggregate_id, search, since } = self;
        let since = since.map(moment);
        let parts = [
            ("type", event_type),
            ("aggregate type", aggregate_type),
            ("aggregate id", aggregate_id),
            ("search", search),
            ("since", &since),
        ];
        let parts =
            parts.into_iter().filter_map(|(name, value)| value.as_ref().map(|value| format!(", {name} {value}")));
        format!("failed events{}", parts.collect::<String>())
    }

    fn into_filter(self, state: Option<State>) -> Filter {
        Filter {
            state,
            event_type: self.event_type,
            aggregate_type: self.aggregate_type,
            aggregate_id: self.aggregate_id,
            search: self.search,
            since: self.since,
            ..Filter::default()
        }
    }
}

/// Reads the id of an event; says how to find it if the text is something else.
fn event_id(text: &str) -> Result<Uuid, String> {
    text.parse().map_err(|_| {
        format!("an event's id looks like {}; `pillarbox events show '{text}'` searches for events", Uuid::nil())
    })
}

fn moment_or_age(text: &str) -> Result<DateTime<Utc>, String> {
    if let Ok(moment) = text.parse() {
        return Ok(moment);
    }
    let age = humantime::parse_duration(text).ok().and_then(|age| chrono::TimeDelta::from_std(age).ok());
    let moment = age.and_then(|age| Utc::now().checked_sub_signed(age));
    moment.ok_or_else(|| "write a time like 2026-03-01T08:00:00Z or an age like 2h".to_owned())
}

/// Asks for confirmation. Many events are changed only after a person has seen their number, or with `--yes`.
pub(super) fn confirmed(events: &str, become_what: &str) -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() {
        return Err(Misuse(format!("{events} would be {become_what}; add --yes")).into());
    }
    let mut terminal = std::io::stderr().lock();
    write!(terminal, "{events} will be {become_what}. Continue? [y/N] ")?;
    terminal.flush()?;
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}

/// Formats a time to the second, in UTC.
pub(super) fn moment(moment: DateTime<Utc>) -> String {
    moment.to_rfc3339_opts(SecondsFormat::Secs, true)
}
