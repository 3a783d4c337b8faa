//! `pillarbox events list`.

use clap::Args;
use pillarbox::delivery::UNROUTED;
use pillarbox::store::{Cursor, EventView, Page, Paging, State};

use super::super::Session;
use super::super::completions::destinations;
use super::{Which, moment};
use crate::output::count;
use crate::table::{Align, Table, shortened};

/// The longest error in the table, in characters.
const NOTE_WIDTH: usize = 60;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// pending, due, scheduled, sending, parked, delivered or failed
    #[arg(long, value_parser = state)]
    state: Option<State>,
    /// Parked on this destination, or on `unrouted`
    #[arg(long, value_name = "DESTINATION", add = destinations())]
    parked_on: Option<String>,
    #[command(flatten)]
    which: Which,
    /// At most this many events
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Continue after this cursor, which the previous page prints
    #[arg(long, value_name = "CURSOR")]
    after: Option<Cursor>,
    /// The page before this cursor, which is `previous` of a page's JSON
    #[arg(long, value_name = "CURSOR", conflicts_with = "after")]
    before: Option<Cursor>,
    /// Only events with failed attempts, delivered ones too
    #[arg(long)]
    had_failures: bool,
    /// The oldest first; waiting events are always in the order in which they are due
    #[arg(long)]
    oldest_first: bool,
}

fn state(text: &str) -> Result<State, String> {
    State::parse(text).ok_or_else(|| {
        let names: Vec<&str> = State::ALL.iter().map(|state| state.as_str()).collect();
        format!("choose one of: {}", names.join(", "))
    })
}

pub(super) async fn run(arguments: Arguments, session: &Session) -> anyhow::Result<()> {
    let mut filter = arguments.which.into_filter(arguments.state);
    (filter.parked_on, filter.had_failures) = (arguments.parked_on, arguments.had_failures);
    let turn = Paging {
        after: arguments.after,
        before: arguments.before,
        limit: arguments.limit as usize,
        oldest_first: arguments.oldest_first,
    };
    let page = session.open().await?.inspect().list(&filter, &turn).await?;
    session.output.answer(&page, || render(&page.events))?;
    if let Some(next) = &page.next {
        session.output.note(&format!("{}: add --after {next}", how_far(&page, turn.limit)));
    }
    Ok(())
}

/// Returns why the list is incomplete.
fn how_far(page: &Page, limit: usize) -> String {
    match page.reached {
        Some(reached) if page.events.len() < limit => {
            format!("{} were searched, as far as {}; to continue", count(page.looked_at, "event"), moment(reached))
        }
        _ => "there are more".to_owned(),
    }
}

fn render(events: &[EventView]) -> String {
    if events.is_empty() {
        return "no events".to_owned();
    }
    let mut table = Table::new([
        ("ID", Align::Whole),
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

/// Returns the most important detail of the event's state.
fn note(event: &EventView) -> String {
    match (event.state, event.next_attempt_at) {
        (State::Parked, _) => waits_for(event),
        (State::Scheduled, Some(next)) if event.error_message.is_empty() => format!("at {}", moment(next)),
        (State::Scheduled, Some(next)) => format!("retry at {}: {}", moment(next), event.error_message),
        (State::Delivered, _) => String::new(),
        _ => event.error_message.clone(),
    }
}

fn waits_for(event: &EventView) -> String {
    match event.parked_on.as_deref() {
        None | Some(UNROUTED) => "parked: no route".to_owned(),
        Some(destination) => format!("parked on {destination}: {}", event.error_message),
    }
}
