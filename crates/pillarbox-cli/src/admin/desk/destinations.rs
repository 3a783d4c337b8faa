//! Destinations as people look at them: what the configuration says, what people have paused, what the living relays say of
//! their lanes, and how they did lately.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, Utc};
use pillarbox::store::{LaneView, Minute, PausedView, RelayView};
use pillarbox_sinks::DestinationSettings;
use uuid::Uuid;

use super::figures::Figures;
use super::{Desk, DeskError, ago};

/// One of them.
#[derive(Debug, Default)]
pub(crate) struct DestinationShown {
    pub(crate) name: String,
    /// As this configuration has it; `None` when only relays with another one know it.
    pub(crate) configured: Option<Configured>,
    pub(crate) health: Health,
    /// By people, while relays run.
    pub(crate) paused: Option<PausedView>,
    /// Events for it in the relays' queues.
    pub(crate) queued: u64,
    /// On their way to it.
    pub(crate) sending: u64,
    pub(crate) last_error: Option<(DateTime<Utc>, String)>,
    /// Of the window.
    pub(crate) figures: Figures,
    /// What each living relay says of it.
    pub(crate) lanes: Vec<Lane>,
}

#[derive(Debug)]
pub(crate) struct Configured {
    pub(crate) kind: &'static str,
    /// Without what lets somebody in.
    pub(crate) address: Option<String>,
    pub(crate) timeout: Duration,
    pub(crate) concurrency: usize,
    /// Events per second.
    pub(crate) rate: Option<f64>,
    /// By the configuration.
    pub(crate) paused: bool,
    /// Patterns of event types that are routed to it.
    pub(crate) events: Vec<String>,
}

#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) relay: Uuid,
    pub(crate) host: String,
    pub(crate) lane: LaneView,
}

/// How a destination is, the worst that a living relay says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Health {
    /// No living relay knows it.
    #[default]
    Unknown,
    /// Nothing is wrong.
    Up,
    /// Slower than what comes in.
    Congested,
    /// Its breaker is open.
    Down,
    /// Nothing is sent to it.
    Paused,
}

impl Health {
    #[allow(dead_code, reason = "for the pages")]
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Up => "up",
            Self::Congested => "congested",
            Self::Down => "down",
            Self::Paused => "paused",
        }
    }
}

impl Desk {
    /// All that the configuration or a relay knows.
    pub(crate) async fn destinations(&self, window: Duration) -> Result<Vec<DestinationShown>, DeskError> {
        let (minutes, relays, pauses) =
            tokio::try_join!(self.store.minutes(ago(window)), self.store.relays(), self.store.pauses())?;
        Ok(self.shown_destinations(&minutes, &relays, &pauses))
    }

    pub(super) fn shown_destinations(
        &self,
        minutes: &[Minute],
        relays: &[RelayView],
        pauses: &[PausedView],
    ) -> Vec<DestinationShown> {
        let mut shown: BTreeMap<&str, DestinationShown> = BTreeMap::new();
        for destination in &self.destinations {
            shown.entry(&destination.name).or_default().configured = Some(self.configured(destination));
        }
        for paused in pauses {
            shown.entry(&paused.destination).or_default().paused = Some(paused.clone());
        }
        for relay in relays.iter().filter(|relay| relay.alive) {
            for lane in &relay.lanes {
                shown.entry(&lane.destination).or_default().add(relay, lane);
            }
        }
        let mut by_name: BTreeMap<&str, Vec<&Minute>> = BTreeMap::new();
        for minute in minutes {
            by_name.entry(&minute.destination).or_default().push(minute);
        }
        for (name, minutes) in by_name {
            shown.entry(name).or_default().figures = Figures::of(minutes);
        }
        shown.into_iter().map(|(name, shown)| DestinationShown { name: name.to_owned(), ..shown.judged() }).collect()
    }

    fn configured(&self, destination: &DestinationSettings) -> Configured {
        let routes = self.routes.iter().filter(|route| route.to.contains(&destination.name));
        Configured {
            kind: destination.kind(),
            address: destination.shown_address(),
            timeout: destination.timeout,
            concurrency: destination.concurrency,
            rate: destination.rate,
            paused: destination.paused,
            events: routes.map(|route| route.events.as_str().to_owned()).collect(),
        }
    }

    /// Whether anybody knows a destination of this name.
    pub(super) async fn knows(&self, name: &str) -> Result<bool, DeskError> {
        if self.destinations.iter().any(|destination| destination.name == name) {
            return Ok(true);
        }
        let (relays, pauses) = tokio::try_join!(self.store.relays(), self.store.pauses())?;
        let in_a_lane = relays.iter().flat_map(|relay| &relay.lanes).any(|lane| lane.destination == name);
        Ok(in_a_lane || pauses.iter().any(|paused| paused.destination == name))
    }
}

impl DestinationShown {
    fn add(&mut self, relay: &RelayView, lane: &LaneView) {
        self.queued += lane.queued;
        self.sending += lane.sending;
        let error = lane.last_error_at.zip(lane.last_error.clone());
        self.last_error = self.last_error.take().max(error);
        self.lanes.push(Lane { relay: relay.id, host: relay.host.clone(), lane: lane.clone() });
    }

    fn judged(mut self) -> Self {
        let any = |is: fn(&LaneView) -> bool| self.lanes.iter().any(|lane| is(&lane.lane));
        let by_configuration = self.configured.as_ref().is_some_and(|configured| configured.paused);
        self.health = if self.paused.is_some() || by_configuration || any(|lane| lane.paused) {
            Health::Paused
        } else if any(|lane| lane.down) {
            Health::Down
        } else if any(|lane| lane.congested) {
            Health::Congested
        } else if self.lanes.is_empty() {
            Health::Unknown
        } else {
            Health::Up
        };
        self
    }
}
