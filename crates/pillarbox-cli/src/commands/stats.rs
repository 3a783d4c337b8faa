//! `pillarbox stats`: the outbox in numbers.

use std::time::Duration;

use pillarbox::store::celery_outbox::QueueDepth;
use pillarbox::store::{Counts, Waiting};
use pillarbox_admin::desk::Health;
use serde_json::json;

use super::Session;
use super::events::moment;
use crate::store::{Missing, Source};
use crate::table::{Align, Table, fields};

pub(crate) async fn run(session: &Session) -> anyhow::Result<()> {
    let (counts, waiting) = match session.source(Missing::Refuse).await? {
        Source::Own(opened) | Source::Log(opened, _) => {
            let inspect = opened.inspect();
            (inspect.counts().await?, inspect.waiting().await?)
        }
        Source::Adopted(store) => return adopted(session, store.depth().await?),
    };
    let database = session.settings.database.shown();
    Ok(session.output.answer(&counts, || format!("the outbox in {database}\n\n{}", render(&counts, &waiting)))?)
}

/// Prints the counts that are cheap on the tables of django-celery-outbox. Its own command prints the rest.
fn adopted(session: &Session, depth: QueueDepth) -> anyhow::Result<()> {
    let QueueDepth { due, oldest, dead_letters, .. } = depth;
    let answer = json!({
        "due": due, "failed": dead_letters, "oldest_due_seconds": oldest.map(|oldest| oldest.as_secs_f64()),
    });
    session.output.answer(&answer, || {
        let waits = oldest.map_or(String::new(), |oldest| format!("  (oldest for {})", rounded(oldest)));
        let width = due.to_string().len().max(dead_letters.to_string().len());
        let counts = [("due", format!("{due:>width$}{waits}")), ("dead letters", format!("{dead_letters:>width$}"))];
        let database = session.settings.database.shown();
        format!("the tables of django-celery-outbox in {database}\n\n{}", fields(counts))
    })?;
    session.output.note("`manage.py celery_outbox_stats` prints more");
    Ok(())
}

fn render(counts: &Counts, waiting: &[Waiting]) -> String {
    let waits = counts.oldest_due.map(|oldest| format!("  (oldest for {})", rounded(oldest)));
    let mut rows = vec![
        ("due".to_owned(), counts.due, waits.unwrap_or_default()),
        ("scheduled".to_owned(), counts.scheduled, String::new()),
        ("sending".to_owned(), counts.sending, String::new()),
    ];
    rows.extend(
        counts
            .parked
            .iter()
            .map(|parked| (format!("parked on {}", parked.on), parked.count, reason(counts, waiting, &parked.on))),
    );
    rows.push(("failed".to_owned(), counts.failed, String::new()));
    rows.push(("delivered".to_owned(), counts.delivered, String::new()));
    let width = rows.iter().map(|(_, count, _)| count.to_string().len()).max().unwrap_or(0);
    let mut text = fields(rows.iter().map(|(name, count, more)| (name.as_str(), format!("{count:>width$}{more}"))));
    text.push('\n');
    text.push_str(&relays(counts));
    text
}

/// Returns how long the oldest event has waited for this destination, and the destination's health.
fn reason(counts: &Counts, waiting: &[Waiting], on: &str) -> String {
    let oldest = waiting.iter().find(|waiting| waiting.on == on).and_then(|waiting| waiting.oldest);
    let alive = counts.relays.iter().filter(|relay| relay.alive);
    let lanes = alive.flat_map(|relay| &relay.lanes).filter(|lane| lane.destination == on);
    let health = lanes.map(Health::of).max().map(|health| format!("{on} is {}", health.as_str()));
    let parts: Vec<String> =
        oldest.map(|oldest| format!("oldest for {}", rounded(oldest))).into_iter().chain(health).collect();
    if parts.is_empty() { String::new() } else { format!("  ({})", parts.join("; ")) }
}

fn relays(counts: &Counts) -> String {
    if counts.relays.is_empty() {
        return "no relay is running".to_owned();
    }
    let mut table = Table::new([
        ("RELAY", Align::Whole),
        ("HOST", Align::Left),
        ("STATE", Align::Left),
        ("IN FLIGHT", Align::Right),
        ("STARTED", Align::Left),
        ("HEARTBEAT", Align::Left),
    ]);
    for relay in &counts.relays {
        table.row([
            relay.id.to_string(),
            relay.host.clone(),
            relay.state().to_owned(),
            relay.in_flight.to_string(),
            moment(relay.started_at),
            moment(relay.heartbeat_at),
        ]);
    }
    table.render()
}

/// Rounds a duration, so that no nanoseconds are shown.
fn rounded(duration: Duration) -> humantime::FormattedDuration {
    humantime::format_duration(Duration::from_secs(duration.as_secs()))
}
