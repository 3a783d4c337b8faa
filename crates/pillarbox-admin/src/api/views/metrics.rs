//! Metrics, relays and destinations in the API's responses. Times are in seconds.

use chrono::{DateTime, Utc};
use pillarbox::store::{Depth, LaneView, Minute, RelayView};
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::log::Log;
use super::seconds;
use crate::desk::{DestinationStatus, Health, Metrics, Overview as DeskOverview, Problem, ProblemKind};

/// The most important metrics
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Overview {
    at: DateTime<Utc>,
    waiting: Waiting,
    /// What needs somebody, the worst first; empty when all is well
    problems: Vec<ProblemView>,
    /// Metrics of the whole window
    flow: Flow,
    /// Metrics of each minute of the window, oldest first
    series: Vec<FlowAt>,
    relays: Vec<Relay>,
    destinations: Vec<Destination>,
    /// The write-ahead log, if it is the outbox
    log: Option<Log>,
}

/// Waiting events: exact up to 10,000 each, an estimate beyond that
#[derive(Debug, Serialize, ToSchema)]
struct Waiting {
    due: u64,
    scheduled: u64,
    sending: u64,
    parked: u64,
    failed: u64,
    /// How long the oldest due event has been due
    oldest_due_seconds: Option<f64>,
}

impl From<Depth> for Waiting {
    fn from(depth: Depth) -> Self {
        Self {
            due: depth.due,
            scheduled: depth.scheduled,
            sending: depth.sending,
            parked: depth.parked,
            failed: depth.failed,
            oldest_due_seconds: depth.oldest_due.map(seconds),
        }
    }
}

/// A problem of the outbox. Fields that do not belong to its kind are `null`
#[derive(Debug, Serialize, ToSchema)]
struct ProblemView {
    #[schema(value_type = String)]
    kind: ProblemKind,
    /// The problem in a few words
    title: String,
    destination: Option<String>,
    /// The number of events that wait because of it, or of dead letters
    events: u64,
    /// Whether there may be more events
    at_least: bool,
    /// The age of the oldest of these events
    oldest_seconds: Option<f64>,
    /// When it began: of dead letters, when the first of them failed
    since: Option<DateTime<Utc>>,
    next_probe_at: Option<DateTime<Utc>>,
    /// The last error: of dead letters, that of the newest
    error: Option<String>,
    error_at: Option<DateTime<Utc>>,
    paused_by: Option<String>,
    /// What is known about it, in a sentence
    detail: Option<String>,
}

impl From<Problem> for ProblemView {
    fn from(problem: Problem) -> Self {
        let title = problem.title();
        let (error_at, error) = problem.error.unzip();
        Self {
            kind: problem.kind,
            title,
            destination: problem.destination,
            events: problem.events,
            at_least: problem.at_least,
            oldest_seconds: problem.oldest.map(seconds),
            since: problem.since,
            next_probe_at: problem.next_probe,
            error,
            error_at,
            paused_by: problem.paused_by,
            detail: problem.detail,
        }
    }
}

/// Deliveries and failures, the latency from commit to delivery, and the receiver's response time
#[derive(Debug, Serialize, ToSchema)]
struct Flow {
    /// The number of delivered events
    delivered: u64,
    /// The number of failed attempts
    failed: u64,
    /// The number of events that became dead letters
    given_up: u64,
    /// The share of attempts that succeeded; `null` if there were none
    success_rate: Option<f64>,
    latency_p50_seconds: Option<f64>,
    latency_p95_seconds: Option<f64>,
    latency_p99_seconds: Option<f64>,
    response_p50_seconds: Option<f64>,
    response_p95_seconds: Option<f64>,
}

impl From<Metrics> for Flow {
    fn from(metrics: Metrics) -> Self {
        Self {
            delivered: metrics.delivered,
            failed: metrics.failed,
            given_up: metrics.given_up,
            success_rate: metrics.success_rate(),
            latency_p50_seconds: metrics.p50.map(seconds),
            latency_p95_seconds: metrics.p95.map(seconds),
            latency_p99_seconds: metrics.p99.map(seconds),
            response_p50_seconds: metrics.response_p50.map(seconds),
            response_p95_seconds: metrics.response_p95.map(seconds),
        }
    }
}

/// The metrics of one minute
#[derive(Debug, Serialize, ToSchema)]
struct FlowAt {
    at: DateTime<Utc>,
    flow: Flow,
}

/// Metrics per minute and destination
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Minutes {
    minutes: Vec<MinuteOf>,
}

/// The metrics of a destination in one minute
#[derive(Debug, Serialize, ToSchema)]
struct MinuteOf {
    at: DateTime<Utc>,
    destination: String,
    flow: Flow,
}

impl From<Vec<Minute>> for Minutes {
    fn from(minutes: Vec<Minute>) -> Self {
        let one = |minute: Minute| MinuteOf {
            flow: Metrics::of([&minute]).into(),
            at: minute.at,
            destination: minute.destination,
        };
        Self { minutes: minutes.into_iter().map(one).collect() }
    }
}

/// Relays
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Relays {
    relays: Vec<Relay>,
}

/// A relay that has written a heartbeat
#[derive(Debug, Serialize, ToSchema)]
struct Relay {
    id: Uuid,
    host: String,
    started_at: DateTime<Utc>,
    heartbeat_at: DateTime<Utc>,
    /// The number of events in flight
    in_flight: u64,
    idle: bool,
    /// Whether its heartbeat is recent
    alive: bool,
}

impl From<RelayView> for Relay {
    fn from(relay: RelayView) -> Self {
        Self {
            id: relay.id,
            host: relay.host,
            started_at: relay.started_at,
            heartbeat_at: relay.heartbeat_at,
            in_flight: relay.in_flight,
            idle: relay.idle,
            alive: relay.alive,
        }
    }
}

