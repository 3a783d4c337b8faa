//! `pillarbox destinations`: lists, pauses and resumes destinations, and sends test events to them.

use std::process::ExitCode;
use std::time::Duration;

use chrono::{DateTime, Utc};
use clap::Subcommand;
use pillarbox_admin::Desk;
use pillarbox_admin::desk::{DestinationStatus, Health};
use serde_json::json;

use super::Session;
use super::completions::destinations;
use super::emit::name_and_value;
use super::events::moment;
use crate::admin;
use crate::table::{Align, Table};
use crate::top::{percent, short};

mod test;

/// The window of success and response times.
const WINDOW: Duration = Duration::from_secs(60 * 60);

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// The destinations with their health, what waits for them, and how fast they are: REPLY is the p95 of the receiver's response
    /// time, TOTAL that from commit to delivered, both of the last hour
    List,
    /// Send nothing to a destination until it is resumed; its events wait. All relays follow within a second
    Pause {
        /// The destination's name
        #[arg(add = destinations())]
        name: String,
    },
    /// End a pause
    Resume {
        /// The destination's name
        #[arg(add = destinations())]
        name: String,
    },
    /// Send one signed test event to a destination, as a relay would, and print the response; exits with 1 if it was not delivered
    ///
    /// It is marked by the header pillarbox-test: true, its type is pillarbox.test, and it is stored in no table of events. It is sent at
    /// once, also if the destination is paused or down. Celery brokers are refused, because a worker would run the test as a task.
    Test {
        /// The destination's name
        #[arg(add = destinations())]
        name: String,
        /// A header of the test event, for topics and the like that are made from headers; may be given several times
        #[arg(long = "header", value_name = "NAME=VALUE", value_parser = name_and_value)]
        headers: Vec<(String, String)>,
    },
}

pub(crate) async fn run(command: &Command, session: &Session) -> anyhow::Result<ExitCode> {
    if let Command::Test { name, headers } = command {
        return test::run(name, headers, session).await;
    }
    look_after(command, session).await?;
    Ok(ExitCode::SUCCESS)
}

async fn look_after(command: &Command, session: &Session) -> anyhow::Result<()> {
    session.own("pause the destination in the configuration of its relay")?;
    let opened = session.open().await?;
    let inspect = opened.inspect();
    match command {
        Command::List => list(&admin::desk(opened.people(), &session.settings), session).await,
        Command::Pause { name } => {
            session.settings.destination(name)?;
            let is_new = inspect.pause(name, &who()).await?;
            let text = if is_new { "is paused: its events are parked" } else { "was already paused" };
            Ok(session.output.answer(&json!({ "destination": name, "paused": true, "changed": is_new }), || {
                format!("{name} {text}")
            })?)
        }
        Command::Test { .. } => Ok(()),
        // The destination may be gone from the configuration.
        Command::Resume { name } => {
            let was_paused = inspect.resume(name, &who()).await?;
            let text = if was_paused { "is resumed" } else { "was not paused" };
            Ok(session
                .output
                .answer(&json!({ "destination": name, "paused": false, "changed": was_paused }), || {
                    format!("{name} {text}")
                })?)
        }
    }
}

async fn list(desk: &Desk, session: &Session) -> anyhow::Result<()> {
    let all = desk.destinations(WINDOW).await?;
    let (configured, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|one| one.configured.is_some());
    let described = configured.iter().map(|one| {
        json!({
            "name": one.name, "kind": kind(one), "health": one.health,
            "paused_in_configuration": one.is_paused_by_configuration(),
            "waiting": one.waiting(), "waiting_at_least": one.at_least,
            "oldest_waiting_seconds": one.oldest.map(|age| age.as_secs_f64()),
            "down_since": one.down_since, "next_probe_at": one.next_probe,
            "success_rate": one.metrics.success_rate(),
            "response_p50_seconds": seconds(one.metrics.response_p50),
            "response_p95_seconds": seconds(one.metrics.response_p95),
            "latency_p50_seconds": seconds(one.metrics.p50), "latency_p95_seconds": seconds(one.metrics.p95),
            "last_error": one.last_error.as_ref().map(|(_, error)| error),
            "last_error_at": one.last_error.as_ref().map(|(at, _)| at),
            "paused_at": one.paused.as_ref().map(|paused| paused.paused_at),
            "paused_by": one.paused.as_ref().map(|paused| &paused.paused_by),
        })
    });
    let answer: Vec<_> = described.collect();
    session.output.answer(&answer, || {
        let mut table = Table::new([
            ("NAME", Align::Left),
            ("KIND", Align::Left),
            ("HEALTH", Align::Left),
            ("WAITING", Align::Right),
            ("OLDEST", Align::Right),
            ("SUCCESS", Align::Right),
            ("REPLY", Align::Right),
            ("TOTAL", Align::Right),
            ("NOTE", Align::Left),
        ]);
        for one in &configured {
            table.row([
                one.name.clone(),
                kind(one).to_owned(),
                one.health.as_str().to_owned(),
                format!("{}{}", one.waiting(), if one.at_least { "+" } else { "" }),
                short(seconds(one.oldest)),
                one.metrics.success_rate().map_or_else(|| "–".to_owned(), percent),
                short(seconds(one.metrics.response_p95)),
                short(seconds(one.metrics.p95)),
                note(one, Utc::now()),
            ]);
        }
        table.render()
    })?;
    for gone in others.iter().filter(|one| one.paused.is_some()) {
        session.output.note(&format!("{} is also paused, but is not in the configuration", gone.name));
    }
    Ok(())
}

fn kind(destination: &DestinationStatus) -> &str {
    destination.configured.as_ref().map_or("", |configured| &configured.kind)
}

/// Returns the reason of its health: who paused it, since when it is down, when it is probed, and the last error.
fn note(destination: &DestinationStatus, now: DateTime<Utc>) -> String {
    if let Some(paused) = &destination.paused {
        return format!("paused by {} at {}", paused.paused_by, moment(paused.paused_at));
    }
    if destination.is_paused_by_configuration() {
        return "paused in the configuration".to_owned();
    }
    let since = destination.down_since.map(|since| format!("since {}", moment(since)));
    let probe = destination.next_probe.and_then(|at| (at - now).to_std().ok());
    let probe = probe.map(|wait| format!("next probe in {}", short(seconds(Some(wait)))));
    let error = destination.last_error.as_ref().filter(|_| destination.health != Health::Healthy);
    let parts = since.into_iter().chain(probe).chain(error.map(|(_, error)| error.clone()));
    parts.collect::<Vec<_>>().join(", ")
}

fn seconds(duration: Option<Duration>) -> Option<f64> {
    duration.map(|duration| duration.as_secs_f64())
}

/// Returns the user at the terminal.
pub(crate) fn who() -> String {
    let host = whoami::hostname().unwrap_or_else(|_| "?".to_owned());
    format!("{}@{host}", whoami::username().unwrap_or_else(|_| "?".to_owned()))
}
