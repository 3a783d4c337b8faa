//! The state that all parts of a simulated run share: the table, the time, the random numbers, the live processes, and the
//! journal.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Display;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::{DateTime, TimeDelta};
use pillarbox::{StoredEvent, Waker};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::Notify;
use tokio::time::Instant;
use uuid::Uuid;

use super::plan::{Emit, Mishap, Plan};
use super::table::{Moment, Table};

/// One start of a relay; a restarted relay is another process.
pub type Process = usize;

/// One simulated run.
pub struct World {
    /// The plan of the run.
    pub plan: Plan,
    started: Instant,
    dice: Mutex<StdRng>,
    /// The database's table.
    pub table: Mutex<Table>,
    /// The offset of the database's clock.
    step: Mutex<TimeDelta>,
    processes: Mutex<Vec<Life>>,
    /// The journal of the run.
    pub journal: Mutex<Journal>,
    died: Notify,
}

struct Life {
    slot: usize,
    alive: bool,
    waker: Option<Waker>,
}

/// An event as it was emitted.
#[derive(Debug, Clone)]
pub struct Known {
    /// The entry of [`Plan::emits`].
    pub emit: Emit,
    /// The event's `seq`.
    pub seq: i64,
    /// The earliest time at which a relay could have sent it.
    pub free_at: Duration,
    /// For each place, the number of failures of the event, and until when it waits because of them.
    pub own_failures: BTreeMap<usize, (u32, Duration)>,
    /// For each place, the number of attempts that failed through the event's own fault.
    pub failed_attempts: BTreeMap<usize, u32>,
    /// Whether it lost a lease twice, so that it may wait longer than others.
    pub suspect: bool,
}

/// The observations of a run.
#[derive(Default)]
pub struct Journal {
    /// All emitted events.
    pub known: HashMap<Uuid, Known>,
    /// When each place received each event.
    pub received: BTreeMap<(Uuid, usize), Vec<Duration>>,
    /// When each place's response to each event first came back.
    pub confirmed: BTreeMap<(Uuid, usize), Duration>,
    /// The last event of each aggregate that each place has received.
    pub latest: HashMap<(u32, usize), i64>,
    /// The process that holds each token.
    pub holders: HashMap<Uuid, Process>,
    /// The longest wait of an event for a steady place.
    pub longest_wait: Duration,
    /// The number of statements so far.
    pub statements: u64,
    /// The number of sends so far.
    pub sends: u64,
    /// The log, for the reader of a failed run.
    pub lines: Vec<String>,
    /// The broken promises.
    pub broken: Vec<String>,
    /// The times when an event killed a relay.
    pub deaths: Vec<Duration>,
    /// The relays' monitors.
    pub monitors: super::Monitors,
}

