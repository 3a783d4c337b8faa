//! Destinations for people: the configuration, pauses, waiting events, the lanes that living relays report, and metrics.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use pillarbox::delivery::UNROUTED;
use pillarbox::store::{EventDetail, LaneView, Minute, PausedView, RelayView};
use pillarbox::{Route, Routes};
use uuid::Uuid;

use super::health::{self, Health};
use super::metrics::{Metrics, Observations};
use super::testing::Tester;
use super::{Desk, DeskError};

/// A destination of the relay, as the configuration or the application describes it. It contains no secrets.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct DestinationInfo {
    /// The name in the relay.
    pub name: String,
    /// The kind, in one word: `http`, `handler`.
    pub kind: String,
    /// The address, without passwords.
    pub address: Option<String>,
    /// The timeout of a send.
    pub timeout: Option<Duration>,
    /// The number of sends at once.
    pub concurrency: Option<usize>,
    /// The maximum number of events per second.
    pub rate: Option<f64>,
    /// Whether the configuration pauses it.
    pub paused: bool,
    /// The function that shows an event's request.
    pub request: Option<RequestText>,
    /// Builds the destination for test events. `None` if it cannot be tested from this process; then there is no button.
    pub test: Option<Tester>,
}

impl DestinationInfo {
    /// Returns a description with a name and a kind. Set the other fields if they are known.
    pub fn new(name: impl Into<String>, kind: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            kind: kind.into(),
            address: None,
            timeout: None,
            concurrency: None,
            rate: None,
            paused: false,
            request: None,
            test: None,
        }
    }
}

/// Shows the request of an event to a destination, as a command to paste and try. The event is already masked.
#[derive(Clone)]
pub struct RequestText(Arc<Show>);

type Show = dyn Fn(&EventDetail) -> Option<String> + Send + Sync;

impl RequestText {
    /// Wraps the function. It returns `None` if there is nothing to show, and must not show secrets.
    pub fn new(show: impl Fn(&EventDetail) -> Option<String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(show))
    }

    pub(super) fn of(&self, detail: &EventDetail) -> Option<String> {
        (self.0)(detail)
    }
}

impl fmt::Debug for RequestText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RequestText")
    }
}

/// A destination with its health and recent metrics.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct DestinationStatus {
    /// Its name.
    pub name: String,
    /// The description; `None` if only relays with another configuration know it.
    pub configured: Option<DestinationInfo>,
    /// Patterns of event types that are routed to it.
    pub events: Vec<String>,
    /// The health.
    pub health: Health,
    /// The pause by a person, if there is one.
    pub paused: Option<PausedView>,
    /// Parked events that wait for it.
    pub parked: u64,
    /// Whether there are more parked events than were counted.
    pub at_least: bool,
    /// The age of the oldest parked event, since its emit.
    pub oldest: Option<Duration>,
    /// When its outage began, as the first relay noticed.
    pub down_since: Option<DateTime<Utc>>,
    /// The minute in which its attempts began to fail, if they still do.
    pub failing_since: Option<DateTime<Utc>>,
    /// When the first relay probes it again.
    pub next_probe: Option<DateTime<Utc>>,
    /// Events in the relays' queues for it.
    pub queued: u64,
    /// Events in flight to it.
    pub sending: u64,
    /// The newest error that a living relay reports.
    pub last_error: Option<(DateTime<Utc>, String)>,
    /// Metrics of the window.
    pub metrics: Metrics,
    /// Metrics of the last five minutes, since the end of the last outage.
    pub recent: Metrics,
    /// The state of its lane in each living relay.
    pub lanes: Vec<Lane>,
}

/// A destination as one relay sees it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Lane {
    /// The relay's id.
    pub relay: Uuid,
    /// The relay's host.
    pub host: String,
    /// The health, as this relay sees it.
    pub health: Health,
    /// The lane, as the relay reports it.
    pub lane: LaneView,
}

impl Desk {
    /// Returns all destinations that the configuration or a relay knows, with metrics of the last `window`.
    ///
    /// # Errors
    /// Fails if the database fails.
    pub async fn destinations(&self, window: Duration) -> Result<Vec<DestinationStatus>, DeskError> {
        Ok(self.observe(window).await?.destinations(&self.destinations, &self.routes))
    }

    /// Returns whether the configuration, a relay or a pause names this destination.
    pub(super) async fn knows(&self, name: &str) -> Result<bool, DeskError> {
        if self.destinations.iter().any(|destination| destination.name == name) {
            return Ok(true);
        }
        let (relays, pauses) = tokio::try_join!(self.store.relays(), self.store.pauses())?;
        let in_a_lane = relays.iter().flat_map(|relay| &relay.lanes).any(|lane| lane.destination == name);
        Ok(in_a_lane || pauses.iter().any(|paused| paused.destination == name))
    }
}