impl From<Vec<RelayView>> for Relays {
    fn from(relays: Vec<RelayView>) -> Self {
        Self { relays: relays.into_iter().map(Relay::from).collect() }
    }
}

/// Destinations
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Destinations {
    destinations: Vec<Destination>,
}

/// A destination: configuration, health and metrics
#[derive(Debug, Serialize, ToSchema)]
struct Destination {
    name: String,
    health: HealthName,
    /// `http`, `celery` or `discard`; `null` if only a relay with another configuration knows it
    kind: Option<String>,
    /// The address, without secrets
    address: Option<String>,
    /// Patterns of event types that are routed to it
    events: Vec<String>,
    timeout_seconds: Option<f64>,
    concurrency: Option<usize>,
    /// The maximum number of events per second
    rate: Option<f64>,
    /// Whether the configuration pauses it
    paused_by_configuration: bool,
    paused_at: Option<DateTime<Utc>>,
    paused_by: Option<String>,
    /// The number of events that wait for it: parked, or in the queue of a relay
    waiting: u64,
    /// Whether more events may wait
    waiting_at_least: bool,
    /// The age of the oldest parked event, since its emit
    oldest_waiting_seconds: Option<f64>,
    /// When its outage began
    down_since: Option<DateTime<Utc>>,
    /// When it is probed next
    next_probe_at: Option<DateTime<Utc>>,
    /// The number of events in the relays' queues
    queued: u64,
    /// The number of events in flight
    sending: u64,
    last_error: Option<String>,
    last_error_at: Option<DateTime<Utc>>,
    /// Metrics of the window
    flow: Flow,
    /// The state of its lane in each living relay
    lanes: Vec<Lane>,
}

/// The health of a destination: the worst that a living relay reports
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum HealthName {
    /// No living relay knows it
    Unknown,
    Healthy,
    /// Fewer than 95 % of the attempts of the last five minutes succeeded
    Failing,
    /// Its rate holds events back, it is slower than its events come in, or it asked to slow down
    #[serde(rename = "rate limited")]
    RateLimited,
    /// Its breaker is open
    Down,
    Paused,
}

impl From<Health> for HealthName {
    fn from(health: Health) -> Self {
        match health {
            Health::Unknown => Self::Unknown,
            Health::Healthy => Self::Healthy,
            Health::Failing => Self::Failing,
            Health::RateLimited => Self::RateLimited,
            Health::Down => Self::Down,
            Health::Paused => Self::Paused,
        }
    }
}

/// A destination as one relay sees it
#[derive(Debug, Serialize, ToSchema)]
struct Lane {
    relay: Uuid,
    host: String,
    health: HealthName,
    paused: bool,
    /// Whether the breaker is open
    down: bool,
    /// Whether events wait for the rate
    limited: bool,
    down_since: Option<DateTime<Utc>>,
    next_probe_at: Option<DateTime<Utc>>,
    queued: u64,
    sending: u64,
    last_error: Option<String>,
    last_error_at: Option<DateTime<Utc>>,
}

impl Lane {
    fn new(relay: Uuid, host: String, health: Health, lane: LaneView) -> Self {
        Self {
            relay,
            host,
            health: health.into(),
            paused: lane.paused,
            down: lane.down,
            limited: lane.limited,
            down_since: lane.down_since,
            next_probe_at: lane.probe_at,
            queued: lane.queued,
            sending: lane.sending,
            last_error: lane.last_error,
            last_error_at: lane.last_error_at,
        }
    }
}

impl From<DestinationStatus> for Destination {
    fn from(shown: DestinationStatus) -> Self {
        let (last_error_at, last_error) = shown.last_error.unzip();
        let (paused_at, paused_by) = shown.paused.map(|paused| (paused.paused_at, paused.paused_by)).unzip();
        let configured = shown.configured.as_ref();
        Self {
            health: shown.health.into(),
            kind: configured.map(|configured| configured.kind.clone()),
            address: configured.and_then(|configured| configured.address.clone()),
            events: shown.events,
            timeout_seconds: configured.and_then(|configured| configured.timeout).map(seconds),
            concurrency: configured.and_then(|configured| configured.concurrency),
            rate: configured.and_then(|configured| configured.rate),
            paused_by_configuration: configured.is_some_and(|configured| configured.paused),
            paused_at,
            paused_by,
            waiting: shown.parked + shown.queued,
            waiting_at_least: shown.at_least,
            oldest_waiting_seconds: shown.oldest.map(seconds),
            down_since: shown.down_since,
            next_probe_at: shown.next_probe,
            queued: shown.queued,
            sending: shown.sending,
            last_error,
            last_error_at,
            flow: shown.metrics.into(),
            lanes: shown
                .lanes
                .into_iter()
                .map(|lane| Lane::new(lane.relay, lane.host, lane.health, lane.lane))
                .collect(),
            name: shown.name,
        }
    }
}

impl From<Vec<DestinationStatus>> for Destinations {
    fn from(destinations: Vec<DestinationStatus>) -> Self {
        Self { destinations: destinations.into_iter().map(Destination::from).collect() }
    }
}

impl From<DeskOverview> for Overview {
    fn from(overview: DeskOverview) -> Self {
        Self {
            at: overview.at,
            problems: overview.problems().into_iter().map(ProblemView::from).collect(),
            waiting: overview.depth.into(),
            flow: overview.metrics.into(),
            series: overview
                .series
                .into_iter()
                .map(|point| FlowAt { at: point.at, flow: point.metrics.into() })
                .collect(),
            relays: overview.observed.relays.into_iter().map(Relay::from).collect(),
            destinations: overview.destinations.into_iter().map(Destination::from).collect(),
            log: overview.log.map(Log::from),
        }
    }
}
