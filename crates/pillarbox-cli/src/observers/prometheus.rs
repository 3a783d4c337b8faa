//! Prometheus: metrics of the relay as text. A scrape sends no query to the database. The number of series is bounded by
//! the names in the configuration and by a limit of event types.

use std::collections::HashSet;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use chrono::Utc;
use pillarbox::delivery::{Change, Verdict};
use pillarbox::relay::Monitor;
use pillarbox::source::wal::WalStore;
use pillarbox::store::LaneView;
use pillarbox::{Observed, Observer, SendError, StoredEvent};
use prometheus::{
    Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts,
    Registry, TextEncoder,
};

use super::depth::LastDepth;
use super::log_series::LogSeries;
use super::statsd::named;
use crate::store::Depth;

/// The maximum number of event types with series of their own. Further types share one name.
const MOST_TYPES: usize = 200;
const OTHERS: &str = "others";

/// The buckets, from half a millisecond to five minutes.
const SECONDS: [f64; 16] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0, 300.0];

/// Counts the relay's events, and renders the metrics.
pub(crate) struct Prometheus {
    registry: Registry,
    types: Mutex<HashSet<String>>,
    events: Events,
    sends: Sends,
    claims: Claims,
    waiting: Waiting,
    under_way: UnderWay,
    depth: LastDepth,
    monitor: OnceLock<Monitor>,
    log: OnceLock<LogSeries>,
}

/// Outcomes of events, by type.
struct Events {
    delivered: IntCounterVec,
    retried: IntCounterVec,
    given_up: IntCounterVec,
}

/// Results of sends, by destination.
struct Sends {
    failed: IntCounterVec,
    latency: HistogramVec,
    duration: HistogramVec,
}

/// The claim loop.
struct Claims {
    turns: IntCounter,
    claimed: IntCounter,
    duration: Histogram,
}

/// Events in the table.
struct Waiting {
    due: IntGauge,
    scheduled: IntGauge,
    leased: IntGauge,
    parked: IntGauge,
    dead: IntGauge,
    oldest: Gauge,
    /// By destination.
    parked_on: IntGaugeVec,
    oldest_on: GaugeVec,
}

/// Events in flight in this relay.
struct UnderWay {
    events: IntGauge,
    bytes: IntGauge,
    down: IntGaugeVec,
    paused: IntGaugeVec,
    queued: IntGaugeVec,
    sending: IntGaugeVec,
}

impl Prometheus {
    /// Registers the metrics.
    ///
    /// # Errors
    /// Fails if Prometheus does not accept a name.
    pub(crate) fn new(depth: LastDepth) -> Result<Self, prometheus::Error> {
        let registry = Registry::new_custom(Some("pillarbox".to_owned()), None)?;
        let build = Opts::new("build_info", "The program").const_label("version", env!("CARGO_PKG_VERSION"));
        let build = registered(&registry, IntGauge::with_opts(build)?)?;
        build.set(1);
        Ok(Self {
            events: Events::new(&registry)?,
            sends: Sends::new(&registry)?,
            claims: Claims::new(&registry)?,
            waiting: Waiting::new(&registry)?,
            under_way: UnderWay::new(&registry)?,
            types: Mutex::default(),
            registry,
            depth,
            monitor: OnceLock::new(),
            log: OnceLock::new(),
        })
    }

    /// Sets the relay whose state is shown.
    pub(crate) fn watch(&self, monitor: Monitor) {
        let _ = self.monitor.set(monitor);
    }

    /// Adds the metrics of the write-ahead log.
    ///
    /// # Errors
    /// Fails if Prometheus does not accept a name.
    pub(crate) fn watch_log(&self, log: &WalStore) -> Result<(), prometheus::Error> {
        let series = LogSeries::new(&self.registry, log.clone())?;
        let _ = self.log.set(series);
        Ok(())
    }

