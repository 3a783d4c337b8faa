//! What all parts of a simulated run share: the table, the time, the dice, who lives, and the journal of what was seen.

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

/// A relay that was started once; one that is started again is another process.
pub type Process = usize;

/// One simulated run.
pub struct World {
    /// What is to happen.
    pub plan: Plan,
    started: Instant,
    dice: Mutex<StdRng>,
    /// The database.
    pub table: Mutex<Table>,
    /// How far its clock was stepped.
    step: Mutex<TimeDelta>,
    processes: Mutex<Vec<Life>>,
    /// What was seen.
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
    /// Which of [`Plan::emits`].
    pub emit: Emit,
    /// The database's order.
    pub seq: i64,
    /// Nobody could have sent it before.
    pub free_at: Duration,
    /// How often each place has failed it, and until when it waits for that.
    pub own_failures: BTreeMap<usize, (u32, Duration)>,
    /// How many attempts at each place failed through its own fault.
    pub failed_attempts: BTreeMap<usize, u32>,
    /// It lost a lease twice, so that it may wait longer than others.
    pub suspect: bool,
}

/// What was seen in a run.
#[derive(Default)]
pub struct Journal {
    /// All that was emitted.
    pub known: HashMap<Uuid, Known>,
    /// When each place received each event.
    pub received: BTreeMap<(Uuid, usize), Vec<Duration>>,
    /// When each place's answer to each event came back for the first time.
    pub confirmed: BTreeMap<(Uuid, usize), Duration>,
    /// The last event of each aggregate that each place has seen.
    pub latest: HashMap<(u32, usize), i64>,
    /// Who holds a token.
    pub holders: HashMap<Uuid, Process>,
    /// The longest that a steady place's event waited.
    pub longest_wait: Duration,
    /// Statements so far.
    pub statements: u64,
    /// Sends so far.
    pub sends: u64,
    /// Everything up to here, for a reader of a failed run.
    pub lines: Vec<String>,
    /// Promises that were broken.
    pub broken: Vec<String>,
    /// When relays died of an event.
    pub deaths: Vec<Duration>,
    /// To look at the relays with.
    pub monitors: super::Monitors,
}

/// What a panic elsewhere left is still true.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl World {
    /// At the beginning of its run.
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

    /// How long the run has taken.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// The moment of the run.
    pub fn at(&self, elapsed: Duration) -> Instant {
        self.started + elapsed
    }

    /// The database's clock.
    pub fn now(&self) -> Moment {
        let start = DateTime::UNIX_EPOCH + TimeDelta::days(20_000);
        start + TimeDelta::from_std(self.elapsed()).unwrap_or_default() + *lock(&self.step)
    }

    /// The database's clock is set.
    /// A step back makes everything wait longer that waits for a moment: a lease whose claim's answer was lost, a retry.
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

    /// A number below 1.
    pub fn chance(&self) -> f64 {
        lock(&self.dice).random_range(0.0..1.0)
    }

    /// So many milliseconds at most.
    pub fn millis(&self, from: u64, to: u64) -> Duration {
        Duration::from_micros(lock(&self.dice).random_range(from * 1000..=to.max(from) * 1000))
    }

    /// Waits as long as the network takes, which is no time at all in a plan without latency.
    pub async fn network(&self) {
        if self.plan.statement > 0 {
            tokio::time::sleep(self.millis(0, self.plan.statement)).await;
        }
    }

    /// A new id.
    pub fn id(&self) -> Uuid {
        Uuid::from_u128(lock(&self.dice).random())
    }

    /// A relay is started in this slot.
    pub fn start(&self, slot: usize) -> Process {
        let mut processes = lock(&self.processes);
        processes.push(Life { slot, alive: true, waker: None });
        processes.len() - 1
    }

    /// Whether this process lives.
    pub fn lives(&self, process: Process) -> bool {
        lock(&self.processes)[process].alive
    }

    /// Which relay of the plan it is.
    pub fn slot(&self, process: Process) -> usize {
        lock(&self.processes)[process].slot
    }

    /// Whether any relay lives.
    pub fn any_lives(&self) -> bool {
        lock(&self.processes).iter().any(|life| life.alive)
    }

    /// Wakes this process when something is emitted.
    pub fn listen(&self, process: Process, waker: Waker) {
        lock(&self.processes)[process].waker = Some(waker);
    }

    /// The process is dead: nothing that it does is seen any more.
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

    /// The process has ended in peace.
    pub fn ended(&self, process: Process) {
        lock(&self.processes)[process].alive = false;
    }

    /// Emits, and wakes the relays that listen.
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

    /// A promise is broken.
    pub fn broken(&self, what: String) {
        self.log(format!("BROKEN: {what}"));
        lock(&self.journal).broken.push(what);
    }

    /// The last moment up to which the database was the reason for waiting.
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

    /// The last moment up to which relays were missing, or could not reach this place.
    pub fn relay_excuse(&self, place: usize, at: Duration) -> Duration {
        let mut excuse = Duration::ZERO;
        for (from, mishap) in self.plan.mishaps.iter().filter(|(from, _)| *from <= at) {
            let until = match mishap {
                Mishap::Kill(_, time) => *from + *time,
                Mishap::Stop(_) => *from + self.plan.settings.shutdown_timeout + Duration::from_secs(1),
                // What was cut off times out, and its breaker probes.
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
