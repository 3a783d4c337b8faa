//! The configuration of a relay: settings, destinations, routes. It is checked once, when the relay is built.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::breaker::BreakerSettings;
use super::lane::{Lane, Limits};
use super::{Engine, Relay};
use crate::check::Check;
use crate::delivery::{CHECK, UNROUTED};
use crate::error::BuildError;
use crate::event::Headers;
use crate::observe::{Observer, Observers};
use crate::retry::RetryPolicy;
use crate::route::{Pattern, Route, Routes};
use crate::sink::{Handler, Message, SendError, Sink, Tested, test_event};
use crate::store::{ClaimBy, Order, Retention, Store};
use crate::trace::Tracer;

/// What happens to a delivered event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnDelivered {
    /// The event stays until cleanup, so that duplicates are noticed and people can look at it.
    #[default]
    Keep,
    /// The event is deleted at once. The table stays small, and the relay is twice as fast.
    Delete,
}

/// Which attempts are recorded in `outbox_attempt`, for people to look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RecordAttempts {
    /// The failed ones.
    #[default]
    Failed,
    /// The successful ones, too, with the receiver's status code and the duration, unless delivered events are deleted. An
    /// event is then one more insert.
    All,
}

/// What happens to an event that no route matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unrouted {
    /// The event is parked, visibly, until a route matches.
    #[default]
    Park,
    /// The event counts as delivered.
    Discard,
}

/// The settings of a relay. The defaults are those of `pillarbox.default.toml`.
#[derive(Debug, Clone)]
pub struct RelaySettings {
    /// The number of events claimed at once. Up to twice as many are in flight, besides those being sent.
    pub batch_size: usize,
    /// The approximate limit of payload bytes in flight.
    pub bytes_in_flight: usize,
    /// The number of concurrent sends to a destination that does not set its own.
    pub concurrency: usize,
    /// How long an idle relay sleeps when nothing wakes it.
    pub poll_interval: Duration,
    /// The same without notifications: the database has none, or they do not arrive. The shorter of both applies.
    pub poll_interval_unwoken: Duration,
    /// How long a claim holds its events. The events of a dead relay are due again after it.
    pub lease: Duration,
    /// How long sends in flight may take when the relay stops.
    pub shutdown_timeout: Duration,
    /// Whether delivered events are kept or deleted.
    pub on_delivered: OnDelivered,
    /// Which attempts are recorded.
    pub record_attempts: RecordAttempts,
    /// How claims are held.
    pub claim_by: ClaimBy,
    /// Whether unrouted events are parked or discarded.
    pub unrouted: Unrouted,
    /// Whether the events of one aggregate are sent one after another.
    pub order: Order,
    /// The backoff of failed deliveries.
    pub retry: RetryPolicy,
    /// When a destination counts as down.
    pub breaker: BreakerSettings,
    /// How often old events are deleted; `None` means never.
    pub cleanup_every: Option<Duration>,
    /// Which events count as old.
    pub retention: Retention,
    /// The name of the relay's host in `outbox_relay`; by default the host's own name.
    pub host: String,
    /// A digest of the routes and destinations, at most 64 characters, for `outbox_relay`. Relays on one outbox must route alike,
    /// and `pillarbox doctor` reports relays whose digests differ. `None` is compared with no other relay.
    pub configuration: Option<String>,
    /// The prefix of the names of log lines.
    pub log_prefix: &'static str,
}

impl RelaySettings {
    /// Returns whether successful attempts are recorded. A deleted event has no attempts.
    pub(super) fn records_successes(&self) -> bool {
        self.record_attempts == RecordAttempts::All && self.on_delivered == OnDelivered::Keep
    }

    /// Returns whether a send with this timeout can begin: part of a lease is always over by then.
    #[must_use]
    pub fn leaves_time_for(&self, timeout: Duration) -> bool {
        timeout + timeout / 10 < self.lease
    }
}