    /// Returns all metrics in Prometheus's text format.
    pub(crate) fn render(&self) -> Result<String, prometheus::Error> {
        if let Some(depth) = &*self.depth.borrow() {
            self.waiting.show(depth);
        }
        if let Some(status) = self.monitor.get().and_then(Monitor::status) {
            self.under_way.events.set(count(status.in_flight));
            self.under_way.bytes.set(count(status.bytes_in_flight));
            let depth = self.depth.borrow();
            for destination in &status.destinations {
                self.under_way.look(destination);
                self.waiting.look(destination, depth.as_ref());
            }
        }
        if let Some(log) = self.log.get() {
            log.look();
        }
        TextEncoder::new().encode_to_string(&self.registry.gather())
    }

    fn of_type(&self, counter: &IntCounterVec, event: &StoredEvent) {
        let mut types = self.types.lock().unwrap_or_else(PoisonError::into_inner);
        let name = bounded(&mut types, &event.event_type, MOST_TYPES);
        counter.with_label_values(&[name]).inc();
    }
}

/// Returns the name, or the shared name if there are too many.
fn bounded<'a>(known: &mut HashSet<String>, name: &'a str, most: usize) -> &'a str {
    if known.contains(name) {
        return name;
    }
    if known.len() >= most {
        return OTHERS;
    }
    known.insert(name.to_owned());
    name
}

impl Observer for Prometheus {
    /// Measures the latency by this host's clock. It is wrong by the difference to the database's clock, and decides
    /// nothing else.
    fn sent(&self, event: &StoredEvent, destination: &str, took: Duration) -> Observed {
        let latency = Utc::now().signed_duration_since(event.created_at).to_std().unwrap_or_default();
        self.sends.latency.with_label_values(&[destination]).observe(latency.as_secs_f64());
        self.sends.duration.with_label_values(&[destination]).observe(took.as_secs_f64());
        Ok(())
    }

    fn failed(&self, _event: &StoredEvent, destination: &str, error: &SendError) -> Observed {
        self.sends.failed.with_label_values(&[destination, named(error.kind)]).inc();
        Ok(())
    }

    fn settled(&self, event: &StoredEvent, verdict: &Verdict) -> Observed {
        match &verdict.change {
            Change::Deliver => self.of_type(&self.events.delivered, event),
            Change::Fail { .. } => self.of_type(&self.events.given_up, event),
            _ if verdict.retried_after().is_some() => self.of_type(&self.events.retried, event),
            _ => {}
        }
        Ok(())
    }

    fn turned(&self) -> Observed {
        self.claims.turns.inc();
        Ok(())
    }

    fn finished(&self, events: usize, took: Duration) -> Observed {
        self.claims.claimed.inc_by(events as u64);
        self.claims.duration.observe(took.as_secs_f64());
        Ok(())
    }
}

impl Events {
    fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let by_type = |name, help| registered(registry, IntCounterVec::new(Opts::new(name, help), &["event_type"])?);
        Ok(Self {
            delivered: by_type("events_delivered_total", "Events delivered to all their destinations")?,
            retried: by_type("events_retried_total", "Failed attempts that are retried")?,
            given_up: by_type("events_given_up_total", "Events that became dead letters")?,
        })
    }
}

impl Sends {
    fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let failed = Opts::new("attempts_failed_total", "Failed sends, including outages");
        let seconds = |name, help| {
            let options = HistogramOpts::new(name, help).buckets(SECONDS.to_vec());
            registered(registry, HistogramVec::new(options, &["destination"])?)
        };
        Ok(Self {
            failed: registered(registry, IntCounterVec::new(failed, &["destination", "kind"])?)?,
            latency: seconds("delivery_latency_seconds", "Time from the emit to a successful delivery")?,
            duration: seconds("send_duration_seconds", "Duration of a successful send")?,
        })
    }
}

impl Claims {
    fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let counter = |name, help| registered(registry, IntCounter::new(name, help)?);
        let batch = HistogramOpts::new("batch_duration_seconds", "Time from a claim to the last settle of its events");
        Ok(Self {
            turns: counter("loop_turns_total", "Iterations of the claim loop that completed a claim")?,
            claimed: counter("events_claimed_total", "Events that this relay has claimed and finished")?,
            duration: registered(registry, Histogram::with_opts(batch.buckets(SECONDS.to_vec()))?)?,
        })
    }
}