impl Observations {
    /// Returns the destinations of the configuration and of these observations, by name.
    #[must_use]
    pub fn destinations(&self, configured: &[DestinationInfo], routes: &Routes) -> Vec<DestinationStatus> {
        let mut all: BTreeMap<&str, DestinationStatus> = BTreeMap::new();
        for destination in configured {
            let status = all.entry(&destination.name).or_default();
            status.configured = Some(destination.clone());
            let leading = routes.iter().filter(|route| route.to.contains(&destination.name));
            status.events = leading.map(shown).collect();
        }
        for paused in &self.pauses {
            all.entry(&paused.destination).or_default().paused = Some(paused.clone());
        }
        for relay in self.relays.iter().filter(|relay| relay.alive) {
            for lane in &relay.lanes {
                all.entry(&lane.destination).or_default().add(relay, lane);
            }
        }
        for waiting in self.waiting.iter().filter(|waiting| waiting.on != UNROUTED) {
            let status = all.entry(&waiting.on).or_default();
            (status.parked, status.at_least, status.oldest) = (waiting.count, waiting.at_least, waiting.oldest);
        }
        let mut by_name: BTreeMap<&str, Vec<&Minute>> = BTreeMap::new();
        for minute in &self.minutes {
            by_name.entry(&minute.destination).or_default().push(minute);
        }
        for (name, minutes) in by_name {
            let status = all.entry(name).or_default();
            let recovered_at = status.lanes.iter().filter_map(|lane| lane.lane.recovered_at).max();
            let failed_at = status.lanes.iter().filter_map(|lane| lane.lane.last_error_at).max();
            status.recent = health::recent(minutes.iter().copied(), recovered_at, failed_at, self.at);
            status.failing_since = health::failing_since(minutes.iter().copied(), self.at);
            status.metrics = Metrics::of(minutes.into_iter().filter(|minute| minute.at >= self.since));
        }
        let judged = |(name, status): (&str, DestinationStatus)| DestinationStatus {
            name: name.to_owned(),
            ..status.judged(self.at)
        };
        all.into_iter().map(judged).collect()
    }
}

/// Returns a route's pattern of event types, with its condition if it has one.
fn shown(route: &Route) -> String {
    let events = route.events.as_str();
    route
        .condition
        .as_ref()
        .map_or_else(|| events.to_owned(), |condition| format!("{events} where {}", condition.as_str()))
}

impl DestinationStatus {
    /// Returns whether the configuration pauses it. Then people cannot resume it.
    #[must_use]
    pub fn is_paused_by_configuration(&self) -> bool {
        self.configured.as_ref().is_some_and(|configured| configured.paused)
    }

    /// Returns the number of events that wait for it: parked, or in the queue of a relay.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        self.parked + self.queued
    }

    fn add(&mut self, relay: &RelayView, lane: &LaneView) {
        let earliest = |one: Option<DateTime<Utc>>, other| one.into_iter().chain(other).min();
        self.down_since = earliest(self.down_since, lane.down_since);
        self.next_probe = earliest(self.next_probe, lane.probe_at);
        self.queued += lane.queued;
        self.sending += lane.sending;
        let error = lane.last_error_at.zip(lane.last_error.clone());
        self.last_error = self.last_error.take().max(error);
        let health = Health::of(lane);
        self.lanes.push(Lane { relay: relay.id, host: relay.host.clone(), health, lane: lane.clone() });
    }

    fn judged(mut self, now: DateTime<Utc>) -> Self {
        if health::is_failing(&self.recent) {
            self.lanes.iter_mut().for_each(|lane| lane.has_failed(now));
        }
        self.health = self.lanes.iter().map(|lane| lane.health).max().unwrap_or_default();
        if self.health == Health::Healthy && health::is_failing(&self.recent) {
            self.health = Health::Failing;
        }
        if self.paused.is_some() || self.is_paused_by_configuration() {
            self.health = Health::Paused;
        }
        self
    }
}

