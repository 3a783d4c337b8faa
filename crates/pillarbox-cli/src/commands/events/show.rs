//! `pillarbox events show`.

use anyhow::Context;
use pillarbox::store::{AttemptView, DeliveryView, EventDetail, EventView, State};
use pillarbox_admin::{OpaqueView, pretty};
use serde::Serialize;
use uuid::Uuid;

use super::super::{Misuse, Session};
use super::moment;
use crate::table::{Align, Table, fields, shortened};

const ERROR_WIDTH: usize = 100;
/// The event as it is shown. An opaque payload stands beside it, and the event's own is `null`.
#[derive(Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    detail: &'a EventDetail,
    #[serde(skip_serializing_if = "Option::is_none")]
    opaque_payload: Option<&'a OpaqueView>,
}

/// The number of events that are suggested.
const SUGGESTED: usize = 10;

pub(super) async fn run(text: &str, session: &Session) -> anyhow::Result<()> {
    let opened = session.open().await?;
    let Ok(id) = text.parse::<Uuid>() else {
        let found = opened.inspect().find(text).await?;
        let unseen = found.unseen.map_or_else(String::new, |unseen| format!("\n{unseen}"));
        return Err(Misuse(suggested(text, &found.events) + &unseen).into());
    };
    let detail = opened.inspect().get(id).await?;
    let mut detail = detail.with_context(|| format!("there is no event {id}; `pillarbox events list` lists events"))?;
    let mask = &session.settings.admin.mask;
    let opaque = OpaqueView::of(&detail, mask);
    mask.detail(&mut detail);
    if opaque.is_some() {
        detail.payload = Box::default();
    }
    let shown = Shown { detail: &detail, opaque_payload: opaque.as_ref() };
    Ok(session.output.answer(&shown, || render(&shown))?)
}

/// Returns the error for text that is not an id, with the events that the text may mean.
fn suggested(text: &str, found: &[EventView]) -> String {
    if found.is_empty() {
        return format!(
            "{text:?} is not the id of an event, and no event has this aggregate or key; `pillarbox events list --search \
             '{text}'` also searches parts of ids, types and errors"
        );
    }
    let mut told = format!("{text:?} is not the id of an event; these events match it:\n");
    for EventView { id, state, event_type, aggregate_type, aggregate_id, .. } in found.iter().take(SUGGESTED) {
        told.push_str(&format!("  {id}  {:<9}  {event_type}  {aggregate_type} {aggregate_id}\n", state.as_str()));
    }
    if found.len() > SUGGESTED {
        told.push_str(&format!("  and {} more\n", found.len() - SUGGESTED));
    }
    told.push_str("show one of them by its id");
    told
}

fn render(shown: &Shown<'_>) -> String {
    let detail = shown.detail;
    let mut text = fields(summary(detail));
    text.push_str("\npayload\n");
    text.push_str(&match shown.opaque_payload {
        Some(opaque) => indented(&opaque.to_string()),
        None => indented(&pretty(detail.payload.get())),
    });
    if !detail.headers.is_empty() {
        text.push_str("\nheaders\n");
        let headers = detail.headers.iter().map(|(name, value)| (name.as_str(), value.clone()));
        text.push_str(&indented(&fields(headers)));
    }
    if !detail.deliveries.is_empty() {
        text.push_str("\ndestinations\n");
        text.push_str(&indented(&deliveries(&detail.deliveries)));
    }
    let tried = detail.attempts();
    if !tried.is_empty() {
        text.push_str("\nattempts\n");
        text.push_str(&indented(&attempts(&tried)));
    }
    text
}

fn summary(detail: &EventDetail) -> Vec<(&'static str, String)> {
    let event = &detail.event;
    let limit = match event.max_attempts {
        None => "the relay's limit".to_owned(),
        Some(0) => "no limit".to_owned(),
        Some(limit) => format!("a limit of {limit}"),
    };
    let mut summary = vec![
        ("id", event.id.to_string()),
        ("seq", event.seq.to_string()),
        ("event", event.event_type.clone()),
        ("aggregate", format!("{} {}", event.aggregate_type, event.aggregate_id)),
        ("key", event.idempotency_key.clone()),
        ("state", event.state.as_str().to_owned()),
        ("failures", format!("{} ({limit})", event.attempts)),
        ("created", moment(event.created_at)),
        ("updated", moment(event.updated_at)),
    ];
    if event.claims > 0 {
        summary.push(("lost claims", event.claims.to_string()));
    }
    summary.extend(event.parked_on.as_ref().map(|on| ("parked on", on.clone())));
    if let (State::Scheduled | State::Due, Some(next)) = (event.state, event.next_attempt_at) {
        summary.push(("due", moment(next)));
    }
    summary.extend(event.delivered_at.map(|delivered| ("delivered", moment(delivered))));
    if !event.error_message.is_empty() {
        summary.push(("error", event.error_message.clone()));
    }
    summary
}

fn deliveries(deliveries: &[DeliveryView]) -> String {
    let mut table = Table::new([
        ("DESTINATION", Align::Left),
        ("STATUS", Align::Left),
        ("FAILURES", Align::Right),
        ("DELIVERED", Align::Left),
        ("ERROR", Align::Left),
    ]);
    for delivery in deliveries {
        table.row([
            delivery.destination.clone(),
            delivery.status.to_string(),
            delivery.attempts.to_string(),
            delivery.delivered_at.map(moment).unwrap_or_default(),
            shortened(&delivery.error, ERROR_WIDTH),
        ]);
    }
    table.render()
}

fn attempts(attempts: &[&AttemptView]) -> String {
    let mut table = Table::new([
        ("AT", Align::Left),
        ("DESTINATION", Align::Left),
        ("RESULT", Align::Left),
        ("TOOK", Align::Right),
        ("CODE", Align::Right),
        ("ERROR", Align::Left),
        ("ANSWER", Align::Left),
    ]);
    for attempt in attempts {
        table.row([
            moment(attempt.attempted_at),
            attempt.destination.clone(),
            if attempt.delivered { "delivered" } else { "failed" }.to_owned(),
            format!("{} ms", attempt.took_ms),
            attempt.status_code.map(|code| code.to_string()).unwrap_or_default(),
            shortened(&attempt.error, ERROR_WIDTH),
            shortened(attempt.answer.as_deref().unwrap_or_default(), ERROR_WIDTH),
        ]);
    }
    table.render()
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}\n")).collect()
}