impl Waiting {
    fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let gauge = |name, help| registered(registry, IntGauge::new(name, help)?);
        Ok(Self {
            due: gauge("due_events", "Events that are due; approximate above 10000")?,
            scheduled: gauge(
                "scheduled_events",
                "Events that are due later, including retries; approximate above 10000",
            )?,
            leased: gauge("leased_events", "Events claimed by a lease; events held by a row lock count as due")?,
            parked: gauge(
                "parked_events",
                "Events parked on a destination or without a route; approximate above 10000",
            )?,
            dead: gauge("dead_letters", "Dead letters; approximate above 10000")?,
            oldest: registered(
                registry,
                Gauge::new("oldest_due_seconds", "How long the oldest due event has waited")?,
            )?,
            parked_on: registered(
                registry,
                IntGaugeVec::new(
                    Opts::new(
                        "destination_parked_events",
                        "Events parked on the destination; a lower bound above 10000",
                    ),
                    &["destination"],
                )?,
            )?,
            oldest_on: registered(
                registry,
                GaugeVec::new(
                    Opts::new(
                        "destination_oldest_parked_seconds",
                        "The age of the oldest event parked on the destination",
                    ),
                    &["destination"],
                )?,
            )?,
        })
    }
}

impl Waiting {
    fn show(&self, depth: &Depth) {
        self.due.set(depth.due.cast_signed());
        self.scheduled.set(depth.scheduled.cast_signed());
        self.leased.set(depth.leased.cast_signed());
        self.parked.set(depth.parked.cast_signed());
        self.dead.set(depth.dead.cast_signed());
        self.oldest.set(depth.oldest.unwrap_or_default().as_secs_f64());
        // A destination for which nothing waits any more goes.
        self.parked_on.reset();
        self.oldest_on.reset();
        for waiting in &depth.waiting {
            self.set(&waiting.on, waiting.count, waiting.oldest);
        }
    }

    fn set(&self, on: &str, parked: u64, oldest: Option<Duration>) {
        self.parked_on.with_label_values(&[on]).set(parked.cast_signed());
        self.oldest_on.with_label_values(&[on]).set(oldest.unwrap_or_default().as_secs_f64());
    }

    /// Shows a destination of the relay, even if nothing waits for it.
    fn look(&self, lane: &LaneView, depth: Option<&Depth>) {
        let is_shown = depth.is_some_and(|depth| depth.waiting.iter().any(|waiting| waiting.on == lane.destination));
        if !is_shown {
            self.set(&lane.destination, 0, None);
        }
    }
}

impl UnderWay {
    fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let gauge = |name, help| registered(registry, IntGauge::new(name, help)?);
        let each = |name, help| registered(registry, IntGaugeVec::new(Opts::new(name, help), &["destination"])?);
        Ok(Self {
            events: gauge("in_flight_events", "Events in flight: claimed by this relay and not settled")?,
            bytes: gauge("in_flight_bytes", "Payload bytes of the events in flight")?,
            down: each("destination_down", "1 while the destination is down")?,
            paused: each("destination_paused", "1 while the destination is paused")?,
            queued: each("destination_queued_events", "Events in the queue of this relay")?,
            sending: each("destination_sending_events", "Events that are being sent")?,
        })
    }

    fn look(&self, lane: &LaneView) {
        let name = [lane.destination.as_str()];
        self.down.with_label_values(&name).set(lane.down.into());
        self.paused.with_label_values(&name).set(lane.paused.into());
        self.queued.with_label_values(&name).set(lane.queued.cast_signed());
        self.sending.with_label_values(&name).set(lane.sending.cast_signed());
    }
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(super) fn registered<C: prometheus::core::Collector + Clone + 'static>(
    registry: &Registry,
    collector: C,
) -> Result<C, prometheus::Error> {
    registry.register(Box::new(collector.clone()))?;
    Ok(collector)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_a_number_of_names_the_rest_share_one() {
        let mut known = HashSet::new();
        let names = ["a", "b", "c", "d", "a"].map(|name| bounded(&mut known, name, 2));
        assert_eq!(names, ["a", "b", OTHERS, OTHERS, "a"]);
    }
}
