//! `/destinations`: the health of each destination, and its pause.

use std::sync::Arc;

use askama::Template;
use axum::extract::State as Using;
use axum::response::Response;
use chrono::{DateTime, Utc};

use super::frame::{Frame, Looking, shown, then};
use super::range::{Choice, RangeAsked};
use super::tested::{Outcome, Tested};
use super::words::{self, When};
use crate::access::Operator;
use crate::asked::{Asked, At, Unfilled};
use crate::desk::{Desk, DestinationInfo, DestinationStatus, Health};
use crate::refusal::{Refusal, in_query};

const REFRESH: u32 = 3;

#[derive(Template)]
#[template(path = "destinations.html")]
struct Destinations {
    frame: Frame,
    ranges: Vec<Choice>,
    /// The window in words.
    window: &'static str,
    destinations: Vec<Destination>,
}

/// A destination on a page.
pub(super) struct Destination {
    pub(super) name: String,
    /// The name, encoded for a URL.
    pub(super) place: String,
    pub(super) health: &'static str,
    /// The health at the beginning of a sentence.
    pub(super) capital: &'static str,
    pub(super) kind: String,
    pub(super) address: String,
    /// The settings, as text.
    pub(super) set: Vec<(&'static str, String)>,
    /// Parked and queued events.
    pub(super) waiting: String,
    pub(super) waits: bool,
    pub(super) oldest: String,
    pub(super) down_since: Option<When>,
    pub(super) down_for: Option<When>,
    pub(super) next_probe: Option<When>,
    /// The reason of its health, in a sentence.
    pub(super) reason: Option<Reason>,
    pub(super) success: String,
    pub(super) delivered: String,
    pub(super) failed: String,
    pub(super) given_up: String,
    pub(super) p50: String,
    pub(super) p95: String,
    pub(super) p99: String,
    pub(super) response_p50: String,
    pub(super) response_p95: String,
    pub(super) sending: String,
    pub(super) queued: String,
    pub(super) breaker: &'static str,
    pub(super) last_error: Option<(When, String)>,
    /// The user who paused it, and the time.
    pub(super) paused: Option<(String, When)>,
    pub(super) paused_by_configuration: bool,
    pub(super) lanes: Vec<Lane>,
    /// Whether test events can be sent to it from this process.
    pub(super) can_test: bool,
    /// The last test event of this process.
    pub(super) tested: Option<Tested>,
}

/// The reason of a destination's health.
pub(super) struct Reason {
    /// The CSS class of the notice.
    pub(super) class: &'static str,
    pub(super) text: String,
}

/// The lane of one relay.
pub(super) struct Lane {
    pub(super) host: String,
    pub(super) state: &'static str,
    pub(super) sending: String,
    pub(super) queued: String,
}

impl Destination {
    pub(super) fn of(shown: &DestinationStatus, now: DateTime<Utc>) -> Self {
        let (metrics, configured) = (&shown.metrics, shown.configured.as_ref());
        let down = shown.lanes.iter().filter(|lane| lane.lane.down).count();
        Self {
            place: in_query(&shown.name),
            name: shown.name.clone(),
            health: shown.health.as_str(),
            capital: if shown.health == Health::RateLimited { "Rate limited" } else { "Down" },
            kind: configured
                .map_or_else(|| "not in this configuration".to_owned(), |configured| configured.kind.clone()),
            address: configured.and_then(|configured| configured.address.clone()).unwrap_or_default(),
            set: configured.map(|configured| settings(configured, &shown.events)).unwrap_or_default(),
            waiting: words::counted(shown.waiting(), shown.at_least),
            waits: shown.waiting() > 0,
            oldest: shown.oldest.map_or_else(|| "–".to_owned(), words::age),
            down_since: shown.down_since.map(|since| When::new(since, now)),
            down_for: shown.down_since.map(|since| When::lasting(since, now)),
            next_probe: shown.next_probe.map(|at| When::soon(at, now)),
            reason: reason(shown),
            success: metrics.success_rate().map_or_else(|| "–".to_owned(), words::share),
            delivered: words::number(metrics.delivered),
            failed: words::number(metrics.failed),
            given_up: words::number(metrics.given_up),
            p50: words::maybe(metrics.p50),
            p95: words::maybe(metrics.p95),
            p99: words::maybe(metrics.p99),
            response_p50: words::maybe(metrics.response_p50),
            response_p95: words::maybe(metrics.response_p95),
            sending: words::number(shown.sending),
            queued: words::number(shown.queued),
            breaker: match (down, shown.lanes.len()) {
                (_, 0) => "unknown",
                (0, _) => "closed",
                (down, all) if down == all => "open",
                _ => "open at some relays",
            },
            last_error: shown.last_error.as_ref().map(|(at, error)| (When::new(*at, now), error.clone())),
            paused: shown.paused.as_ref().map(|paused| (paused.paused_by.clone(), When::new(paused.paused_at, now))),
            paused_by_configuration: shown.is_paused_by_configuration(),
            lanes: shown.lanes.iter().map(Lane::of).collect(),
            can_test: configured.is_some_and(|configured| configured.test.is_some()),
            tested: None,
        }
    }
}

impl Lane {
    fn of(lane: &crate::desk::Lane) -> Self {
        Self {
            host: lane.host.clone(),
            state: lane.health.as_str(),
            sending: words::number(lane.lane.sending),
            queued: words::number(lane.lane.queued),
        }
    }
}

/// Returns why a destination is not healthy. A pause has its own notice.
fn reason(shown: &DestinationStatus) -> Option<Reason> {
    let (class, text) = match shown.health {
        Health::Down => ("bad", "Its events are parked until a probe succeeds.".to_owned()),
        Health::Failing => {
            let rate = shown.recent.success_rate().map_or_else(|| "–".to_owned(), words::share);
            ("bad", format!("Only {rate} of the attempts of the last 5 minutes succeeded. Failed events are retried."))
        }
        Health::RateLimited if shown.lanes.iter().any(|lane| lane.lane.down) => {
            ("note", "It asked to slow down. Its events are parked until it takes more.".to_owned())
        }
        Health::RateLimited => {
            ("note", "Events come in faster than they are sent. They wait for their turn.".to_owned())
        }
        Health::Unknown if shown.waiting() > 0 => {
            ("note", "No running relay has this destination. Its events are parked until one does.".to_owned())
        }
        _ => return None,
    };
    Some(Reason { class, text })
}

fn settings(configured: &DestinationInfo, events: &[String]) -> Vec<(&'static str, String)> {
    let events = if events.is_empty() { "no route".to_owned() } else { events.join(", ") };
    let mut set = vec![("Events", events)];
    set.extend(configured.concurrency.map(|sends| ("Concurrency", words::number(sends as u64))));
    set.extend(configured.timeout.map(|timeout| ("Timeout", words::duration(timeout))));
    set.extend(configured.rate.map(|rate| ("Rate", format!("{rate} per second"))));
    set
}

pub(super) async fn list(
    looking: Looking,
    Using(desk): Using<Arc<Desk>>,
    Asked(RangeAsked { range, .. }): Asked<RangeAsked>,
) -> Result<Response, Refusal> {
    let (all, now) = (desk.destinations(range.window()).await?, Utc::now());
    Ok(shown(&Destinations {
        frame: looking.frame("Destinations", REFRESH),
        ranges: range.choices(),
        window: range.told(),
        destinations: all
            .iter()
            .map(|one| Destination {
                tested: desk.last_test(&one.name).and_then(|trial| Tested::recent(&trial, now)),
                ..Destination::of(one, now)
            })
            .collect(),
    }))
}

pub(super) async fn pause(
    Operator(who): Operator,
    Using(desk): Using<Arc<Desk>>,
    At(name): At<String>,
    _: Unfilled,
) -> Result<Response, Refusal> {
    desk.pause(&name, &who.name).await?;
    Ok(then("/destinations?did=pause"))
}

pub(super) async fn resume(
    Operator(who): Operator,
    Using(desk): Using<Arc<Desk>>,
    At(name): At<String>,
    _: Unfilled,
) -> Result<Response, Refusal> {
    desk.resume(&name, &who.name).await?;
    Ok(then("/destinations?did=resume"))
}

pub(super) async fn test(
    Operator(who): Operator,
    Using(desk): Using<Arc<Desk>>,
    At(name): At<String>,
    _: Unfilled,
) -> Result<Response, Refusal> {
    let outcome = Outcome::of(&desk.test(&name, &who.name).await?);
    Ok(then(&format!("/destinations?did={outcome}#{}", in_query(&name))))
}
