//! The plan of a seed: the relays' settings, the destinations and their behaviour, the events, and the faults with their times.
//! Everything is drawn before the run begins, except for latencies and losses.

use std::time::Duration;

use pillarbox::relay::BreakerSettings;
use pillarbox::{OnDelivered, OnFailed, Order, RelaySettings, RetryPolicy};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

/// The focus of a run. Each run has some of everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Theme {
    /// Destinations that hang and recover, with short timeouts.
    Outages,
    /// Relays that are killed beside a slow destination, and events that kill them.
    Kills,
    /// Large payloads for a slow destination.
    Bytes,
    /// Events with several destinations.
    FanOut,
    /// Events of one aggregate, one after another.
    Order,
    /// A database that refuses, hangs, and loses responses; clocks that step.
    Database,
}

const THEMES: [Theme; 6] = [Theme::Outages, Theme::Kills, Theme::Bytes, Theme::FanOut, Theme::Order, Theme::Database];

/// The behaviour of a destination for a while.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Mode {
    /// Responds within this many milliseconds.
    Healthy(u64),
    /// Responds slowly: between the two, in milliseconds.
    Slow(u64, u64),
    /// Refuses connections.
    Refusing,
    /// Accepts connections and never responds.
    Hanging,
    /// Receives events, and its responses are lost.
    Mute,
    /// Fails this share of the events, through their own fault.
    Failing(f64),
    /// Asks for a pause of this many milliseconds.
    Throttling(u64),
}

/// One destination.
#[derive(Debug, Clone)]
pub struct Place {
    /// Its name.
    pub name: String,
    /// The relay's timeout for it.
    pub timeout: Duration,
    /// The modes with their start times; the last one is healthy.
    pub modes: Vec<(Duration, Mode)>,
    /// Whether its sink keeps order itself, and so takes runs of an aggregate.
    pub keeps_order: bool,
}

impl Place {
    /// Returns the mode at a time, and since when.
    pub fn mode(&self, at: Duration) -> (Duration, Mode) {
        *self.modes.iter().rev().find(|(from, _)| *from <= at).unwrap_or(&self.modes[0])
    }

    /// Returns whether it is healthy throughout.
    pub fn is_steady(&self) -> bool {
        self.modes.iter().all(|(_, mode)| matches!(mode, Mode::Healthy(_)))
    }
}

/// An emit of the application.
#[derive(Debug, Clone)]
pub struct Emit {
    /// The time.
    pub at: Duration,
    /// The index into [`Plan::routes`].
    pub route: usize,
    /// The aggregate.
    pub aggregate: u32,
    /// The size of the payload.
    pub bytes: usize,
    /// The delay of the delivery.
    pub delay: Option<Duration>,
    /// Whether the relay that sends it dies.
    pub kills: bool,
}

/// A fault of a relay or the database.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Mishap {
    /// This relay dies, and is restarted after this time.
    Kill(usize, Duration),
    /// This relay is told to stop, and is restarted.
    Stop(usize),
    /// The database refuses everything for this time.
    Refuse(Duration),
    /// The database refuses settles for this time.
    RefuseSettles(Duration),
    /// The database does not respond for this time.
    Silence(Duration),
    /// The database's clock steps by this many milliseconds.
    Step(i64),
    /// This relay cannot reach this place for this time.
    Cut(usize, usize, Duration),
}

/// A whole run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The seed.
    pub seed: u64,
    /// The focus.
    pub theme: Theme,
    /// The number of relays.
    pub relays: usize,
    /// The relays' settings.
    pub settings: RelaySettings,
    /// The destinations; the first is steady.
    pub places: Vec<Place>,
    /// The places of each route.
    pub routes: Vec<Vec<usize>>,
    /// The emits, in the order of time.
    pub emits: Vec<Emit>,
    /// The faults, in the order of time.
    pub mishaps: Vec<(Duration, Mishap)>,
    /// The maximum duration of a statement, in milliseconds.
    pub statement: u64,
    /// The share of statements whose response is lost.
    pub losses: f64,
    /// The time after which no fault occurs.
    pub heals_at: Duration,
}

fn seconds(dice: &mut StdRng, from: u64, to: u64) -> Duration {
    Duration::from_millis(dice.random_range(from * 1000..=to * 1000))
}

