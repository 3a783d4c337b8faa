//! `/`: problems first, then counts and rates, charts, destinations and relays.

use std::sync::Arc;

use askama::Template;
use axum::extract::State as Using;
use axum::response::Response;
use chrono::{DateTime, TimeDelta, Utc};
use pillarbox::store::{Depth, RelayView};

use super::chart::{self, Flow, Latencies};
use super::destinations::Destination;
use super::frame::{Frame, Looking, shown};
use super::log::Card;
use super::problems::Line;
use super::range::{Choice, RangeAsked};
use super::words::{self, When};
use crate::asked::Asked;
use crate::desk::{Desk, LATE, Overview, Point};
use crate::refusal::Refusal;

const REFRESH: u32 = 3;

#[derive(Template)]
#[template(path = "overview.html")]
struct OverviewPage {
    frame: Frame,
    problems: Vec<Line>,
    tiles: Vec<Tile>,
    ranges: Vec<Choice>,
    /// The window in words.
    window: &'static str,
    /// The length of a column of the charts.
    step: String,
    flow: Flow,
    latencies: Latencies,
    values: Vec<Values>,
    p50: String,
    p95: String,
    p99: String,
    response: String,
    delivered: String,
    failed: String,
    relays: Vec<Relay>,
    destinations: Vec<Destination>,
    log: Option<Card>,
}

/// One count.
struct Tile {
    id: &'static str,
    name: &'static str,
    /// The CSS class of its colour.
    state: &'static str,
    value: String,
    /// The meaning, on hover.
    sub: &'static str,
    /// The page with the details.
    place: Option<&'static str>,
    alarm: &'static str,
}

/// The exact values of one step of the charts, as a row.
struct Values {
    when: String,
    delivered: String,
    failed: String,
    quantiles: [String; 4],
}

struct Relay {
    id: String,
    host: String,
    state: &'static str,
    in_flight: String,
    started: When,
    heartbeat: When,
}

pub(super) async fn look(
    looking: Looking,
    Using(desk): Using<Arc<Desk>>,
    Asked(RangeAsked { range, .. }): Asked<RangeAsked>,
) -> Result<Response, Refusal> {
    let overview = desk.overview(range.window()).await?;
    let (now, metrics, steps) = (Utc::now(), &overview.metrics, range.steps());
    let points = overview.series_by(steps.step);
    Ok(shown(&OverviewPage {
        frame: looking.frame("Overview", REFRESH),
        problems: overview.problems().iter().map(|problem| Line::of(problem, now)).collect(),
        tiles: tiles(&overview),
        ranges: range.choices(),
        window: range.told(),
        step: words::minutes(steps.step),
        flow: Flow::draw(&points, steps),
        latencies: Latencies::draw(&points, steps),
        values: points.iter().rev().map(|point| Values::of(point, steps.step)).collect(),
        p50: words::maybe(metrics.p50),
        p95: words::maybe(metrics.p95),
        p99: words::maybe(metrics.p99),
        response: words::maybe(metrics.response_p95),
        delivered: words::number(metrics.delivered),
        failed: words::number(metrics.failed),
        relays: overview.observed.relays.iter().map(|relay| Relay::of(relay, now)).collect(),
        destinations: overview.destinations.iter().map(|one| Destination::of(one, now)).collect(),
        log: overview.log.as_ref().map(Card::of),
    }))
}

fn tiles(overview: &Overview) -> Vec<Tile> {
    let Depth { due, scheduled, sending, parked, failed, oldest_due, .. } = overview.depth;
    let counted = |id, place, count: u64, sub, alarm| {
        let value = if count > Depth::EXACT { format!("≈ {}", words::number(count)) } else { words::number(count) };
        Tile { id, name: id, state: id, value, sub, place: Some(place), alarm }
    };
    let told = |id, name, value, sub, alarm| Tile { id, name, state: "", value, sub, place: None, alarm };
    let when = |is: bool, class| if is { class } else { "" };
    let late = oldest_due.is_some_and(|age| age > LATE);
    let alive = overview.observed.relays.iter().filter(|relay| relay.alive).count();
    let rate = words::number(overview.delivered_per_minute());
    let success = overview.metrics.success_rate().map_or_else(|| "–".to_owned(), words::share);
    vec![
        Tile {
            state: "delivered",
            place: Some("/events?state=delivered"),
            ..told("rate", "delivered / min", rate, "The average of the last five minutes", "")
        },
        told("success", "success", success, "The share of attempts that succeeded", ""),
        counted("pending", "/events?state=pending", due + scheduled + sending + parked, "Not delivered yet", ""),
        counted("due", "/events?state=due", due, "Ready to send", when(late, "warn")),
        counted("sending", "/events?state=sending", sending, "Held by a relay", ""),
        counted("scheduled", "/events?state=scheduled", scheduled, "Due later: delayed, or to be retried", ""),
        counted("parked", "/events?state=parked", parked, "Waiting for a destination", when(parked > 0, "warn")),
        counted("failed", "/dead-letters", failed, "Dead letters", when(failed > 0, "alarm")),
        told(
            "oldest",
            "oldest due",
            words::maybe(oldest_due),
            "How long the oldest due event has waited",
            when(late, "warn"),
        ),
        told("relays-alive", "relays", alive.to_string(), "Relays with a recent heartbeat", when(alive == 0, "alarm")),
    ]
}

impl Values {
    fn of(point: &Point, step: TimeDelta) -> Self {
        let metrics = &point.metrics;
        Self {
            when: chart::when(point.at, step),
            delivered: words::number(metrics.delivered),
            failed: words::number(metrics.failed),
            quantiles: [metrics.p50, metrics.p95, metrics.p99, metrics.response_p95].map(words::maybe),
        }
    }
}

impl Relay {
    fn of(relay: &RelayView, now: DateTime<Utc>) -> Self {
        Self {
            id: relay.id.to_string(),
            host: relay.host.clone(),
            state: relay.state(),
            in_flight: words::number(relay.in_flight),
            started: When::new(relay.started_at, now),
            heartbeat: When::new(relay.heartbeat_at, now),
        }
    }
}
