//! Destinations for people: the configuration, pauses, the lanes that living relays report, and metrics. This is the one
//! place that decides how healthy a destination is.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use pillarbox::Routes;
use pillarbox::store::{EventDetail, LaneView, PausedView, RelayView};
use serde::Serialize;
use uuid::Uuid;

use super::metrics::{Metrics, Observations};
use super::{Desk, DeskError, ago};

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
    /// Events in the relays' queues for it.
    pub queued: u64,
    /// Events in flight to it.
    pub sending: u64,
    /// The newest error that a living relay reports.
    pub last_error: Option<(DateTime<Utc>, String)>,
    /// Metrics of the window.
    pub metrics: Metrics,
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
    /// The lane, as the relay reports it.
    pub lane: LaneView,
}

/// The health of a destination: the worst that a living relay reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Health {
    /// No living relay knows it.
    #[default]
    Unknown,
    /// Its breaker is closed, and it keeps up.
    Up,
    /// Its breaker is closed, and events come in faster than it takes them.
    Congested,
    /// Its breaker is open: its events are parked, and probes continue.
    Down,
    /// Nothing is sent to it.
    Paused,
}

impl Health {
    /// Returns the word for people: `unknown`, `up`, `congested`, `down` or `paused`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Up => "up",
            Self::Congested => "congested",
            Self::Down => "down",
            Self::Paused => "paused",
        }
    }

    /// Returns the health that one relay reports.
    #[must_use]
    pub fn of(lane: &LaneView) -> Self {
        match lane {
            lane if lane.paused => Self::Paused,
            lane if lane.down => Self::Down,
            lane if lane.congested => Self::Congested,
            _ => Self::Up,
        }
    }

    fn badness(self) -> u8 {
        match self {
            Self::Unknown => 0,
            Self::Up => 1,
            Self::Congested => 2,
            Self::Down => 3,
            Self::Paused => 4,
        }
    }
}

impl Desk {
    /// Returns all destinations that the configuration or a relay knows, with metrics of the last `window`.
    ///
    /// # Errors
    /// Fails if the database fails.
    pub async fn destinations(&self, window: Duration) -> Result<Vec<DestinationStatus>, DeskError> {
        let (minutes, relays, pauses) =
            tokio::try_join!(self.store.minutes(ago(window)), self.store.relays(), self.store.pauses())?;
        Ok(Observations { minutes, relays, pauses }.destinations(&self.destinations, &self.routes))
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
            status.events = leading.map(|route| route.events.as_str().to_owned()).collect();
        }
        for paused in &self.pauses {
            all.entry(&paused.destination).or_default().paused = Some(paused.clone());
        }
        for relay in self.relays.iter().filter(|relay| relay.alive) {
            for lane in &relay.lanes {
                all.entry(&lane.destination).or_default().add(relay, lane);
            }
        }
        let mut by_name: BTreeMap<&str, Vec<_>> = BTreeMap::new();
        for minute in &self.minutes {
            by_name.entry(&minute.destination).or_default().push(minute);
        }
        for (name, minutes) in by_name {
            all.entry(name).or_default().metrics = Metrics::of(minutes);
        }
        all.into_iter().map(|(name, status)| DestinationStatus { name: name.to_owned(), ..status.judged() }).collect()
    }
}

impl DestinationStatus {
    /// Returns whether the configuration pauses it. Then people cannot resume it.
    #[must_use]
    pub fn is_paused_by_configuration(&self) -> bool {
        self.configured.as_ref().is_some_and(|configured| configured.paused)
    }

    fn add(&mut self, relay: &RelayView, lane: &LaneView) {
        self.queued += lane.queued;
        self.sending += lane.sending;
        let error = lane.last_error_at.zip(lane.last_error.clone());
        self.last_error = self.last_error.take().max(error);
        self.lanes.push(Lane { relay: relay.id, host: relay.host.clone(), lane: lane.clone() });
    }

    fn judged(mut self) -> Self {
        let worst = self.lanes.iter().map(|lane| Health::of(&lane.lane)).max_by_key(|health| health.badness());
        self.health = if self.paused.is_some() || self.is_paused_by_configuration() {
            Health::Paused
        } else {
            worst.unwrap_or_default()
        };
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_that_a_living_relay_says_counts() {
        let lane = |destination: &str, down, congested| {
            let mut lane = LaneView::new(destination);
            (lane.down, lane.congested) = (down, congested);
            lane
        };
        let relay = |alive, lanes| RelayView {
            id: Uuid::nil(),
            host: "vm".to_owned(),
            started_at: DateTime::UNIX_EPOCH,
            heartbeat_at: DateTime::UNIX_EPOCH,
            in_flight: 0,
            idle: false,
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
        assert_eq!(found, [("mail", "down"), ("new", "unknown"), ("off", "paused"), ("runner", "up")]);
    }
}