impl Plan {
    /// Returns the plan of a seed, which is always the same.
    pub fn of(seed: u64) -> Self {
        let mut dice = StdRng::seed_from_u64(seed);
        let theme = THEMES[(seed % THEMES.len() as u64) as usize];
        let heals_at = seconds(&mut dice, 20, 60);
        let settings = settings(&mut dice, theme);
        let relays = if dice.random_bool(0.4) { 1 } else { dice.random_range(1..=3) };
        let places = places(&mut dice, theme, heals_at);
        let routes = routes(theme, places.len());
        let emits = emits(&mut dice, theme, &routes, heals_at);
        let mishaps = mishaps(&mut dice, theme, relays, places.len(), heals_at);
        let losses = if theme == Theme::Database { *[0.0, 0.01, 0.05].choose(&mut dice).unwrap_or(&0.0) } else { 0.0 };
        let statement = *[1, 5, 40].choose(&mut dice).unwrap_or(&1);
        Self { seed, theme, relays, settings, places, routes, emits, mishaps, statement, losses, heals_at }
    }

    /// Returns a plan without faults, whose statements take no time, for checks of the store by itself.
    pub fn calm() -> Self {
        Self {
            seed: 0,
            theme: Theme::Database,
            relays: 1,
            settings: RelaySettings::default(),
            places: Vec::new(),
            routes: Vec::new(),
            emits: Vec::new(),
            mishaps: Vec::new(),
            statement: 0,
            losses: 0.0,
            heals_at: Duration::ZERO,
        }
    }

    /// Returns whether the database's clock steps in this run. If so, the checks cannot tell leases by it.
    pub fn clock_steps(&self) -> bool {
        self.mishaps.iter().any(|(_, mishap)| matches!(mishap, Mishap::Step(_)))
    }

    /// Returns whether events of one aggregate are sent in order.
    pub fn is_ordered(&self) -> bool {
        self.settings.order != Order::None
    }
}

fn settings(dice: &mut StdRng, theme: Theme) -> RelaySettings {
    let order = match theme {
        Theme::Order if dice.random_bool(0.7) => Order::Aggregate(OnFailed::Block),
        Theme::Order => Order::Aggregate(OnFailed::Skip),
        _ => Order::None,
    };
    let base = *[1, 5, 60].choose(dice).unwrap_or(&5);
    let bytes = if theme == Theme::Bytes { 64 * 1024 } else { 64 * 1024 * 1024 };
    RelaySettings {
        batch_size: *[10, 50, 500].choose(dice).unwrap_or(&500),
        bytes_in_flight: bytes,
        concurrency: *[4, 16, 64].choose(dice).unwrap_or(&64),
        lease: Duration::from_secs(if theme == Theme::Kills { 12 } else { *[15, 30, 300].choose(dice).unwrap_or(&30) }),
        shutdown_timeout: Duration::from_secs(5),
        on_delivered: if dice.random_bool(0.5) { OnDelivered::Keep } else { OnDelivered::Delete },
        order,
        retry: RetryPolicy {
            base: Duration::from_secs(base),
            cap: Duration::from_secs(120),
            jitter: 0.1,
            max_attempts: if dice.random_bool(0.5) { 5 } else { 0 },
        },
        breaker: BreakerSettings::default(),
        cleanup_every: None,
        ..RelaySettings::default()
    }
}

fn places(dice: &mut StdRng, theme: Theme, heals_at: Duration) -> Vec<Place> {
    let steady = Place {
        name: "steady".to_owned(),
        timeout: Duration::from_secs(10),
        modes: vec![(Duration::ZERO, Mode::Healthy(20))],
        keeps_order: theme == Theme::Order && dice.random_bool(0.5),
    };
    let others = dice.random_range(1..=3);
    let mut places = vec![steady];
    for number in 0..others {
        let timeout = match theme {
            Theme::Outages => *[300, 1000, 10_000].choose(dice).unwrap_or(&300),
            _ => 10_000,
        };
        let modes = modes(dice, theme, heals_at);
        let keeps_order = theme == Theme::Order && dice.random_bool(0.5);
        let (name, timeout) = (format!("place{number}"), Duration::from_millis(timeout));
        places.push(Place { name, timeout, modes, keeps_order });
    }
    places
}