impl Default for RelaySettings {
    fn default() -> Self {
        Self {
            batch_size: 500,
            bytes_in_flight: 64 * 1024 * 1024,
            concurrency: 64,
            poll_interval: Duration::from_secs(1),
            poll_interval_unwoken: Duration::from_millis(200),
            lease: Duration::from_secs(300),
            shutdown_timeout: Duration::from_secs(30),
            on_delivered: OnDelivered::default(),
            record_attempts: RecordAttempts::default(),
            claim_by: ClaimBy::default(),
            unrouted: Unrouted::default(),
            order: Order::default(),
            retry: RetryPolicy::default(),
            breaker: BreakerSettings::default(),
            cleanup_every: Some(Duration::from_secs(6 * 3600)),
            retention: Retention::default(),
            host: whoami::hostname().unwrap_or_else(|_| "localhost".to_owned()),
            configuration: None,
            log_prefix: "pillarbox",
        }
    }
}

/// A named receiver of events, with its limits.
pub struct Destination {
    name: String,
    sink: Arc<dyn Sink>,
    timeout: Option<Duration>,
    concurrency: Option<usize>,
    rate: Option<f64>,
    paused: bool,
}

impl Destination {
    /// Returns a destination that routes call `name`. A send may take ten seconds, unless [`Destination::timeout`] changes it.
    pub fn new(name: impl Into<String>, sink: impl Sink) -> Self {
        Self::shared(name, Arc::new(sink))
    }

    /// As [`Destination::new`], with a sink that is shared already.
    pub fn shared(name: impl Into<String>, sink: Arc<dyn Sink>) -> Self {
        let timeout = Some(Duration::from_secs(10));
        Self { name: name.into(), sink, timeout, concurrency: None, rate: None, paused: false }
    }

    /// Sets how long a send may take. `None` means no limit; the lease is renewed meanwhile.
    #[must_use]
    pub fn timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.timeout = timeout.into();
        self
    }

    /// Checks that the receiver can be reached, within the timeout and without sending anything.
    ///
    /// # Errors
    /// The reason why it cannot be reached.
    pub async fn reach(&self) -> Result<(), SendError> {
        let Some(timeout) = self.timeout else { return self.sink.reach().await };
        let in_time = tokio::time::timeout(timeout, self.sink.reach()).await;
        in_time.unwrap_or_else(|_| Err(SendError::timeout(format_args!("no response within {timeout:?}"))))
    }

    /// Sends a [test event](crate::sink::test_event) to the receiver, and returns the response. It is sent at once, also if the
    /// destination is paused or down, and nothing is stored. `headers` are those that the application's events have, if names are
    /// made from them.
    pub async fn test(&self, headers: Headers) -> Tested {
        test_event::send(&*self.sink, &self.name, headers, self.timeout).await
    }

    /// Returns notes on settings of the receiver that do not fit a relay with this lease, within the timeout. There are none when
    /// the receiver cannot be reached.
    pub async fn advise(&self, lease: Duration) -> Vec<String> {
        let Some(timeout) = self.timeout else { return self.sink.advise(lease).await };
        tokio::time::timeout(timeout, self.sink.advise(lease)).await.unwrap_or_default()
    }

    /// Sets the number of concurrent sends.
    #[must_use]
    pub fn concurrency(mut self, sends: usize) -> Self {
        self.concurrency = Some(sends);
        self
    }

    /// Sets how many events may be sent per second.
    #[must_use]
    pub fn rate(mut self, per_second: impl Into<Option<f64>>) -> Self {
        self.rate = per_second.into();
        self
    }

    /// Sets whether the destination is paused. Nothing is sent to it, and its events are parked.
    #[must_use]
    pub fn paused(mut self, paused: bool) -> Self {
        self.paused = paused;
        self
    }
}

/// The source of a relay's random numbers.
#[derive(Clone)]
pub struct Chance(pub(super) Arc<dyn Fn() -> f64 + Send + Sync>);

impl Chance {
    /// Returns a source from a function that returns numbers in `[0, 1)`.
    pub fn new(next: impl Fn() -> f64 + Send + Sync + 'static) -> Self {
        Self(Arc::new(next))
    }
}

impl Default for Chance {
    fn default() -> Self {
        Self::new(rand::random::<f64>)
    }
}

