//! What `top` shows at one moment, put together from what the store says. Pure, but for reading it.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use pillarbox::store::{Depth, Latency, Minute, PausedView, RelayView};
use pillarbox::{Inspect, StoreError};
use serde::Serialize;

/// How far back the curve goes.
pub(super) const MINUTES: usize = 60;
/// Over how many minutes latencies are told.
const RECENT: i64 = 5;

/// A destination of the configuration.
#[derive(Debug, Clone)]
pub(crate) struct Configured {
    pub(crate) name: String,
    pub(crate) paused: bool,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Overview {
    pub(super) at: DateTime<Utc>,
    pub(super) depth: Depth,
    /// Delivered in each of the last minutes, the oldest first, the current one last.
    pub(super) delivered: Vec<u64>,
    pub(super) latency: Quantiles,
    pub(super) destinations: Vec<Row>,
    pub(super) relays: Vec<RelayView>,
}

/// From commit to delivery, of the last five minutes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(super) struct Quantiles {
    pub(super) p50_seconds: Option<f64>,
    pub(super) p95_seconds: Option<f64>,
    pub(super) p99_seconds: Option<f64>,
}

impl Quantiles {
    fn of(latency: &Latency) -> Self {
        let quantile = |share| latency.quantile(share).map(|took| took.as_secs_f64());
        Self { p50_seconds: quantile(0.5), p95_seconds: quantile(0.95), p99_seconds: quantile(0.99) }
    }
}

/// A destination.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) state: State,
    /// Who paused it, if people did.
    pub(super) paused_by: Option<String>,
    /// In the last whole minute.
    pub(super) delivered_per_minute: u64,
    pub(super) failed_per_minute: u64,
    pub(super) latency: Quantiles,
    pub(super) queued: u64,
    pub(super) sending: u64,
    pub(super) last_error: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    Open,
    Paused,
    PausedInConfiguration,
    Down,
    Slow,
    /// It is not in the configuration.
    Unknown,
}

impl Overview {
    pub(super) async fn read(inspect: &dyn Inspect, configured: &[Configured]) -> Result<Self, StoreError> {
        let now = Utc::now();
        let since = now - TimeDelta::minutes(MINUTES as i64);
        let (depth, minutes) = (inspect.depth().await?, inspect.minutes(since).await?);
        let (relays, pauses) = (inspect.relays().await?, inspect.pauses().await?);
        Ok(Self::of(now, depth, &minutes, relays, &pauses, configured))
    }

    fn of(
        now: DateTime<Utc>,
        depth: Depth,
        minutes: &[Minute],
        relays: Vec<RelayView>,
        pauses: &[PausedView],
        configured: &[Configured],
    ) -> Self {
        let mut rows: BTreeMap<String, Row> = BTreeMap::new();
        for destination in configured {
            let state = if destination.paused { State::PausedInConfiguration } else { State::Open };
            rows.insert(destination.name.clone(), Row::new(&destination.name, state));
        }
        let lanes = relays.iter().filter(|relay| relay.alive).flat_map(|relay| &relay.lanes);
        for lane in lanes {
            let row =
                rows.entry(lane.destination.clone()).or_insert_with(|| Row::new(&lane.destination, State::Unknown));
            row.queued += lane.queued;
            row.sending += lane.sending;
            if row.state == State::Open {
                row.state = if lane.down {
                    State::Down
                } else if lane.congested {
                    State::Slow
                } else {
                    State::Open
                };
            }
            if row.last_error.is_none() {
                row.last_error = lane.last_error.clone().filter(|_| lane.down);
            }
        }
        for pause in pauses {
            let row =
                rows.entry(pause.destination.clone()).or_insert_with(|| Row::new(&pause.destination, State::Unknown));
            row.state = State::Paused;
            row.paused_by = Some(pause.paused_by.clone());
        }
        let mut overall = Latency::default();
        for row in rows.values_mut() {
            let of_row = |minute: &&Minute| minute.destination == row.name;
            let mut latency = Latency::default();
            for minute in minutes.iter().filter(of_row) {
                if age(now, minute) == 1 {
                    row.delivered_per_minute += minute.delivered;
                    row.failed_per_minute += minute.failed;
                }
                if age(now, minute) <= RECENT {
                    latency.merge(&minute.latency);
                }
            }
            overall.merge(&latency);
            row.latency = Quantiles::of(&latency);
        }
        let mut delivered = vec![0; MINUTES];
        for minute in minutes {
            let place = usize::try_from(age(now, minute)).ok().and_then(|age| (MINUTES - 1).checked_sub(age));
            if let Some(count) = place.and_then(|place| delivered.get_mut(place)) {
                *count += minute.delivered;
            }
        }
        let destinations = rows.into_values().collect();
        Self { at: now, depth, delivered, latency: Quantiles::of(&overall), destinations, relays }
    }
}

