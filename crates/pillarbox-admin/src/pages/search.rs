//! `/search`: the events that a text names, such as `Order 42`, and what the search could not see.

use std::collections::BTreeSet;
use std::sync::Arc;

use askama::Template;
use axum::extract::State as Using;
use axum::response::Response;
use chrono::Utc;
use pillarbox::store::{EventView, Found, SEARCH_LIMIT, Unseen};
use serde::Deserialize;

use super::chosen::{Choices, choices};
use super::frame::{Frame, Looking, shown, then};
use super::rows::Row;
use super::words;
use crate::asked::{Asked, bad};
use crate::desk::{Desk, Kept};
use crate::refusal::{Refusal, in_query};

/// The number of aggregates that the title names.
const NAMED: usize = 3;

#[derive(Deserialize)]
pub(super) struct SearchAsked {
    #[serde(default)]
    q: String,
}

#[derive(Template)]
#[template(path = "search.html")]
struct Search {
    frame: Frame,
    text: String,
    /// The aggregates of the events, as text.
    of: String,
    count: String,
    rows: Vec<Row>,
    choices: Choices,
    here: String,
    /// The link to the search for partial matches.
    parts: String,
    /// The largest number of events, if there may be more.
    most: Option<usize>,
    /// The events that were not searched.
    unseen: Option<String>,
    kept: Option<String>,
}

/// Searches for exact matches first. A single event with this id or key is shown itself. If there is none anywhere, redirects to
/// the search for partial matches.
pub(super) async fn look(
    looking: Looking,
    Using(desk): Using<Arc<Desk>>,
    Asked(asked): Asked<SearchAsked>,
) -> Result<Response, Refusal> {
    let text = asked.q.trim();
    if text.is_empty() {
        return Ok(then("/events"));
    }
    if text.contains('\0') {
        return Err(bad("the search contains a NUL character; remove it"));
    }
    let Found { events: found, unseen } = desk.find(text).await?;
    let parts = format!("/events?search={}", in_query(text));
    match found.as_slice() {
        [] if unseen.is_none() => return Ok(then(&format!("{parts}&did=parts"))),
        [only] if is_itself(only, text, unseen.as_ref()) => return Ok(then(&format!("/events/{}", only.id))),
        _ => {}
    }
    let frame = Frame { searched: text.to_owned(), ..looking.frame("Events", 0) };
    Ok(shown(&Search {
        of: if found.is_empty() { format!("“{text}”") } else { aggregates(&found) },
        count: match found.len() {
            0 => "No event".to_owned(),
            1 => "1 event".to_owned(),
            several => format!("{} events", words::number(several as u64)),
        },
        rows: Row::all(&found, &desk, Utc::now()),
        choices: choices(None).of(&frame),
        here: format!("/search?q={}", in_query(text)),
        parts,
        most: (found.len() >= SEARCH_LIMIT).then_some(SEARCH_LIMIT),
        unseen: unseen.map(|unseen| unseen.to_string()),
        kept: desk.kept().map(kept_note),
        text: text.to_owned(),
        frame,
    }))
}

/// Returns whether the text is the event's id or key, and not only its aggregate. A key may also name an aggregate, with events
/// that were not searched.
fn is_itself(event: &EventView, text: &str, unseen: Option<&Unseen>) -> bool {
    let is_key = event.idempotency_key == text && unseen.is_none();
    is_key || uuid::Uuid::parse_str(text).is_ok_and(|id| id == event.id)
}

/// Returns the aggregates of events: `Invoice 42, Order 42`.
fn aggregates(events: &[EventView]) -> String {
    let all: BTreeSet<String> =
        events.iter().map(|event| format!("{} {}", event.aggregate_type, event.aggregate_id)).collect();
    let more = all.len().saturating_sub(NAMED);
    let named = all.into_iter().take(NAMED).collect::<Vec<_>>().join(", ");
    if more > 0 { format!("{named} and {more} more") } else { named }
}

/// Returns which delivered events cannot be found, and why.
pub(super) fn kept_note(kept: Kept) -> String {
    match kept {
        Kept::For(kept) => {
            format!(
                "Delivered events are deleted {} after their delivery, and cannot be found later.",
                words::duration(kept)
            )
        }
        Kept::UntilDelivered => {
            "Delivered events cannot be found: relays delete them on delivery (relay.on_delivered = \"delete\")."
                .to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_note_says_what_cannot_be_found() {
        assert!(kept_note(Kept::For(Duration::from_secs(7 * 86_400))).contains("deleted 7 d after"));
        assert!(kept_note(Kept::UntilDelivered).contains("on_delivered"));
    }
}
