//! `/events`: a list that stays fast with any number of events.

use std::sync::Arc;

use askama::Template;
use axum::extract::State as Using;
use axum::response::Response;
use chrono::Utc;
use pillarbox::store::{Depth, Page, Paging, State};
use serde::Deserialize;

use super::chosen::{Choices, choices};
use super::frame::{Frame, Looking, shown, then};
use super::narrowed::{Narrowed, flag};
use super::rows::Row;
use super::search::kept_note;
use super::span::{Span, Step};
use super::words::{self, When};
use crate::asked::{AskedBoth, bad, cursor};
use crate::desk::Desk;
use crate::refusal::Refusal;

const PER_PAGE: usize = 50;
/// The first page refreshes at this interval, in seconds; later pages do not.
const REFRESH: u32 = 5;

/// The part of the list to show.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Turned {
    cursor: String,
    before: String,
    oldest_first: String,
}

#[derive(Template)]
#[template(path = "events.html")]
struct Events {
    frame: Frame,
    narrowed: Narrowed,
    tabs: Vec<Tab>,
    destinations: Vec<String>,
    /// The window in which the events failed, as text, and the link without it.
    window: Option<String>,
    unbound: String,
    /// The current span, and the spans to go to.
    path: Vec<Step>,
    parts: Vec<Step>,
    rows: Vec<Row>,
    /// The actions on rows that are chosen.
    choices: Choices,
    /// The page to return to after an action on a row.
    here: String,
    links: Links,
    /// The time that the search reached, if the page is not full.
    reached: Option<When>,
    looked_at: String,
    /// The action on all of these events: the link and its label.
    bulk: Option<(String, &'static str)>,
    /// How long delivered events are kept, if somebody may look for one.
    kept: Option<String>,
}

/// The list of one state.
struct Tab {
    name: &'static str,
    link: String,
    here: bool,
    /// The number of events, if it is known.
    count: Option<String>,
}

/// The links to other pages of the list.
struct Links {
    next: Option<String>,
    previous: Option<String>,
    first: Option<String>,
    /// The link to the other order, and its label.
    turned: Option<(String, &'static str)>,
}

impl Events {
    /// Returns the fields of the filter that its form does not show.
    fn kept_fields(&self) -> Vec<(&'static str, String)> {
        let Narrowed { state, when, hours, failed_since, .. } = &self.narrowed;
        let all = [("state", state), ("when", when), ("hours", hours), ("failed_since", failed_since)];
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
    AskedBoth(narrowed, turned): AskedBoth<Narrowed, Turned>,
) -> Result<Response, Refusal> {
    let filter = narrowed.filter()?;
    let paging = turned.paging()?;
    let later = paging.after.is_some() || paging.before.is_some();
    // The counts are those of all events, so they would mislead beside another filter.
    let bare = Narrowed { state: String::new(), ..narrowed.clone() }.pairs().is_empty();
    let depth = async || if bare { desk.depth().await.map(Some) } else { Ok(None) };
    let (found, depth) = tokio::try_join!(desk.events(&filter, &paging), depth())?;
    let links = Links::of(&narrowed, &paging, &found, filter.state);
    // A list of one page is its own count.
    let listed = (!later && found.next.is_none()).then_some(found.events.len());
    if let (Some(_), None, Some(first)) = (&paging.before, &found.previous, &links.first) {
        // The beginning of the list is its first page, which stays up to date.
        return Ok(then(first));
    }
    let frame = looking.frame("Events", if later { 0 } else { REFRESH });
    let now = Utc::now();
    let (path, parts) = match narrowed.span()? {
        Some(span) => (span.path(), span.parts(now)),
        None => (Vec::new(), Span::beginnings(now)),
    };
    let not_full = found.events.len() < PER_PAGE && (found.next.is_some() || found.previous.is_some());
    let sought = !narrowed.search.is_empty() || !narrowed.aggregate_id.is_empty();
    let sought = sought || filter.state == Some(State::Delivered);
    let page = Events {
        tabs: tabs(&narrowed, depth.as_ref(), listed),
        destinations: desk.destination_names(),
        window: window(&narrowed)?,
        unbound: Narrowed { hours: String::new(), failed_since: String::new(), ..narrowed.clone() }
            .link("/events", &[]),
        path,
        parts,
        choices: choices(filter.state).of(&frame),
        here: narrowed.link("/events", &turned.pairs()),
        reached: found.reached.filter(|_| not_full && found.next.is_some()).map(|at| When::new(at, now)),
        looked_at: words::number(found.looked_at),
        bulk: bulk(&frame, &narrowed, filter.state),
        rows: Row::all(&found.events, &desk, now),
        kept: desk.kept().filter(|_| sought).map(kept_note),
        links,
        narrowed,
        frame,
    };
    Ok(shown(&page))
}

impl Turned {
    fn paging(&self) -> Result<Paging, Refusal> {
        if !self.cursor.is_empty() && !self.before.is_empty() {
            return Err(bad("cursor and before exclude each other; leave one of them out"));
        }
        let place = |text: &str| (!text.is_empty()).then(|| cursor(text)).transpose();
        let oldest_first = flag("oldest_first", &self.oldest_first)?;
        Ok(Paging { after: place(&self.cursor)?, before: place(&self.before)?, limit: PER_PAGE, oldest_first })
    }

