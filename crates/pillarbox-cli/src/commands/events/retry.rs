//! `pillarbox events retry`: retries events by id, or all dead letters that match the filters.

use std::process::ExitCode;

use clap::Args;
use pillarbox::store::{Entry, Paging, Retried, Selection, State};
use pillarbox::{Inspect, StoreError};
use serde_json::json;
use uuid::Uuid;

use super::super::destinations::who;
use super::super::{Misuse, Session};
use super::{Which, confirmed, event_id};
use crate::output::count;

/// Events per statement.
const BATCH: usize = 500;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The events' ids
    #[arg(required_unless_present = "failed", conflicts_with = "failed", value_parser = event_id)]
    ids: Vec<Uuid>,
    /// All failed events that match the filters
    #[arg(long)]
    failed: bool,
    #[command(flatten)]
    which: Which,
    /// At most this many events, the oldest first
    #[arg(long, requires = "failed", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// Do not ask for confirmation
    #[arg(long, short, requires = "failed")]
    yes: bool,
}

pub(super) async fn run(arguments: Arguments, session: &Session) -> anyhow::Result<ExitCode> {
    if !arguments.failed && !arguments.which.is_open() {
        return Err(Misuse("filters apply to failed events only; add --failed, or give only ids".to_owned()).into());
    }
    let opened = session.open().await?;
    let inspect = opened.inspect();
    let target = match &arguments.ids[..] {
        [] => arguments.which.in_words(),
        [id] => id.to_string(),
        ids => count(ids.len() as u64, "event"),
    };
    let ids = if arguments.failed {
        let ids = failed(inspect, arguments.which, arguments.limit).await?;
        let none = if ids.is_empty() { Some("no matching failed events") } else { None };
        if none.is_some() || !arguments.yes && !confirmed(&count(ids.len() as u64, "failed event"), "retried")? {
            let why = none.unwrap_or("nothing was changed");
            session.output.answer(&json!({ "due": 0, "events": [] }), || why.to_owned())?;
            return Ok(ExitCode::SUCCESS);
        }
        ids
    } else {
        arguments.ids
    };
    let mut answers = Vec::with_capacity(ids.len());
    let who = who();
    let mut entry = Entry::Anew { who: &who, target: &target };
    if ids.len() > BATCH {
        let line = inspect.open_entry(&who, "retry", &target).await?;
        entry = Entry::Adding { line, unchanged_since: None };
    }
    for batch in ids.chunks(BATCH) {
        answers.extend(inspect.retry(&Selection::Ids(batch.to_vec()), entry).await?);
        if ids.len() > BATCH {
            session.output.note(&format!("{} of {}", answers.len(), ids.len()));
        }
    }
    let all_due = answer(session, &answers)?;
    // An event that changed after the search needs no retry. A refused event that was named by its id is a failure.
    Ok(if all_due || arguments.failed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns the failed events that match the filters, oldest first.
async fn failed(inspect: &dyn Inspect, which: Which, limit: Option<u32>) -> Result<Vec<Uuid>, StoreError> {
    let filter = which.into_filter(Some(State::Failed));
    let most = limit.map_or(usize::MAX, |limit| limit as usize);
    let mut turn = Paging { limit: BATCH, oldest_first: true, ..Paging::default() };
    let mut ids = Vec::new();
    loop {
        let page = inspect.list(&filter, &turn).await?;
        ids.extend(page.events.iter().map(|event| event.id));
        match page.next {
            Some(next) if ids.len() < most => turn = turn.after(next),
            _ => break,
        }
    }
    ids.truncate(most);
    Ok(ids)
}

/// Prints the result, and returns whether all events are due now.
fn answer(session: &Session, answers: &[(Uuid, Retried)]) -> anyhow::Result<bool> {
    let due = answers.iter().filter(|(_, retried)| *retried == Retried::Due).count();
    let events: Vec<_> = answers.iter().map(|(id, retried)| json!({ "id": id, "result": retried })).collect();
    session.output.answer(&json!({ "due": due, "events": events }), || {
        let refused = answers.iter().filter_map(|(id, retried)| refusal(*retried).map(|why| format!("{id} {why}\n")));
        format!("{}{} due now", refused.collect::<String>(), count(due as u64, "event"))
    })?;
    Ok(due == answers.len())
}

fn refusal(retried: Retried) -> Option<&'static str> {
    match retried {
        Retried::Due => None,
        Retried::BeingSent => Some("is being sent right now; nothing was changed"),
        Retried::Delivered => Some("is already delivered; nothing was changed"),
        Retried::Unknown => Some("does not exist"),
    }
}