/// Builds a [`Relay`].
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// use pillarbox::sink::Discard;
/// use pillarbox::store::sqlite::SqliteStore;
/// use pillarbox::{Destination, OnFailed, Order, Relay, RelaySettings, Route};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("shop.db");
/// let store = SqliteStore::open(path).await?;
/// let relay = Relay::builder(Arc::new(store))
///     .settings(RelaySettings { order: Order::Aggregate(OnFailed::Block), ..RelaySettings::default() })
///     .destination(Destination::new("billing", Discard).timeout(Duration::from_secs(10)).concurrency(4))
///     .route(Route::new("invoice.*", ["billing"]))
///     .build()?;
/// # drop(relay);
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct RelayBuilder {
    store: Arc<dyn Store>,
    settings: RelaySettings,
    destinations: Vec<Destination>,
    routes: Routes,
    check: Option<Arc<dyn Check>>,
    observers: Observers,
    tracer: Option<Arc<dyn Tracer>>,
    chance: Chance,
}

impl RelayBuilder {
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            settings: RelaySettings::default(),
            destinations: Vec::new(),
            routes: Routes::default(),
            check: None,
            observers: Observers::default(),
            tracer: None,
            chance: Chance::default(),
        }
    }

    /// Sets all settings at once.
    pub fn settings(mut self, settings: RelaySettings) -> Self {
        self.settings = settings;
        self
    }

    /// Adds a destination that routes can name.
    pub fn destination(mut self, destination: Destination) -> Self {
        self.destinations.push(destination);
        self
    }

    /// Adds a route after the existing ones.
    pub fn route(mut self, route: Route) -> Self {
        self.routes.push(route);
        self
    }

    /// Sets the check of events. An event that violates it becomes a dead letter before its first send, with the violation as its
    /// error. An operator's retry begins with the check again.
    pub fn check(mut self, check: Arc<dyn Check>) -> Self {
        self.check = Some(check);
        self
    }

    /// Adds a handler in this process for event types that match a pattern. It gets a destination and a route of its own. It
    /// has no timeout; a panic is a failed attempt.
    pub fn handler<F, R, E>(self, events: impl Into<Pattern>, handle: F) -> Self
    where
        F: Fn(Message) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<SendError> + 'static,
    {
        let events = events.into();
        let name = format!("handler {}", events.as_str());
        self.destination(Destination::new(name.clone(), Handler(handle)).timeout(None))
            .route(Route::new(events, [name]))
    }

    /// Adds an observer.
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observers.push(observer);
        self
    }

    /// Sets the tracer, which follows events through claim, send and settle. Receivers get the spans of the sends.
    pub fn tracer(mut self, tracer: Arc<dyn Tracer>) -> Self {
        self.tracer = Some(tracer);
        self
    }

    /// Sets the source of jitter. A simulation sets its own, so that a run can be repeated.
    pub fn chance(mut self, chance: Chance) -> Self {
        self.chance = chance;
        self
    }

    /// Checks the configuration and returns the relay.
    ///
    /// # Errors
    /// A setting that is invalid or contradicts another, and what to do.
    pub fn build(self) -> Result<Relay, BuildError> {
        check_settings(&self.settings)?;
        if self.settings.order != Order::None && !self.store.can_order() {
            let why = "this store does not support ordering by aggregate; write \"none\"";
            return Err(BuildError::BadSetting { setting: "relay.order", value: "\"aggregate\"".to_owned(), why });
        }
        let mut lanes = BTreeMap::new();
        let share = share(self.destinations.len(), self.settings.bytes_in_flight);
        for destination in self.destinations {
            check_destination(&destination, &self.settings)?;
            let name = destination.name.clone();
            let limits = Limits {
                timeout: destination.timeout,
                concurrency: destination.concurrency.unwrap_or(self.settings.concurrency),
                rate: destination.rate,
                paused: destination.paused,
                breaker: self.settings.breaker,
                share,
            };
            let lane = Lane::new(destination.name, destination.sink, limits);
            if lanes.insert(name.clone(), Arc::new(lane)).is_some() {
                return Err(BuildError::SameName { name });
            }
        }
        check_routes(&self.routes, &lanes)?;
        let engine =
            Engine::new(self.store, self.settings, self.routes, lanes, self.observers, self.tracer, self.chance);
        Ok(Relay::new(Engine { check: self.check, ..engine }))
    }
}

