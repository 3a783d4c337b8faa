//! `/`: throughput, stuck events and their cause, at a glance.

use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use axum::extract::State as Using;
use axum::response::Response;
use chrono::{DateTime, Utc};
use pillarbox::store::{Depth, RelayView};

use super::chart::{Flow, Latencies};
use super::destinations::Destination;
use super::frame::{Frame, Looking, shown};
use super::words::{self, When};
use crate::desk::{Desk, Overview};
use crate::refusal::Refusal;

const WINDOW: Duration = Duration::from_secs(60 * 60);
const REFRESH: u32 = 3;
/// A due event that is older than this is highlighted.
const LATE: Duration = Duration::from_secs(60);
/// The number of whole minutes over which the rate is computed.
const LATELY: usize = 5;

#[derive(Template)]
#[template(path = "overview.html")]
struct OverviewPage {
    frame: Frame,
    tiles: Vec<Tile>,
    flow: Flow,
    latencies: Latencies,
    p50: String,
    p95: String,
    p99: String,
    delivered: String,
    failed: String,
    relays: Vec<Relay>,
    destinations: Vec<Destination>,
}

/// One metric.
struct Tile {
    id: &'static str,
    name: &'static str,
    /// The CSS class of its colour.
    state: &'static str,
    value: String,
    sub: String,
    /// The page with the details.
    place: Option<&'static str>,
    alarm: &'static str,
}

struct Relay {
    id: String,
    host: String,
    state: &'static str,
    in_flight: String,
    started: When,
    heartbeat: When,
}

pub(super) async fn look(looking: Looking, Using(desk): Using<Arc<Desk>>) -> Result<Response, Refusal> {
    let overview = desk.overview(WINDOW).await?;
    let now = Utc::now();
    let metrics = &overview.metrics;
    Ok(shown(&OverviewPage {
        frame: looking.frame("Overview", REFRESH),
        tiles: tiles(&overview),
        flow: Flow::draw(&overview.series),
        latencies: Latencies::draw(&overview.series),
        p50: words::maybe(metrics.p50),
        p95: words::maybe(metrics.p95),
        p99: words::maybe(metrics.p99),
        delivered: words::number(metrics.delivered),
        failed: words::number(metrics.failed),
        relays: overview.observed.relays.iter().map(|relay| Relay::of(relay, now)).collect(),
        destinations: overview.destinations.iter().map(|one| Destination::of(one, now)).collect(),
    }))
}

fn tiles(overview: &Overview) -> Vec<Tile> {
    let Depth { due, scheduled, sending, parked, failed, oldest_due, .. } = overview.depth;
    let counted = |id, place, count: u64, sub: &str, alarm| {
        let value = if count > Depth::EXACT { format!("≈ {}", words::number(count)) } else { words::number(count) };
        Tile { id, name: id, state: id, value, sub: sub.to_owned(), place: Some(place), alarm }
    };
    let when = |is: bool, class| if is { class } else { "" };
    let late = oldest_due.is_some_and(|age| age > LATE);
    let minutes = overview.series.len().saturating_sub(1);
    let lately = &overview.series[minutes.saturating_sub(LATELY)..minutes];
    let rate = lately.iter().map(|point| point.metrics.delivered).sum::<u64>() / lately.len().max(1) as u64;
    let alive = overview.observed.relays.iter().filter(|relay| relay.alive).count();
    vec![
        counted("pending", "/events?state=pending", due + scheduled + sending + parked, "not delivered yet", ""),
        counted("due", "/events?state=due", due, "ready to send", when(late, "warn")),
        counted("sending", "/events?state=sending", sending, "claimed by lease", ""),
        counted("scheduled", "/events?state=scheduled", scheduled, "delayed or to be retried", ""),
        counted("parked", "/events?state=parked", parked, "waiting for a destination", when(parked > 0, "warn")),
        counted("failed", "/dead-letters", failed, "dead letters", when(failed > 0, "alarm")),
        Tile {
            id: "oldest",
            name: "oldest due",
            state: "",
            value: oldest_due.map_or_else(|| "–".to_owned(), words::duration),
            sub: if oldest_due.is_some() { "waiting time" } else { "no event is due" }.to_owned(),
            place: None,
            alarm: when(late, "warn"),
        },
        Tile {
            id: "rate",
            name: "delivered",
            state: "delivered",
            value: words::number(rate),
            sub: "per minute, recently".to_owned(),
            place: Some("/events?state=delivered"),
            alarm: "",
        },
        Tile {
            id: "relays-alive",
            name: "relays",
            state: "",
            value: alive.to_string(),
            sub: if alive == 0 { "no relay is running" } else { "alive" }.to_owned(),
            place: None,
            alarm: when(alive == 0, "alarm"),
        },
    ]
}

impl Relay {
    fn of(relay: &RelayView, now: DateTime<Utc>) -> Self {
        Self {
            id: relay.id.to_string(),
            host: relay.host.clone(),
            state: match (relay.alive, relay.idle) {
                (false, _) => "gone",
                (true, true) => "idle",
                (true, false) => "alive",
            },
            in_flight: words::number(relay.in_flight),
            started: When::new(relay.started_at, now),
            heartbeat: When::new(relay.heartbeat_at, now),
        }
    }
}
