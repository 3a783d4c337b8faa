//! `/destinations`: the health of each destination, and its pause.

use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use axum::extract::State as Using;
use axum::response::Response;
use chrono::{DateTime, Utc};

use super::frame::{Frame, Looking, shown, then};
use super::words::{self, When};
use crate::access::Operator;
use crate::asked::At;
use crate::desk::{Desk, DestinationInfo, DestinationStatus, Health};
use crate::refusal::{Refusal, in_query};

const WINDOW: Duration = Duration::from_secs(60 * 60);
const REFRESH: u32 = 3;

#[derive(Template)]
#[template(path = "destinations.html")]
struct Destinations {
    frame: Frame,
    destinations: Vec<Destination>,
}

/// A destination on a page.
pub(super) struct Destination {
    pub(super) name: String,
    /// The name, encoded for a URL.
    pub(super) place: String,
    pub(super) health: &'static str,
    pub(super) kind: String,
    pub(super) address: String,
    /// The settings, as text.
    pub(super) set: Vec<(&'static str, String)>,
    pub(super) success: String,
    pub(super) delivered: String,
    pub(super) failed: String,
    pub(super) given_up: String,
    pub(super) p50: String,
    pub(super) p95: String,
    pub(super) p99: String,
    pub(super) sending: String,
    pub(super) queued: String,
    pub(super) breaker: &'static str,
    pub(super) last_error: Option<(When, String)>,
    /// The user who paused it, and the time.
    pub(super) paused: Option<(String, When)>,
    pub(super) paused_by_configuration: bool,
    pub(super) lanes: Vec<Lane>,
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
            kind: configured
                .map_or_else(|| "not in this configuration".to_owned(), |configured| configured.kind.clone()),
            address: configured.and_then(|configured| configured.address.clone()).unwrap_or_default(),
            set: configured.map(|configured| settings(configured, &shown.events)).unwrap_or_default(),
            success: metrics.success_rate().map_or_else(|| "–".to_owned(), words::share),
            delivered: words::number(metrics.delivered),
            failed: words::number(metrics.failed),
            given_up: words::number(metrics.given_up),
            p50: words::maybe(metrics.p50),
            p95: words::maybe(metrics.p95),
            p99: words::maybe(metrics.p99),
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
        }
    }
}

impl Lane {
    fn of(lane: &crate::desk::Lane) -> Self {
        Self {
            host: lane.host.clone(),
            state: Health::of(&lane.lane).as_str(),
            sending: words::number(lane.lane.sending),
            queued: words::number(lane.lane.queued),
        }
    }
}

fn settings(configured: &DestinationInfo, events: &[String]) -> Vec<(&'static str, String)> {
    let events = if events.is_empty() { "no route".to_owned() } else { events.join(", ") };
    let mut set = vec![("Events", events)];
    set.extend(configured.concurrency.map(|sends| ("Concurrency", words::number(sends as u64))));
    set.extend(configured.timeout.map(|timeout| ("Timeout", words::duration(timeout))));
    set.extend(configured.rate.map(|rate| ("Rate", format!("{rate} per second"))));
    set
}

pub(super) async fn list(looking: Looking, Using(desk): Using<Arc<Desk>>) -> Result<Response, Refusal> {
    let (all, now) = (desk.destinations(WINDOW).await?, Utc::now());
    let destinations = all.iter().map(|one| Destination::of(one, now)).collect();
    Ok(shown(&Destinations { frame: looking.frame("Destinations", REFRESH), destinations }))
}

pub(super) async fn pause(
    Operator(who): Operator,
    Using(desk): Using<Arc<Desk>>,
    At(name): At<String>,
) -> Result<Response, Refusal> {
    desk.pause(&name, &who.name).await?;
    Ok(then("/destinations?did=pause"))
}

pub(super) async fn resume(
    Operator(who): Operator,
    Using(desk): Using<Arc<Desk>>,
    At(name): At<String>,
) -> Result<Response, Refusal> {
    desk.resume(&name, &who.name).await?;
    Ok(then("/destinations?did=resume"))
}
