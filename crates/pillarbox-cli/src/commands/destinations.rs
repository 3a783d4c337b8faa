//! `pillarbox destinations`: what is configured and what is paused; pause and resume.

use clap::Subcommand;
use pillarbox::Inspect;
use pillarbox::store::{LaneView, PausedView};
use serde_json::json;

use super::events::moment;
use super::{Misuse, Session};
use crate::config::suggestion;
use crate::table::{Align, Table};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// The destinations of the configuration, and what is paused
    List,
    /// Send nothing to a destination until it is resumed: its events wait, on all relays, within a second
    Pause {
        /// Its name
        name: String,
    },
    /// End a pause
    Resume {
        /// Its name
        name: String,
    },
}

pub(crate) async fn run(command: &Command, session: &Session) -> anyhow::Result<()> {
    session.own("pause the destination in the configuration of its relay")?;
    let opened = session.open().await?;
    let inspect = opened.inspect();
    match command {
        Command::List => list(inspect, session).await,
        Command::Pause { name } => {
            let known: Vec<&str> = names(session).collect();
            if !known.contains(&name.as_str()) {
                let nearest = suggestion(name, known.iter().copied());
                return Err(Misuse(format!("there is no destination {name:?} in the configuration{nearest}")).into());
            }
            let is_new = inspect.pause(name, &who()).await?;
            let text = if is_new { "is paused: its events wait" } else { "was paused already" };
            Ok(session.output.answer(&json!({ "destination": name, "paused": true, "changed": is_new }), || {
                format!("{name} {text}")
            })?)
        }
        // Also one that is gone from the configuration.
        Command::Resume { name } => {
            let was_paused = inspect.resume(name, &who()).await?;
            let text = if was_paused { "goes on" } else { "was not paused" };
            Ok(session
                .output
                .answer(&json!({ "destination": name, "paused": false, "changed": was_paused }), || {
                    format!("{name} {text}")
                })?)
        }
    }
}

async fn list(inspect: &dyn Inspect, session: &Session) -> anyhow::Result<()> {
    let (pauses, relays) = tokio::try_join!(inspect.pauses(), inspect.relays())?;
    let lanes: Vec<LaneView> = relays.into_iter().flat_map(|relay| relay.lanes).collect();
    let configured = session.settings.destinations.iter().map(|destination| {
        let pause = pauses.iter().find(|pause| pause.destination == destination.name);
        json!({
            "name": destination.name, "kind": destination.kind(), "paused_in_configuration": destination.paused,
            "down": lanes_of(&lanes, &destination.name).any(|lane| lane.down),
            "paused_at": pause.map(|pause| pause.paused_at), "paused_by": pause.map(|pause| &pause.paused_by),
        })
    });
    let answer: Vec<_> = configured.collect();
    let gone: Vec<&PausedView> =
        pauses.iter().filter(|pause| !names(session).any(|name| name == pause.destination)).collect();
    session.output.answer(&answer, || {
        let mut table = Table::new([("NAME", Align::Left), ("KIND", Align::Left), ("STATE", Align::Left)]);
        for destination in &session.settings.destinations {
            let pause = pauses.iter().find(|pause| pause.destination == destination.name);
            let state = match pause {
                Some(pause) => format!("paused by {} at {}", pause.paused_by, moment(pause.paused_at)),
                None if destination.paused => "paused in the configuration".to_owned(),
                None => found(lanes_of(&lanes, &destination.name)),
            };
            table.row([destination.name.clone(), destination.kind().to_owned(), state]);
        }
        table.render()
    })?;
    for pause in gone {
        session.output.note(&format!("{} is paused, too, and not in the configuration", pause.destination));
    }
    Ok(())
}

fn lanes_of<'a>(lanes: &'a [LaneView], name: &'a str) -> impl Iterator<Item = &'a LaneView> {
    lanes.iter().filter(move |lane| lane.destination == name)
}

/// As the relays that live find it.
fn found<'a>(lanes: impl Iterator<Item = &'a LaneView>) -> String {
    let mut state = "open";
    for lane in lanes {
        if lane.down {
            return format!("down: {}", lane.last_error.as_deref().unwrap_or("no reason is known"));
        }
        if lane.congested {
            state = "behind";
        }
    }
    state.to_owned()
}

fn names(session: &Session) -> impl Iterator<Item = &str> {
    session.settings.destinations.iter().map(|destination| destination.name.as_str())
}

/// Whoever sits at the terminal.
pub(crate) fn who() -> String {
    let host = whoami::hostname().unwrap_or_else(|_| "?".to_owned());
    format!("{}@{host}", whoami::username().unwrap_or_else(|_| "?".to_owned()))
}