/// Returns how many bytes one of the destinations may have in flight. All of them together leave room for a claim.
fn share(destinations: usize, bytes_in_flight: usize) -> usize {
    const MOST: usize = 31;
    if destinations < 2 { usize::MAX } else { bytes_in_flight / 2 / (destinations.min(MOST) + 1) }
}

fn check_settings(settings: &RelaySettings) -> Result<(), BuildError> {
    let bad = |setting, value: String, why| Err(BuildError::BadSetting { setting, value, why });
    if settings.batch_size == 0 {
        return bad("relay.batch_size", "0".to_owned(), "it must be at least 1");
    }
    if settings.concurrency == 0 {
        return bad("relay.concurrency", "0".to_owned(), "it must be at least 1");
    }
    if settings.poll_interval.is_zero() {
        return bad(
            "relay.poll_interval",
            "0s".to_owned(),
            "it must be longer than 0, or the relay would poll without a pause",
        );
    }
    if !(0.0..=1.0).contains(&settings.retry.jitter) {
        return bad("relay.retry.jitter", settings.retry.jitter.to_string(), "it must be between 0 and 1");
    }
    if settings.retention.batch == 0 {
        return bad("relay.cleanup.batch", "0".to_owned(), "it must be at least 1, or the cleanup would never end");
    }
    if settings.cleanup_every.is_some_and(|every| every.is_zero()) {
        return bad("relay.cleanup.every", "0s".to_owned(), "it must be longer than 0; leave it out for no cleanup");
    }
    if settings.breaker.base.is_zero() || settings.breaker.cap.is_zero() {
        let why = "base and cap must be longer than 0, or a destination that is down would be probed without a pause";
        return bad("relay.breaker", "0s".to_owned(), why);
    }
    if settings.lease.is_zero() {
        return bad("relay.lease", "0s".to_owned(), "it must be longer than 0, or every event would be sent twice");
    }
    Ok(())
}

fn check_destination(destination: &Destination, settings: &RelaySettings) -> Result<(), BuildError> {
    let name = destination.name.clone();
    if name == UNROUTED || name == CHECK || name.is_empty() || name.chars().count() > 255 {
        return Err(BuildError::ReservedName { name });
    }
    if destination.concurrency == Some(0) {
        let why = "it must be at least 1; to send nothing, pause the destination";
        return Err(BuildError::BadSetting { setting: "destination.concurrency", value: "0".to_owned(), why });
    }
    if let Some(rate) = destination.rate.filter(|rate| !(rate.is_finite() && *rate > 0.0)) {
        let why = "it must be a positive number of events per second";
        return Err(BuildError::BadSetting { setting: "destination.rate", value: rate.to_string(), why });
    }
    match destination.timeout {
        Some(timeout) if !settings.leaves_time_for(timeout) => {
            Err(BuildError::LeaseTooShort { lease: settings.lease, destination: name, timeout })
        }
        _ => Ok(()),
    }
}

fn check_routes(routes: &Routes, lanes: &BTreeMap<String, Arc<Lane>>) -> Result<(), BuildError> {
    for route in routes.iter() {
        if let Some(unknown) = route.to.iter().find(|name| !lanes.contains_key(*name)) {
            let known: Vec<&str> = lanes.keys().map(String::as_str).collect();
            return Err(BuildError::UnknownDestination {
                pattern: route.events.as_str().to_owned(),
                destination: unknown.clone(),
                known: if known.is_empty() { "none".to_owned() } else { known.join(", ") },
            });
        }
        let twice = route.to.iter().enumerate().find(|(at, name)| route.to[..*at].contains(name));
        if let Some((_, twice)) = twice {
            let why = "the route lists it twice; an event is delivered once to each destination";
            return Err(BuildError::BadSetting { setting: "route.to", value: format!("{twice:?}"), why });
        }
        if route.to.is_empty() {
            let why = "a route needs at least one destination";
            return Err(BuildError::BadSetting { setting: "route.to", value: "empty".to_owned(), why });
        }
    }
    Ok(())
}
