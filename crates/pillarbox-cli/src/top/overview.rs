//! The data of one frame of `top`, made from the desk's overview. Pure.

use std::time::Duration;

use chrono::{DateTime, Utc};
use pillarbox::store::{Depth, Latency, Minute, RelayView};
use pillarbox_admin::desk::{self, DestinationStatus, Health, Observations};
use serde::Serialize;

/// The length of the chart, in minutes.
pub(super) const MINUTES: usize = 60;
/// The number of minutes over which latencies are computed.
const RECENT: i64 = 5;

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Overview {
    pub(super) at: DateTime<Utc>,
    pub(super) depth: Depth,
    /// The number of events delivered in each of the last minutes, oldest first; the current minute is last.
    pub(super) delivered: Vec<u64>,
    pub(super) latency: Quantiles,
    pub(super) destinations: Vec<Row>,
    pub(super) relays: Vec<RelayView>,
}

/// The latency from commit to delivery, over the last five minutes.
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
    pub(super) state: Health,
    /// The user who paused it, if a person did.
    pub(super) paused_by: Option<String>,
    pub(super) paused_in_configuration: bool,
    /// Whether it is in this configuration.
    pub(super) configured: bool,
    /// The number of events delivered in the last whole minute.
    pub(super) delivered_per_minute: u64,
    pub(super) failed_per_minute: u64,
    pub(super) latency: Quantiles,
    pub(super) queued: u64,
    pub(super) sending: u64,
    pub(super) last_error: Option<String>,
}

impl Overview {
    pub(super) fn of(seen: desk::Overview) -> Self {
        Self::at(seen.at, seen.depth, seen.observed, seen.destinations)
    }

    fn at(now: DateTime<Utc>, depth: Depth, observed: Observations, destinations: Vec<DestinationStatus>) -> Self {
        let mut overall = Latency::default();
        let mut rows = Vec::with_capacity(destinations.len());
        for destination in destinations {
            let mut row = Row::new(destination);
            let of_row = |minute: &&Minute| minute.destination == row.name;
            let mut latency = Latency::default();
            for minute in observed.minutes.iter().filter(of_row) {
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
            rows.push(row);
        }
        let mut delivered = vec![0; MINUTES];
        for minute in &observed.minutes {
            let place = usize::try_from(age(now, minute)).ok().and_then(|age| (MINUTES - 1).checked_sub(age));
            if let Some(count) = place.and_then(|place| delivered.get_mut(place)) {
                *count += minute.delivered;
            }
        }
        let (latency, relays) = (Quantiles::of(&overall), observed.relays);
        Self { at: now, depth, delivered, latency, destinations: rows, relays }
    }
}

/// Returns how many minutes ago the minute began; the current one is 0.
fn age(now: DateTime<Utc>, minute: &Minute) -> i64 {
    now.timestamp().div_euclid(60) - minute.at.timestamp().div_euclid(60)
}

impl Row {
    fn new(destination: DestinationStatus) -> Self {
        Self {
            state: destination.health,
            paused_in_configuration: destination.is_paused_by_configuration(),
            configured: destination.configured.is_some(),
            paused_by: destination.paused.map(|paused| paused.paused_by),
            delivered_per_minute: 0,
            failed_per_minute: 0,
            latency: Quantiles::default(),
            queued: destination.queued,
            sending: destination.sending,
            last_error: destination.last_error.map(|(_, error)| error).filter(|_| destination.health == Health::Down),
            name: destination.name,
        }
    }
}

/// Formats a duration: `850µs`, `12ms`, `1.4s`, `3m`.
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
    use chrono::TimeDelta;
    use pillarbox::Routes;
    use pillarbox::store::PausedView;
    use pillarbox_admin::DestinationInfo;

    use super::*;

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

    /// A relay with two destinations, one of them down, and a third that a person has paused.
    pub(in crate::top) fn example() -> Overview {
        let mut down = pillarbox::store::LaneView::new("mail");
        (down.down, down.queued, down.last_error) = (true, 3, Some("connection refused".to_owned()));
        down.last_error_at = Some(at());
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
            vec![PausedView { destination: "audit".to_owned(), paused_at: at(), paused_by: "ann@host".to_owned() }];
        let minutes = vec![
            minute(0, "runner", 40, Duration::from_millis(12)),
            minute(1, "runner", 100, Duration::from_millis(12)),
            minute(1, "mail", 10, Duration::from_millis(900)),
            minute(30, "runner", 50, Duration::from_secs(60)),
        ];
        let names = ["audit", "mail", "runner"].map(|name| DestinationInfo::new(name, "http"));
        let observed = Observations { minutes, relays: vec![relay("vm1", true), relay("vm2", false)], pauses };
        let destinations = observed.destinations(&names, &Routes::default());
        Overview::at(at(), Depth::default(), observed, destinations)
    }

    #[test]
    fn what_all_relays_say_is_put_together() {
        let overview = example();
        let [audit, mail, runner] = &overview.destinations[..] else { panic!("{overview:?}") };
        assert_eq!((audit.state, audit.paused_by.as_deref()), (Health::Paused, Some("ann@host")));
        assert_eq!(
            (mail.state, mail.queued, mail.last_error.as_deref()),
            (Health::Down, 3, Some("connection refused"))
        );
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
