//! `pillarbox events fail` and `pillarbox events replay`: actions on single events, through the desk.

use std::process::ExitCode;

use clap::Args;
use pillarbox::store::{Marked, Replayed};
use serde_json::json;
use uuid::Uuid;

use super::super::Session;
use super::super::completions::destinations;
use super::super::destinations::who;
use super::event_id;
use crate::admin;
use crate::output::count;

#[derive(Debug, Args)]
pub(crate) struct Fail {
    /// The events' ids
    #[arg(required = true, value_parser = event_id)]
    ids: Vec<Uuid>,
    /// The reason, which becomes part of the events' error
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
}

#[derive(Debug, Args)]
pub(crate) struct Replay {
    /// The events' ids
    #[arg(required = true, value_parser = event_id)]
    ids: Vec<Uuid>,
    /// Send the new events to this destination only; all their destinations by default
    #[arg(long, value_name = "NAME", add = destinations())]
    destination: Option<String>,
}

/// Returns success only if all events were changed.
fn code(changed: usize, of: usize) -> ExitCode {
    if changed == of { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

pub(super) async fn fail(arguments: &Fail, session: &Session) -> anyhow::Result<ExitCode> {
    let opened = session.open().await?;
    let desk = admin::desk(opened.people(), &session.settings);
    let answers = desk.fail(&arguments.ids, &arguments.reason, &who()).await?;
    let failed = answers.iter().filter(|(_, marked)| *marked == Marked::Failed).count();
    let events: Vec<_> = answers.iter().map(|(id, marked)| json!({ "id": id, "result": marked })).collect();
    session.output.answer(&json!({ "failed": failed, "events": events }), || {
        let refused = answers.iter().filter_map(|(id, marked)| refusal(*marked).map(|why| format!("{id} {why}\n")));
        format!("{}{} failed now", refused.collect::<String>(), count(failed as u64, "event"))
    })?;
    Ok(code(failed, answers.len()))
}

fn refusal(marked: Marked) -> Option<&'static str> {
    match marked {
        Marked::Failed => None,
        Marked::Already => Some("has already failed"),
        Marked::BeingSent => Some("is being sent right now; nothing was changed"),
        Marked::Delivered => Some("is already delivered; nothing was changed"),
        Marked::Unknown => Some("does not exist"),
    }
}

pub(super) async fn replay(arguments: &Replay, session: &Session) -> anyhow::Result<ExitCode> {
    let opened = session.open().await?;
    let desk = admin::desk(opened.people(), &session.settings);
    let answers = desk.replay(&arguments.ids, arguments.destination.as_deref(), &who()).await?;
    let replayed = answers.iter().filter(|(_, replayed)| matches!(replayed, Replayed::As { .. })).count();
    let events: Vec<_> = answers
        .iter()
        .map(|(id, replayed)| match replayed {
            Replayed::As { id: anew } => json!({ "id": id, "result": "replayed", "as": anew }),
            Replayed::Pending => json!({ "id": id, "result": "pending" }),
            Replayed::NotRouted => json!({ "id": id, "result": "not_routed" }),
            Replayed::Unknown => json!({ "id": id, "result": "unknown" }),
        })
        .collect();
    session.output.answer(&json!({ "replayed": replayed, "events": events }), || {
        let lines = answers.iter().map(|(id, replayed)| match replayed {
            Replayed::As { id: anew } => format!("{id} is replayed as {anew}\n"),
            Replayed::Pending => format!("{id} is not delivered yet; nothing was changed\n"),
            Replayed::NotRouted => format!("{id} is not routed to this destination; nothing was changed\n"),
            Replayed::Unknown => format!("{id} does not exist\n"),
        });
        lines.collect()
    })?;
    Ok(code(replayed, answers.len()))
}
