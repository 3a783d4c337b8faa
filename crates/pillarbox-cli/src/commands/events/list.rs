//! `pillarbox events list`.

use clap::Args;
use pillarbox::delivery::UNROUTED;
use pillarbox::store::{EventView, State};
use serde_json::json;

use super::super::Session;
use super::{Which, moment};
use crate::table::{Align, Table, shortened};

/// How much of an error a table shows.
const NOTE_WIDTH: usize = 60;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// pending, due, scheduled, sending, parked, delivered or failed
    #[arg(long, value_parser = state)]
    state: Option<State>,
    /// Parked on this destination, or on `unrouted`
    #[arg(long, value_name = "DESTINATION")]
    parked_on: Option<String>,
    #[command(flatten)]
    which: Which,
    /// At most so many
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Only events before this sequence number: the next page
    #[arg(long, value_name = "SEQ")]
    before: Option<i64>,
}

fn state(text: &str) -> Result<State, String> {
    State::parse(text).ok_or_else(|| {
        let names: Vec<&str> = State::ALL.iter().map(|state| state.as_str()).collect();
        format!("there are {}", names.join(", "))
    })
}

pub(super) async fn run(arguments: Arguments, session: &Session) -> anyhow::Result<()> {
    let limit = arguments.limit as usize;
    let mut filter = arguments.which.into_filter(arguments.state, limit);
    filter.parked_on = arguments.parked_on;
    filter.before = arguments.before;
    let events = session.open().await?.inspect().list(&filter).await?;
    let next = events.last().filter(|_| events.len() == limit).map(|event| event.seq);
    session.output.answer(&json!({ "events": events, "next_before": next }), || render(&events))?;
    if let Some(next) = next {
        session.output.note(&format!("there may be more: add --before {next}"));
    }
    Ok(())
}

fn render(events: &[EventView]) -> String {
    if events.is_empty() {
        return "no events".to_owned();
    }
    let mut table = Table::new([
        ("ID", Align::Left),
        ("STATE", Align::Left),
        ("EVENT", Align::Left),
        ("AGGREGATE", Align::Left),
        ("CREATED", Align::Left),
        ("FAILURES", Align::Right),
        ("NOTE", Align::Left),
    ]);
    for event in events {
        table.row([
            event.id.to_string(),
            event.state.as_str().to_owned(),
            event.event_type.clone(),
            format!("{} {}", event.aggregate_type, event.aggregate_id),
            moment(event.created_at),
            event.attempts.to_string(),
            shortened(&note(event), NOTE_WIDTH),
        ]);
    }
    table.render()
}

/// What one wants to know next.
fn note(event: &EventView) -> String {
    match (event.state, event.next_attempt_at) {
        (State::Parked, _) => waits_for(event),
        (State::Scheduled, Some(next)) if event.error_message.is_empty() => format!("at {}", moment(next)),
        (State::Scheduled, Some(next)) => format!("again at {}: {}", moment(next), event.error_message),
        (State::Delivered, _) => String::new(),
        _ => event.error_message.clone(),
    }
}

fn waits_for(event: &EventView) -> String {
    match event.parked_on.as_deref() {
        None | Some(UNROUTED) => "waits for a route".to_owned(),
        Some(destination) => format!("waits for {destination}: {}", event.error_message),
    }
}
