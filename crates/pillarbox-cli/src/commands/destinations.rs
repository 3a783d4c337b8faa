//! `pillarbox destinations`: lists, pauses and resumes destinations.

use std::time::Duration;

use clap::Subcommand;
use pillarbox_admin::Desk;
use pillarbox_admin::desk::{DestinationStatus, Health};
use serde_json::json;

use super::events::moment;
use super::{Misuse, Session};
use crate::admin;
use crate::config::suggestion;
use crate::table::{Align, Table};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// The destinations of the configuration, and what is paused
    List,
    /// Send nothing to a destination until it is resumed; its events wait. All relays follow within a second
    Pause {
        /// The destination's name
        name: String,
    },
    /// End a pause
    Resume {
        /// The destination's name
        name: String,
    },
}

pub(crate) async fn run(command: &Command, session: &Session) -> anyhow::Result<()> {
    session.own("pause the destination in the configuration of its relay")?;
    let opened = session.open().await?;
    let inspect = opened.inspect();
    match command {
        Command::List => list(&admin::desk(opened.people(), &session.settings), session).await,
        Command::Pause { name } => {
            let known: Vec<&str> = names(session).collect();
            if !known.contains(&name.as_str()) {
                let nearest = suggestion(name, known.iter().copied());
                return Err(Misuse(format!("there is no destination {name:?} in the configuration{nearest}")).into());
            }
            let is_new = inspect.pause(name, &who()).await?;
            let text = if is_new { "is paused: its events are parked" } else { "was already paused" };
            Ok(session.output.answer(&json!({ "destination": name, "paused": true, "changed": is_new }), || {
                format!("{name} {text}")
            })?)
        }
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
    let all = desk.destinations(Duration::ZERO).await?;
    let (configured, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|one| one.configured.is_some());
    let described = configured.iter().map(|one| {
        json!({
            "name": one.name, "kind": kind(one), "health": one.health,
            "paused_in_configuration": one.is_paused_by_configuration(),
            "down": one.lanes.iter().any(|lane| lane.lane.down),
            "paused_at": one.paused.as_ref().map(|paused| paused.paused_at),
            "paused_by": one.paused.as_ref().map(|paused| &paused.paused_by),
        })
    });
    let answer: Vec<_> = described.collect();
    session.output.answer(&answer, || {
        let mut table = Table::new([("NAME", Align::Left), ("KIND", Align::Left), ("STATE", Align::Left)]);
        for one in &configured {
            table.row([one.name.clone(), kind(one).to_owned(), state(one)]);
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

/// Returns its health, as the admin names it, and the reason.
fn state(destination: &DestinationStatus) -> String {
    match (&destination.paused, destination.health) {
        (Some(paused), _) => format!("paused by {} at {}", paused.paused_by, moment(paused.paused_at)),
        (None, Health::Paused) if destination.is_paused_by_configuration() => "paused in the configuration".to_owned(),
        (None, Health::Down) => {
            let error = destination.last_error.as_ref().map_or("reason unknown", |(_, error)| error);
            format!("down: {error}")
        }
        (None, health) => health.as_str().to_owned(),
    }
}

fn names(session: &Session) -> impl Iterator<Item = &str> {
    session.settings.destinations.iter().map(|destination| destination.name.as_str())
}

/// Returns the user at the terminal.
pub(crate) fn who() -> String {
    let host = whoami::hostname().unwrap_or_else(|_| "?".to_owned());
    format!("{}@{host}", whoami::username().unwrap_or_else(|_| "?".to_owned()))
}