    fn pairs(&self) -> [(&'static str, &str); 3] {
        [("oldest_first", self.oldest_first.trim()), ("cursor", &self.cursor), ("before", &self.before)]
    }
}

impl Links {
    fn of(narrowed: &Narrowed, paging: &Paging, found: &Page, state: Option<State>) -> Self {
        let order = if paging.oldest_first { "1" } else { "" };
        let to = |more: &[(&str, &str)]| narrowed.link("/events", more);
        let next = found.next.as_ref().map(|cursor| to(&[("oldest_first", order), ("cursor", &cursor.to_string())]));
        let previous =
            found.previous.as_ref().map(|cursor| to(&[("oldest_first", order), ("before", &cursor.to_string())]));
        let later = paging.after.is_some() || paging.before.is_some();
        // Waiting events are listed only in the order in which they are due.
        let can_turn = matches!(state, None | Some(State::Delivered | State::Failed));
        let turned = can_turn.then(|| match paging.oldest_first {
            true => (to(&[]), "Newest first"),
            false => (to(&[("oldest_first", "1")]), "Oldest first"),
        });
        Self { next, previous, first: later.then(|| to(&[("oldest_first", order)])), turned }
    }
}

/// Returns the tabs of all states, with the counts that are known: those of all events beside a list without another filter, and
/// that of a list that has one page. Delivered events are not counted, because there may be millions.
fn tabs(narrowed: &Narrowed, depth: Option<&Depth>, listed: Option<usize>) -> Vec<Tab> {
    let here = narrowed.state.trim();
    // These two are counted together, up to one limit.
    let is_cut = depth.is_some_and(|depth| depth.scheduled + depth.sending >= Depth::EXACT);
    let counted = |state: State| {
        let depth = depth?;
        Some(match state {
            State::Pending => told(&[depth.due, depth.scheduled, depth.sending, depth.parked], is_cut),
            State::Due => told(&[depth.due], false),
            State::Scheduled => told(&[depth.scheduled], is_cut),
            State::Sending => told(&[depth.sending], is_cut),
            State::Parked => told(&[depth.parked], false),
            State::Failed => told(&[depth.failed], false),
            State::Delivered => return None,
        })
    };
    let tab = |name: &'static str, state: &str, counted: Option<String>| Tab {
        name,
        link: Narrowed { state: state.to_owned(), ..narrowed.clone() }.link("/events", &[]),
        here: here == state,
        count: listed.filter(|_| here == state).map(|listed| words::number(listed as u64)).or(counted),
    };
    let states =
        [State::Pending, State::Due, State::Scheduled, State::Sending, State::Parked, State::Failed, State::Delivered];
    let states = states.into_iter().map(|state| tab(state.as_str(), state.as_str(), counted(state)));
    [tab("all", "", None)].into_iter().chain(states).collect()
}

/// Returns the sum of counts: `7`, `10,000+` if one is a lower bound, or `≈ 12,345` if one is the database's estimate.
fn told(counts: &[u64], is_cut: bool) -> String {
    let sum: u64 = counts.iter().sum();
    if counts.iter().any(|count| *count > Depth::EXACT) {
        return format!("≈ {}", words::number(sum));
    }
    words::counted(sum, is_cut || counts.contains(&Depth::EXACT))
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
fn bulk(frame: &Frame, narrowed: &Narrowed, state: Option<State>) -> Option<(String, &'static str)> {
    let (action, name) = match state? {
        State::Failed => ("retry", "Retry all matching…"),
        State::Delivered => ("replay", "Replay all matching…"),
        _ => ("fail", "Mark all matching failed…"),
    };
    frame.acts.then(|| (narrowed.link("/bulk", &[("action", action)]), name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tabs_keep_the_filter_and_count_what_is_known() {
        let mut depth = Depth::default();
        (depth.due, depth.parked, depth.failed) = (3, 12_345, 7);
        let narrowed = Narrowed::failed();
        let tabs = tabs(&narrowed, Some(&depth), None);
        let told: Vec<(&str, Option<&str>)> = tabs.iter().map(|tab| (tab.name, tab.count.as_deref())).collect();
        let expected = [
            ("all", None),
            ("pending", Some("≈ 12,348")),
            ("due", Some("3")),
            ("scheduled", Some("0")),
            ("sending", Some("0")),
            ("parked", Some("≈ 12,345")),
            ("failed", Some("7")),
            ("delivered", None),
        ];
        assert_eq!(told, expected);
        assert_eq!(tabs.iter().filter(|tab| tab.here).map(|tab| tab.name).collect::<Vec<_>>(), ["failed"]);
        let of_orders = Narrowed { event_type: "order.*".to_owned(), ..narrowed };
        let tabs = super::tabs(&of_orders, None, None);
        assert_eq!(tabs[1].link, "/events?state=pending&event_type=order.*");
        assert!(tabs.iter().all(|tab| tab.count.is_none()));
        // The list knows its own number, if it has one page.
        let tabs = super::tabs(&of_orders, None, Some(3));
        let counted: Vec<_> = tabs.iter().filter_map(|tab| Some((tab.name, tab.count.as_deref()?))).collect();
        assert_eq!(counted, [("failed", "3")]);
    }

    #[test]
    fn a_count_that_reached_its_limit_is_a_lower_bound() {
        let counted = |depth: &Depth| -> Vec<String> {
            tabs(&Narrowed::default(), Some(depth), None).into_iter().filter_map(|tab| tab.count).collect()
        };
        let mut depth = Depth::default();
        // Both are counted up to one limit, so there may be more of each.
        (depth.scheduled, depth.sending, depth.failed) = (Depth::EXACT - 1, 1, Depth::EXACT);
        assert_eq!(counted(&depth), ["10,000+", "0", "9,999+", "1+", "0", "10,000+"]);
        (depth.scheduled, depth.sending, depth.failed) = (50_000, 1, Depth::EXACT - 1);
        assert_eq!(counted(&depth), ["≈ 50,001", "0", "≈ 50,000", "1+", "0", "9,999"]);
    }

    #[test]
    fn a_page_begins_at_one_place() {
        let both = Turned { cursor: "x".to_owned(), before: "y".to_owned(), ..Turned::default() };
        assert!(both.paging().is_err());
        assert!(Turned { oldest_first: "yes".to_owned(), ..Turned::default() }.paging().is_err());
        assert!(Turned::default().paging().is_ok());
    }
}
