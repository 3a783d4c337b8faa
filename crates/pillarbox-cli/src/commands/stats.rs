//! `pillarbox stats`: the outbox in numbers.

use std::time::Duration;

use pillarbox::store::Counts;

use super::Session;
use super::events::moment;
use crate::table::{Align, Table, fields};

pub(crate) async fn run(session: &Session) -> anyhow::Result<()> {
    let counts = session.open().await?.inspect().counts().await?;
    let database = session.settings.database.shown();
    Ok(session.output.answer(&counts, || format!("the outbox in {database}\n\n{}", render(&counts)))?)
}

fn render(counts: &Counts) -> String {
    let waits = counts.oldest_due.map(|oldest| format!("  (the oldest for {})", rounded(oldest)));
    let mut rows = vec![
        ("due".to_owned(), counts.due, waits.unwrap_or_default()),
        ("scheduled".to_owned(), counts.scheduled, String::new()),
        ("sending".to_owned(), counts.sending, String::new()),
    ];
    rows.extend(counts.parked.iter().map(|parked| (format!("parked on {}", parked.on), parked.count, String::new())));
    rows.push(("failed".to_owned(), counts.failed, String::new()));
    rows.push(("delivered".to_owned(), counts.delivered, String::new()));
    let width = rows.iter().map(|(_, count, _)| count.to_string().len()).max().unwrap_or(0);
    let mut text = fields(rows.iter().map(|(name, count, more)| (name.as_str(), format!("{count:>width$}{more}"))));
    text.push('\n');
    text.push_str(&relays(counts));
    text
}

fn relays(counts: &Counts) -> String {
    if counts.relays.is_empty() {
        return "no relay is running".to_owned();
    }
    let mut table = Table::new([
        ("RELAY", Align::Left),
        ("HOST", Align::Left),
        ("STATE", Align::Left),
        ("IN FLIGHT", Align::Right),
        ("STARTED", Align::Left),
        ("LAST HEARD OF", Align::Left),
    ]);
    for relay in &counts.relays {
        let state = match (relay.alive, relay.idle) {
            (false, _) => "silent",
            (true, true) => "idle",
            (true, false) => "busy",
        };
        table.row([
            relay.id.to_string(),
            relay.host.clone(),
            state.to_owned(),
            relay.in_flight.to_string(),
            moment(relay.started_at),
            moment(relay.heartbeat_at),
        ]);
    }
    table.render()
}

/// Nobody wants nanoseconds.
fn rounded(duration: Duration) -> humantime::FormattedDuration {
    humantime::format_duration(Duration::from_secs(duration.as_secs()))
}