fn modes(dice: &mut StdRng, theme: Theme, heals_at: Duration) -> Vec<(Duration, Mode)> {
    let healthy = Mode::Healthy(*[5, 50, 200].choose(dice).unwrap_or(&50));
    let slow = match theme {
        Theme::Bytes | Theme::Kills => Mode::Slow(5000, 9000),
        Theme::Outages => *[Mode::Slow(200, 2000), Mode::Slow(3000, 9000)].choose(dice).unwrap_or(&healthy),
        _ => Mode::Slow(200, 2000),
    };
    let failing = Mode::Failing(dice.random_range(0.1..0.9));
    let throttling = Mode::Throttling(dice.random_range(100..5000));
    // Some places change their mode while earlier sends are still in flight.
    let restless = dice.random_bool(if theme == Theme::Outages { 0.5 } else { 0.2 });
    let all = match theme {
        _ if restless => vec![slow, slow, Mode::Refusing, Mode::Hanging, Mode::Hanging],
        Theme::Bytes | Theme::Kills => vec![slow, slow, slow, healthy, failing, Mode::Hanging],
        _ => vec![healthy, slow, Mode::Refusing, Mode::Hanging, Mode::Hanging, Mode::Mute, failing, throttling],
    };
    let mut modes = vec![(Duration::ZERO, *all.choose(dice).unwrap_or(&healthy))];
    let mut at = Duration::ZERO;
    let longest = if restless { 3 } else { 20 };
    loop {
        at += seconds(dice, 1, longest);
        if at >= heals_at {
            break;
        }
        modes.push((at, *all.choose(dice).unwrap_or(&healthy)));
    }
    modes.push((heals_at, Mode::Healthy(20)));
    modes
}

fn routes(theme: Theme, places: usize) -> Vec<Vec<usize>> {
    let mut routes: Vec<Vec<usize>> = (0..places).map(|place| vec![place]).collect();
    if theme == Theme::FanOut {
        routes.push((0..places).collect());
        routes.push((1..places).collect());
    }
    routes.retain(|route| !route.is_empty());
    routes
}

fn emits(dice: &mut StdRng, theme: Theme, routes: &[Vec<usize>], heals_at: Duration) -> Vec<Emit> {
    let count = dice.random_range(20..=200);
    let aggregates = if theme == Theme::Order { dice.random_range(1..=10) } else { 10_000 };
    let mut emits: Vec<Emit> = (0..count)
        .map(|_| Emit {
            // Many events at the beginning, the rest throughout the run.
            at: if dice.random_bool(0.3) { Duration::ZERO } else { heals_at.mul_f64(dice.random_range(0.0..1.0)) },
            route: dice.random_range(0..routes.len()),
            aggregate: dice.random_range(0..aggregates),
            bytes: if theme == Theme::Bytes { dice.random_range(300..=2000) } else { 20 },
            delay: dice.random_bool(0.05).then(|| seconds(dice, 1, 20)),
            kills: theme == Theme::Kills && dice.random_bool(0.004),
        })
        .collect();
    emits.sort_by_key(|emit| emit.at);
    emits
}

fn mishaps(
    dice: &mut StdRng,
    theme: Theme,
    relays: usize,
    places: usize,
    heals_at: Duration,
) -> Vec<(Duration, Mishap)> {
    let count = if theme == Theme::Kills { dice.random_range(1..=6) } else { dice.random_range(0..=4) };
    let mut mishaps = Vec::new();
    for _ in 0..count {
        let at = heals_at.mul_f64(dice.random_range(0.0..0.9));
        let relay = dice.random_range(0..relays);
        let kill = Mishap::Kill(relay, seconds(dice, 0, 5));
        let mishap = match theme {
            Theme::Kills => kill,
            Theme::Database => *[
                Mishap::Refuse(seconds(dice, 1, 20)),
                Mishap::RefuseSettles(seconds(dice, 1, 45)),
                Mishap::Silence(seconds(dice, 1, 20)),
                Mishap::Step(dice.random_range(-60_000..60_000)),
            ]
            .choose(dice)
            .unwrap_or(&kill),
            _ => *[kill, Mishap::Stop(relay), Mishap::Cut(relay, dice.random_range(0..places), seconds(dice, 1, 20))]
                .choose(dice)
                .unwrap_or(&kill),
        };
        mishaps.push((at, mishap));
    }
    mishaps.sort_by_key(|(at, _)| *at);
    mishaps
}