/// How many minutes ago it began, the current one being 0.
fn age(now: DateTime<Utc>, minute: &Minute) -> i64 {
    now.timestamp().div_euclid(60) - minute.at.timestamp().div_euclid(60)
}

impl Row {
    fn new(name: &str, state: State) -> Self {
        Self {
            name: name.to_owned(),
            state,
            paused_by: None,
            delivered_per_minute: 0,
            failed_per_minute: 0,
            latency: Quantiles::default(),
            queued: 0,
            sending: 0,
            last_error: None,
        }
    }
}

/// `850µs`, `12ms`, `1.4s`, `3m`
pub(super) fn short(seconds: Option<f64>) -> String {
    match seconds {
        None => "–".to_owned(),
        Some(seconds) if seconds < 0.001 => format!("{:.0}µs", seconds * 1e6),
        Some(seconds) if seconds < 1.0 => format!("{:.0}ms", seconds * 1e3),
        Some(seconds) if seconds < 10.0 => format!("{seconds:.1}s"),
        Some(seconds) if seconds < 600.0 => format!("{seconds:.0}s"),
        Some(seconds) => humantime::format_duration(Duration::from_secs(seconds as u64 / 60 * 60)).to_string(),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    fn configured(name: &str, paused: bool) -> Configured {
        Configured { name: name.to_owned(), paused }
    }

    pub(in crate::top) fn at() -> DateTime<Utc> {
        "2026-03-01T12:30:20Z".parse().unwrap()
    }

    fn minute(ago: i64, destination: &str, delivered: u64, took: Duration) -> Minute {
        let mut minute = Minute::new(at() - TimeDelta::minutes(ago), destination);
        minute.delivered = delivered;
        minute.failed = delivered / 2;
        (0..delivered).for_each(|_| minute.latency.add(took));
        minute
    }

    /// A relay with two destinations, one of them down, and a third that people have paused.
    pub(in crate::top) fn example() -> Overview {
        let mut down = pillarbox::store::LaneView::new("mail");
        (down.down, down.queued, down.last_error) = (true, 3, Some("connection refused".to_owned()));
        let mut open = pillarbox::store::LaneView::new("runner");
        (open.sending, open.queued) = (7, 12);
        let relay = |host: &str, alive| RelayView {
            id: uuid::Uuid::nil(),
            host: host.to_owned(),
            started_at: at() - TimeDelta::hours(3),
            heartbeat_at: at() - TimeDelta::seconds(if alive { 2 } else { 90 }),
            in_flight: 22,
            idle: false,
            alive,
            lanes: vec![down.clone(), open.clone()],
        };
        let pauses =
            [PausedView { destination: "audit".to_owned(), paused_at: at(), paused_by: "ann@host".to_owned() }];
        let minutes = [
            minute(0, "runner", 40, Duration::from_millis(12)),
            minute(1, "runner", 100, Duration::from_millis(12)),
            minute(1, "mail", 10, Duration::from_millis(900)),
            minute(30, "runner", 50, Duration::from_secs(60)),
        ];
        let names = [configured("audit", false), configured("mail", false), configured("runner", false)];
        let depth = Depth::default();
        Overview::of(at(), depth, &minutes, vec![relay("vm1", true), relay("vm2", false)], &pauses, &names)
    }

    #[test]
    fn what_all_relays_say_is_put_together() {
        let overview = example();
        let [audit, mail, runner] = &overview.destinations[..] else { panic!("{overview:?}") };
        assert_eq!((audit.state, audit.paused_by.as_deref()), (State::Paused, Some("ann@host")));
        assert_eq!((mail.state, mail.queued, mail.last_error.as_deref()), (State::Down, 3, Some("connection refused")));
        assert_eq!((runner.delivered_per_minute, runner.failed_per_minute, runner.sending), (100, 50, 7));
        assert!(runner.latency.p99_seconds < Some(0.02), "{runner:?}");
        assert_eq!(overview.delivered[MINUTES - 1], 40);
        assert_eq!((overview.delivered[MINUTES - 2], overview.delivered[MINUTES - 31]), (110, 50));
    }

    #[test]
    fn durations_are_short() {
        let told = [None, Some(0.0004), Some(0.012), Some(1.44), Some(59.6), Some(7325.0)].map(short);
        assert_eq!(told, ["–", "400µs", "12ms", "1.4s", "60s", "2h 2m"]);
    }
}
