//! The data of one frame of `top`, made from the desk's overview. Pure.

use std::time::Duration;

use chrono::{DateTime, Utc};
use pillarbox::store::{Depth, Latency, Minute, RelayView};
use pillarbox_admin::desk::{self, DestinationStatus, Health, Observations, Problem};
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
    /// What needs somebody, the worst first.
    pub(super) problems: Vec<String>,
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
    pub(super) health: Health,
    /// The number of events that wait for it, parked or queued.
    pub(super) waiting: u64,
    /// The age of the oldest parked event.
    pub(super) oldest_seconds: Option<f64>,
    pub(super) down_since: Option<DateTime<Utc>>,
    pub(super) next_probe_at: Option<DateTime<Utc>>,
    /// The user who paused it, if a person did.
    pub(super) paused_by: Option<String>,
    pub(super) paused_in_configuration: bool,
    /// Whether it is in this configuration.
    pub(super) configured: bool,
    /// The number of events delivered in the last whole minute.
    pub(super) delivered_per_minute: u64,
    pub(super) failed_per_minute: u64,
    /// The share of successful attempts in the last hour.
    pub(super) success_rate: Option<f64>,
    /// The time from commit to delivery.
    pub(super) latency: Quantiles,
    /// The receiver's response time.
    pub(super) response: Quantiles,
    pub(super) queued: u64,
    pub(super) sending: u64,
    pub(super) last_error: Option<String>,
}

impl Overview {
    pub(super) fn of(seen: desk::Overview) -> Self {
        let problems = seen.problems().iter().map(Problem::title).collect();
        Self { problems, ..Self::at(seen.at, seen.depth, seen.observed, seen.destinations) }
    }

    fn at(now: DateTime<Utc>, depth: Depth, observed: Observations, destinations: Vec<DestinationStatus>) -> Self {
        let mut overall = Latency::default();
        let mut rows = Vec::with_capacity(destinations.len());
        for destination in destinations {
            let mut row = Row::new(destination);
            let of_row = |minute: &&Minute| minute.destination == row.name;
            let (mut latency, mut response) = (Latency::default(), Latency::default());
            for minute in observed.minutes.iter().filter(of_row) {
                if age(now, minute) == 1 {
                    row.delivered_per_minute += minute.delivered;
                    row.failed_per_minute += minute.failed;
                }
                if age(now, minute) <= RECENT {
                    latency.merge(&minute.latency);
                    response.merge(&minute.response);
                }
            }
            overall.merge(&latency);
            (row.latency, row.response) = (Quantiles::of(&latency), Quantiles::of(&response));
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
        Self { at: now, depth, delivered, latency, problems: Vec::new(), destinations: rows, relays }
    }
}

/// Returns how many minutes ago the minute began; the current one is 0.
fn age(now: DateTime<Utc>, minute: &Minute) -> i64 {
    now.timestamp().div_euclid(60) - minute.at.timestamp().div_euclid(60)
}

impl Row {
    fn new(destination: DestinationStatus) -> Self {
        Self {
            health: destination.health,
            waiting: destination.waiting(),
            oldest_seconds: destination.oldest.map(|age| age.as_secs_f64()),
            down_since: destination.down_since,
            next_probe_at: destination.next_probe,
            success_rate: destination.metrics.success_rate(),
            paused_in_configuration: destination.is_paused_by_configuration(),
            configured: destination.configured.is_some(),
            paused_by: destination.paused.map(|paused| paused.paused_by),
            delivered_per_minute: 0,
            failed_per_minute: 0,
            latency: Quantiles::default(),
            response: Quantiles::default(),
            queued: destination.queued,
            sending: destination.sending,
            last_error: destination
                .last_error
                .map(|(_, error)| error)
                .filter(|_| destination.health != Health::Healthy),
            name: destination.name,
        }
    }
}

/// Formats a share as whole percent. It is never rounded up to 100.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.0}%", (share * 100.0).floor())
}

/// Formats a duration: `850µs`, `12ms`, `1.4s`, `3m`.
pub(crate) fn short(seconds: Option<f64>) -> String {
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
    use pillarbox::store::{PausedView, Waiting};
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
        (0..delivered).for_each(|_| minute.response.add(took / 2));
        minute
    }

    /// A relay with two destinations, one of them down, and a third that a person has paused.
    pub(in crate::top) fn example() -> Overview {
        let mut down = pillarbox::store::LaneView::new("mail");
        (down.down, down.queued, down.last_error) = (true, 3, Some("connection refused".to_owned()));
        down.last_error_at = Some(at());
        (down.down_since, down.probe_at) = (Some(at() - TimeDelta::minutes(13)), Some(at() + TimeDelta::seconds(4)));
        let mut open = pillarbox::store::LaneView::new("runner");
        (open.sending, open.queued) = (7, 12);
        let relay = |host: &str, alive| RelayView {
            id: uuid::Uuid::nil(),
            host: host.to_owned(),
            started_at: at() - TimeDelta::hours(3),
            heartbeat_at: at() - TimeDelta::seconds(if alive { 2 } else { 90 }),
            in_flight: 22,
            idle: false,
            configuration: None,
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
        let observed = Observations {
            at: at(),
            minutes,
            relays: vec![relay("vm1", true), relay("vm2", false)],
            pauses,
            waiting: vec![Waiting::new("mail", 34, Some(Duration::from_secs(780)))],
            ..Observations::default()
        };
        let destinations = observed.destinations(&names, &Routes::default());
        Overview::at(at(), Depth::default(), observed, destinations)
    }

    #[test]
    fn what_all_relays_say_is_put_together() {
        let overview = example();
        let [audit, mail, runner] = &overview.destinations[..] else { panic!("{overview:?}") };
        assert_eq!((audit.health, audit.paused_by.as_deref()), (Health::Paused, Some("ann@host")));
        assert_eq!(
            (mail.health, mail.waiting, mail.oldest_seconds, mail.last_error.as_deref()),
            (Health::Down, 37, Some(780.0), Some("connection refused"))
        );
        assert_eq!(runner.health, Health::Failing, "a third of the attempts failed");
        assert!(runner.response.p95_seconds < runner.latency.p95_seconds, "{runner:?}");
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