impl Lane {
    /// Marks the lane of a failing destination, if this relay has had a failure recently.
    fn has_failed(&mut self, now: DateTime<Utc>) {
        let LaneView { last_error_at, recovered_at, .. } = &self.lane;
        let is_recent = last_error_at.is_some_and(|at| (now - at).to_std().is_ok_and(|age| age <= health::RECENT));
        if self.health == Health::Healthy && is_recent && last_error_at > recovered_at {
            self.health = Health::Failing;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_that_a_living_relay_says_counts() {
        let lane = |destination: &str, down, limited| {
            let mut lane = LaneView::new(destination);
            (lane.down, lane.limited) = (down, limited);
            lane
        };
        let relay = |alive, lanes| RelayView {
            id: Uuid::nil(),
            host: "vm".to_owned(),
            started_at: DateTime::UNIX_EPOCH,
            heartbeat_at: DateTime::UNIX_EPOCH,
            in_flight: 0,
            idle: false,
            configuration: None,
            alive,
            lanes,
        };
        let observed = Observations {
            relays: vec![
                relay(true, vec![lane("mail", false, true), lane("runner", false, false)]),
                relay(true, vec![lane("mail", true, false)]),
                relay(false, vec![lane("runner", true, false), lane("gone", true, false)]),
            ],
            ..Observations::default()
        };
        let mut off = DestinationInfo::new("off", "http");
        off.paused = true;
        let configured = [DestinationInfo::new("new", "http"), off];
        let all = observed.destinations(&configured, &Routes::default());
        let found: Vec<(&str, &str)> = all.iter().map(|one| (one.name.as_str(), one.health.as_str())).collect();
        assert_eq!(found, [("mail", "down"), ("new", "unknown"), ("off", "paused"), ("runner", "healthy")]);
    }

    #[test]
    fn what_relays_and_tables_tell_of_a_destination_is_put_together() {
        let now: DateTime<Utc> = "2026-03-01T12:30:20Z".parse().unwrap();
        let ago = |seconds| Some(now - chrono::TimeDelta::seconds(seconds));
        let lane = |since, probe_at, queued| {
            let mut lane = LaneView::new("mail");
            (lane.down, lane.down_since, lane.probe_at, lane.queued) = (true, since, probe_at, queued);
            lane
        };
        let relay = |lane: LaneView| RelayView {
            id: Uuid::new_v4(),
            host: "vm".to_owned(),
            started_at: now,
            heartbeat_at: now,
            in_flight: 0,
            idle: false,
            configuration: None,
            alive: true,
            lanes: vec![lane],
        };
        let minute = |ago: i64, response| {
            let mut minute = Minute::new(now - chrono::TimeDelta::minutes(ago), "mail");
            minute.delivered = 1;
            minute.response.add(Duration::from_millis(response));
            minute
        };
        let oldest = Some(Duration::from_secs(3600));
        let observed = Observations {
            at: now,
            since: now - chrono::TimeDelta::minutes(2),
            relays: vec![relay(lane(ago(60), ago(-9), 2)), relay(lane(ago(90), ago(-4), 3))],
            minutes: vec![minute(3, 9000), minute(1, 20)],
            waiting: vec![
                pillarbox::store::Waiting::new("mail", 40, oldest),
                pillarbox::store::Waiting::new(UNROUTED, 9, None),
            ],
            ..Observations::default()
        };
        let all = observed.destinations(&[], &Routes::default());
        let [mail] = &all[..] else { panic!("{all:?}") };
        assert_eq!((mail.health, mail.waiting(), mail.parked, mail.oldest), (Health::Down, 45, 40, oldest));
        assert_eq!((mail.down_since, mail.next_probe), (ago(90), ago(-4)));
        assert_eq!((mail.metrics.delivered, mail.recent.delivered), (1, 2), "the window, and five minutes");
        assert!(mail.metrics.response_p95 < Some(Duration::from_millis(30)), "{:?}", mail.metrics);
    }

    #[test]
    fn a_destination_is_failing_and_so_is_the_relay_that_met_a_failure() {
        let now: DateTime<Utc> = "2026-03-01T12:30:20Z".parse().unwrap();
        let mut bad = Minute::new(now - chrono::TimeDelta::minutes(1), "mail");
        (bad.delivered, bad.failed) = (5, 5);
        let relay = |last_error_at| {
            let mut lane = LaneView::new("mail");
            lane.last_error_at = last_error_at;
            RelayView {
                id: Uuid::new_v4(),
                host: "vm".to_owned(),
                started_at: now,
                heartbeat_at: now,
                in_flight: 0,
                idle: false,
                configuration: None,
                alive: true,
                lanes: vec![lane],
            }
        };
        let observed = Observations {
            at: now,
            relays: vec![relay(Some(now)), relay(None)],
            minutes: vec![bad],
            ..Observations::default()
        };
        let all = observed.destinations(&[], &Routes::default());
        let lanes: Vec<Health> = all[0].lanes.iter().map(|lane| lane.health).collect();
        assert_eq!((all[0].health, lanes), (Health::Failing, vec![Health::Failing, Health::Healthy]));
    }
}