/// Locks a mutex. Its content is still valid after a panic in another task.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl World {
    /// Creates the world at the beginning of a run.
    pub fn new(plan: Plan) -> Self {
        let dice = StdRng::seed_from_u64(plan.seed ^ 0x5eed);
        Self {
            plan,
            started: Instant::now(),
            dice: Mutex::new(dice),
            table: Mutex::default(),
            step: Mutex::new(TimeDelta::zero()),
            processes: Mutex::default(),
            journal: Mutex::default(),
            died: Notify::new(),
        }
    }

    /// Returns the simulated time since the run began.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Returns the instant at a time of the run.
    pub fn at(&self, elapsed: Duration) -> Instant {
        self.started + elapsed
    }

    /// Returns the time of the database's clock.
    pub fn now(&self) -> Moment {
        let start = DateTime::UNIX_EPOCH + TimeDelta::days(20_000);
        start + TimeDelta::from_std(self.elapsed()).unwrap_or_default() + *lock(&self.step)
    }

    /// Steps the database's clock.
    /// A step back delays everything that waits for a time: a lease whose claim's response was lost, or a retry.
    pub fn step_clock(&self, by: TimeDelta) {
        *lock(&self.step) += by;
        let (now, longer) = (self.elapsed(), (-by).to_std().unwrap_or_default());
        for known in lock(&self.journal).known.values_mut() {
            known.free_at = known.free_at.max(now) + longer;
            for (_, until) in known.own_failures.values_mut().filter(|(_, until)| *until > now) {
                *until += longer;
            }
        }
    }

    /// Returns a random number from 0 to below 1.
    pub fn chance(&self) -> f64 {
        lock(&self.dice).random_range(0.0..1.0)
    }

    /// Returns a random duration between the two, in milliseconds.
    pub fn millis(&self, from: u64, to: u64) -> Duration {
        Duration::from_micros(lock(&self.dice).random_range(from * 1000..=to.max(from) * 1000))
    }

    /// Waits for the network's latency, which is zero in a plan without latency.
    pub async fn network(&self) {
        if self.plan.statement > 0 {
            tokio::time::sleep(self.millis(0, self.plan.statement)).await;
        }
    }

    /// Returns a new id.
    pub fn id(&self) -> Uuid {
        Uuid::from_u128(lock(&self.dice).random())
    }

    /// Starts a relay in this slot.
    pub fn start(&self, slot: usize) -> Process {
        let mut processes = lock(&self.processes);
        processes.push(Life { slot, alive: true, waker: None });
        processes.len() - 1
    }

    /// Returns whether this process is alive.
    pub fn lives(&self, process: Process) -> bool {
        lock(&self.processes)[process].alive
    }

    /// Returns the process's relay in the plan.
    pub fn slot(&self, process: Process) -> usize {
        lock(&self.processes)[process].slot
    }

    /// Returns whether any relay is alive.
    pub fn any_lives(&self) -> bool {
        lock(&self.processes).iter().any(|life| life.alive)
    }

    /// Wakes this process at every emit.
    pub fn listen(&self, process: Process, waker: Waker) {
        lock(&self.processes)[process].waker = Some(waker);
    }

    /// Kills the process: nothing that it does is visible any more.
    pub fn kill(&self, process: Process) {
        if !std::mem::replace(&mut lock(&self.processes)[process].alive, false) {
            return;
        }
        self.log(format!("process {process} dies"));
        let (now, elapsed) = (self.now(), self.elapsed());
        let table = lock(&self.table);
        let mut journal = lock(&self.journal);
        journal.deaths.push(elapsed);
        for row in table.pending() {
            let holder = row.claimed_by.and_then(|token| journal.holders.get(&token).copied());
            if holder == Some(process) {
                let left = (row.due_at - now).to_std().unwrap_or_default();
                if let Some(known) = journal.known.get_mut(&row.event.id) {
                    known.free_at = known.free_at.max(elapsed + left);
                }
            }
        }
        drop((table, journal));
        self.died.notify_waiters();
    }

    /// Waits until the process is dead.
    pub async fn death(&self, process: Process) {
        loop {
            let died = self.died.notified();
            tokio::pin!(died);
            died.as_mut().enable();
            if !self.lives(process) {
                return;
            }
            died.await;
        }
    }

    /// Records that the process has ended gracefully.
    pub fn ended(&self, process: Process) {
        lock(&self.processes)[process].alive = false;
    }

    /// Emits an event, and wakes the relays that listen.
    pub fn emit(&self, emit: &Emit) {
        let id = self.id();
        let payload = format!("\"{}\"", "x".repeat(emit.bytes));
        let mut event = StoredEvent::for_tests(&format!("route{}", emit.route), &payload);
        event.id = id;
        event.aggregate_type = "Thing".to_owned();
        event.aggregate_id = emit.aggregate.to_string();
        event.idempotency_key = id.to_string();
        let now = self.now();
        let deliver_at = emit.delay.and_then(|delay| TimeDelta::from_std(delay).ok()).map(|delay| now + delay);
        let seq = lock(&self.table).emit(event, deliver_at, now);
        let free_at = self.elapsed() + emit.delay.unwrap_or_default();
        let known = Known {
            emit: emit.clone(),
            seq,
            free_at,
            own_failures: BTreeMap::new(),
            failed_attempts: BTreeMap::new(),
            suspect: false,
        };
        lock(&self.journal).known.insert(id, known);
        let wakers: Vec<Waker> = lock(&self.processes).iter().filter_map(|life| life.waker.clone()).collect();
        // Now and then a notification is lost.
        for waker in wakers {
            if self.chance() < 0.9 {
                waker.wake();
            }
        }
    }

    /// Writes a line for the reader of a failed run.
    pub fn log(&self, line: impl Display) {
        let at = self.elapsed();
        lock(&self.journal).lines.push(format!("{:9.3} {line}", at.as_secs_f64()));
    }

    /// Records a broken promise.
    pub fn broken(&self, what: String) {
        self.log(format!("BROKEN: {what}"));
        lock(&self.journal).broken.push(what);
    }

    /// Returns the last time up to which the database was the reason for waiting.
    pub fn database_excuse(&self, at: Duration) -> Duration {
        let mut excuse = Duration::ZERO;
        for (from, mishap) in self.plan.mishaps.iter().filter(|(from, _)| *from <= at) {
            let until = match mishap {
                // A relay waits up to five seconds between two attempts to settle, and ten for a silent statement.
                Mishap::Refuse(time) | Mishap::RefuseSettles(time) | Mishap::Silence(time) => {
                    *from + *time + Duration::from_secs(16) + self.plan.settings.lease
                }
                Mishap::Step(_) => *from + Duration::from_secs(70) + self.plan.settings.lease,
                Mishap::Kill(..) | Mishap::Stop(_) | Mishap::Cut(..) => continue,
            };
            excuse = excuse.max(until);
        }
        excuse
    }

    /// Returns the last time up to which relays were missing, or could not reach this place.
    pub fn relay_excuse(&self, place: usize, at: Duration) -> Duration {
        let mut excuse = Duration::ZERO;
        for (from, mishap) in self.plan.mishaps.iter().filter(|(from, _)| *from <= at) {
            let until = match mishap {
                Mishap::Kill(_, time) => *from + *time,
                Mishap::Stop(_) => *from + self.plan.settings.shutdown_timeout + Duration::from_secs(1),
                // Sends that were cut off time out, and the breaker probes.
                Mishap::Cut(_, cut, time) if *cut == place => {
                    *from + *time + self.plan.places[place].timeout + Duration::from_secs(12)
                }
                _ => continue,
            };
            excuse = excuse.max(until);
        }
        excuse
    }
}
