//! The simulation: real relays on one thread, with paused time, a simulated store and simulated destinations. A seed makes a
//! plan, and a plan runs the same way each time. Interleavings come from latencies, which the seed determines.
//!
//! Every run ends with a period without faults: every event must be delivered, or visibly failed, within bounds.

use std::sync::Arc;
use std::time::Duration;

use pillarbox::relay::{Chance, Monitor};
use pillarbox::{Destination, Relay, Route};
use tokio::sync::oneshot;

pub mod checks;
pub mod plan;
pub mod sink;
pub mod store;
pub mod table;
pub mod world;

use plan::{Emit, Mishap, Plan};
use sink::SimulatedSink;
use store::SimulatedStore;
use world::{Process, World, lock};

/// The outcome of a run.
#[derive(Debug)]
pub struct Outcome {
    /// The plan of the run.
    pub plan: Plan,
    /// The broken promises.
    pub broken: Vec<String>,
    /// The log of the run.
    pub lines: Vec<String>,
    /// The number of emitted events.
    pub events: usize,
    /// The number of sends, including repeated ones.
    pub sends: u64,
    /// The simulated time.
    pub time: Duration,
    /// The longest wait of an event for the steady destination.
    pub longest_wait: Duration,
}

/// Runs the plan of this seed.
///
/// # Panics
/// When no runtime can be created.
pub fn run(seed: u64) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime on this thread");
    runtime.block_on(simulate(Plan::of(seed)))
}

async fn simulate(plan: Plan) -> Outcome {
    let world = Arc::new(World::new(plan.clone()));
    let slots: Vec<_> = (0..plan.relays).map(|slot| tokio::spawn(keep_running(Arc::clone(&world), slot))).collect();
    tokio::spawn(step_clocks(Arc::clone(&world)));
    emit_all(&world).await;
    let done = settles_down(&world).await;
    world.log(format!("everything is settled: {done}"));
    checks::ended(&world);
    if done {
        check_quiet(&world).await;
    }
    slots.iter().for_each(tokio::task::JoinHandle::abort);
    let time = world.elapsed();
    // A task that is dropped with its runtime may keep the world alive. A hundred thousand runs must not keep their tables.
    drop(std::mem::take(&mut *lock(&world.table)));
    let mut journal = std::mem::take(&mut *lock(&world.journal));
    Outcome {
        plan,
        broken: std::mem::take(&mut journal.broken),
        lines: std::mem::take(&mut journal.lines),
        events: journal.known.len(),
        sends: journal.sends,
        time,
        longest_wait: journal.longest_wait,
    }
}

async fn emit_all(world: &World) {
    for emit in &world.plan.emits {
        tokio::time::sleep_until(world.at(emit.at)).await;
        world.emit(emit);
    }
    // When everything has been healthy for a while, each place gets one more event: a breaker that stayed open would park it.
    tokio::time::sleep_until(world.at(world.plan.heals_at + Duration::from_secs(30))).await;
    for route in 0..world.plan.places.len() {
        let at = world.elapsed();
        world.emit(&Emit { at, route, aggregate: 1_000_000, bytes: 20, delay: None, kills: false });
    }
}

async fn step_clocks(world: Arc<World>) {
    for (at, mishap) in &world.plan.mishaps {
        if let Mishap::Step(by) = mishap {
            tokio::time::sleep_until(world.at(*at)).await;
            world.log(format!("the database's clock steps by {by} ms"));
            world.step_clock(chrono::TimeDelta::milliseconds(*by));
        }
    }
}

/// Returns whether no event is pending before the deadline.
async fn settles_down(world: &World) -> bool {
    let deadline = checks::deadline(&world.plan);
    while world.elapsed() < deadline {
        if lock(&world.table).pending().next().is_none() {
            return true;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    false
}

/// Checks that idle relays send nothing and run few statements.
async fn check_quiet(world: &World) {
    tokio::time::sleep(Duration::from_secs(5)).await;
    let before = {
        let journal = lock(&world.journal);
        (journal.sends, journal.statements)
    };
    let idle = Duration::from_secs(20);
    tokio::time::sleep(idle).await;
    let (sends, statements) = {
        let journal = lock(&world.journal);
        (journal.sends - before.0, journal.statements - before.1)
    };
    // Each relay runs a few statements each second.
    let most = 15 * idle.as_secs() * world.plan.relays as u64;
    if sends > 0 || statements > most {
        world.broken(format!("{sends} sends and {statements} statements in {idle:?} without work"));
    }
    let monitors = lock(&world.journal).monitors.clone();
    for (process, monitor) in monitors {
        let in_flight = monitor.status().map_or(0, |status| status.in_flight);
        if world.lives(process) && in_flight > 0 {
            world.broken(format!("process {process} has {in_flight} in flight for ever"));
        }
    }
}

/// Starts the relay of a slot again and again, however it ends.
async fn keep_running(world: Arc<World>, slot: usize) {
    let endings: Vec<(Duration, Mishap)> = world
        .plan
        .mishaps
        .iter()
        .copied()
        .filter(|(_, mishap)| match mishap {
            Mishap::Kill(relay, _) | Mishap::Stop(relay) => *relay == slot,
            _ => false,
        })
        .collect();
    let mut endings = endings.into_iter().peekable();
    loop {
        while endings.next_if(|(at, _)| *at < world.elapsed()).is_some() {}
        let process = world.start(slot);
        let relay = Arc::new(build(&world, process));
        lock(&world.journal).monitors.push((process, relay.monitor()));
        let (stop, stopped) = oneshot::channel::<()>();
        let running = tokio::spawn({
            let relay = Arc::clone(&relay);
            async move { relay.run(async { drop(stopped.await) }).await }
        });
        let next = endings.peek().copied();
        let planned = async {
            match next {
                Some((at, mishap)) => {
                    tokio::time::sleep_until(world.at(at)).await;
                    mishap
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = world.death(process) => tokio::time::sleep(checks::RESTART).await,
            mishap = planned => match mishap {
                Mishap::Kill(_, time) => {
                    world.kill(process);
                    tokio::time::sleep(time).await;
                }
                _ => {
                    world.log(format!("process {process} is told to stop"));
                    drop(stop);
                    if let Ok(Err(error)) = running.await {
                        world.log(format!("process {process}: {error}"));
                    }
                    world.ended(process);
                }
            },
        }
        if world.lives(process) {
            world.ended(process);
        }
        // The memory of a dead process is kept: its tasks wait forever.
        std::mem::forget(relay);
    }
}

fn build(world: &Arc<World>, process: Process) -> Relay {
    let plan = &world.plan;
    let chance = Arc::clone(world);
    let mut builder = Relay::builder(SimulatedStore::connect(world, process))
        .settings(plan.settings.clone())
        .observer(Arc::new(checks::Settled { world: Arc::clone(world) }))
        .chance(Chance::new(move || chance.chance()));
    for (number, place) in plan.places.iter().enumerate() {
        let sink = SimulatedSink::new(world, process, number);
        builder = builder.destination(Destination::new(place.name.clone(), sink).timeout(place.timeout));
    }
    for (number, places) in plan.routes.iter().enumerate() {
        let names: Vec<String> = places.iter().map(|place| plan.places[*place].name.clone()).collect();
        builder = builder.route(Route::new(format!("route{number}").as_str(), names));
    }
    builder.build().expect("a plan's settings fit together")
}

/// Keeps the type in the documentation of [`world::Journal`] short.
pub type Monitors = Vec<(Process, Monitor)>;
