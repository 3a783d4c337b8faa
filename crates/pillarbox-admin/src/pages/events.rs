//! `/events`: a list that stays fast with any number of events, and `/search`.

use std::sync::Arc;

use askama::Template;
use axum::extract::State as Using;
use axum::response::Response;
use chrono::Utc;
use pillarbox::store::{Paging, State};
use serde::Deserialize;

use super::frame::{Frame, Looking, shown, then};
use super::narrowed::Narrowed;
use super::rows::Row;
use super::span::{Span, Step};
use super::words::{self, When};
use crate::asked::{Asked, bad, cursor};
use crate::desk::Desk;
use crate::refusal::{Refusal, in_query};

const PER_PAGE: usize = 50;
/// The first page refreshes at this interval, in seconds; later pages do not.
const REFRESH: u32 = 5;

#[derive(Deserialize)]
pub(super) struct EventsAsked {
    #[serde(flatten)]
    narrowed: Narrowed,
    #[serde(default)]
    cursor: String,
    #[serde(default)]
    oldest_first: String,
}

#[derive(Template)]
#[template(path = "events.html")]
struct Events {
    frame: Frame,
    narrowed: Narrowed,
    states: Vec<&'static str>,
    destinations: Vec<String>,
    /// The window in which the events failed, as text, and the link without it.
    window: Option<String>,
    unbound: String,
    /// The current span, and the spans to go to.
    path: Vec<Step>,
    parts: Vec<Step>,
    rows: Vec<Row>,
    /// The page to return to after an action on a row.
    here: String,
    next: Option<String>,
    first: Option<String>,
    /// The link to the other order, and its label.
    turned: Option<(String, &'static str)>,
    /// The time that the search reached, if the page is not full.
    reached: Option<When>,
    looked_at: String,
    /// The action on all of these events: the link and its label.
    bulk: Option<(String, &'static str)>,
    /// The text of an exact search, and the link to the search for partial matches.
    exactly: Option<(String, String)>,
}

impl Events {
    fn new(frame: Frame, narrowed: Narrowed, desk: &Desk) -> Result<Self, Refusal> {
        let now = Utc::now();
        let (path, parts) = match narrowed.span()? {
            Some(span) => (span.path(), span.parts(now)),
            None => (Vec::new(), Span::beginnings(now)),
        };
        Ok(Self {
            frame,
            states: State::ALL.iter().map(|state| state.as_str()).collect(),
            destinations: desk.destination_names(),
            window: window(&narrowed)?,
            unbound: Narrowed { hours: String::new(), failed_since: String::new(), ..narrowed.clone() }
                .link("/events", &[]),
            path,
            parts,
            rows: Vec::new(),
            here: narrowed.link("/events", &[]),
            next: None,
            first: None,
            turned: None,
            reached: None,
            looked_at: String::new(),
            bulk: None,
            exactly: None,
            narrowed,
        })
    }

    /// Returns the fields of the filter that its form does not show.
    fn kept(&self) -> Vec<(&'static str, String)> {
        let Narrowed { when, hours, failed_since, .. } = &self.narrowed;
        let all = [("when", when), ("hours", hours), ("failed_since", failed_since)];
        all.into_iter().filter(|(_, text)| !text.is_empty()).map(|(name, text)| (name, text.clone())).collect()
    }

    /// Returns the link to the same filter in another span.
    fn at(&self, when: &str) -> String {
        Narrowed { when: when.to_owned(), ..self.narrowed.clone() }.link("/events", &[])
    }
}

pub(super) async fn list(
    looking: Looking,
    Using(desk): Using<Arc<Desk>>,
    Asked(asked): Asked<EventsAsked>,
) -> Result<Response, Refusal> {
    let filter = asked.narrowed.filter()?;
    let (later, oldest_first) = (!asked.cursor.is_empty(), asked.oldest_first == "1");
    let after = later.then(|| cursor(&asked.cursor)).transpose()?;
    let found = desk.events(&filter, &Paging { after, limit: PER_PAGE, oldest_first }).await?;
    let frame = looking.frame("Events", if later { 0 } else { REFRESH });
    let (mut page, now) = (Events::new(frame, asked.narrowed, &desk)?, Utc::now());
    let order = if oldest_first { "1" } else { "" };
    let to = |cursor: &str, order: &str| page.narrowed.link("/events", &[("oldest_first", order), ("cursor", cursor)]);
    let next = found.next.as_ref().map(|cursor| to(&cursor.to_string(), order));
    let first = later.then(|| to("", order));
    // Waiting events are listed only in the order in which they are due.
    let can_turn = matches!(filter.state, None | Some(State::Delivered | State::Failed));
    let turned = can_turn.then(|| match oldest_first {
        true => (to("", ""), "Newest first"),
        false => (to("", "1"), "Oldest first"),
    });
    let here = to(&asked.cursor, order);
    page.reached =
        found.reached.filter(|_| next.is_some() && found.events.len() < PER_PAGE).map(|at| When::new(at, now));
    page.looked_at = words::number(found.looked_at);
    page.bulk = bulk(&page, filter.state);
    page.rows = Row::all(&found.events, now);
    (page.next, page.first, page.turned, page.here) = (next, first, turned, here);
    Ok(shown(&page))
}

/// Returns the window in which the events failed, as text.
fn window(narrowed: &Narrowed) -> Result<Option<String>, Refusal> {
    let since = narrowed.failed_since.trim();
    let since = (!since.is_empty()).then(|| format!("since {since}"));
    let hours = narrowed.hours()?.map(|hours| match hours {
        1 => "in the last hour".to_owned(),
        hours => format!("in the last {hours} hours"),
    });
    let parts: Vec<String> = hours.into_iter().chain(since).collect();
    Ok((!parts.is_empty()).then(|| format!("Only events that failed {}.", parts.join(" and "))))
}

/// Returns the action that is possible on all events of a state.
fn bulk(page: &Events, state: Option<State>) -> Option<(String, &'static str)> {
    let (action, name) = match state? {
        State::Failed => ("retry", "Retry all matching…"),
        State::Delivered => ("replay", "Replay all matching…"),
        _ => ("fail", "Mark all matching failed…"),
    };
    page.frame.acts.then(|| (page.narrowed.link("/bulk", &[("action", action)]), name))
}

#[derive(Deserialize)]
pub(super) struct SearchAsked {
    #[serde(default)]
    q: String,
}

/// Searches for an exact match first; without one, redirects to the search for partial matches.
pub(super) async fn search(
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
    let found = desk.find(text).await?;
    let parts = format!("/events?search={}", in_query(text));
    match found.as_slice() {
        [] => Ok(then(&parts)),
        [only] => Ok(then(&format!("/events/{}", only.id))),
        several => {
            let frame = Frame { searched: text.to_owned(), ..looking.frame("Events", 0) };
            let mut page = Events::new(frame, Narrowed::default(), &desk)?;
            page.rows = Row::all(several, Utc::now());
            page.here = format!("/search?q={}", in_query(text));
            page.exactly = Some((text.to_owned(), parts));
            Ok(shown(&page))
        }
    }
}
