//! The promises, checked during a run and at its end.

use std::sync::Arc;
use std::time::Duration;

use pillarbox::delivery::Verdict;
use pillarbox::{Message, Observed, Observer, Order, SendError, SendErrorKind, Status, StoredEvent};
use uuid::Uuid;

use super::plan::{Mode, Plan};
use super::table::Row;
use super::world::{Known, Process, World, lock};

/// The longest wait of events for a steady destination, whatever problems others have.
pub const STEADY: Duration = Duration::from_secs(3);
/// The longest wait of an event whose relays died twice.
const SUSPECT: Duration = Duration::from_secs(60);
/// How long a destination that is healthy again may take to receive its events, besides its timeout.
const RECOVERY: Duration = Duration::from_secs(30);
/// How soon a relay that an event killed is restarted.
pub const RESTART: Duration = Duration::from_secs(1);

/// Checks a send as it begins: the process must hold the event's lease.
pub fn send_begins(world: &World, process: Process, place: usize, message: &Message) {
    if world.plan.clock_steps() {
        return;
    }
    let now = world.now();
    let table = lock(&world.table);
    let Some(row) = table.get(message.id) else { return };
    let holder = row.claimed_by.and_then(|token| lock(&world.journal).holders.get(&token).copied());
    let held = row.status == Status::Pending && holder == Some(process) && row.due_at > now;
    drop(table);
    if !held {
        let name = &world.plan.places[place].name;
        world.broken(format!("process {process} sends {} to {name} and does not hold it", message.id));
    }
}

/// Observes the settles of a relay: an attempt that failed through the event's own fault delays the event.
pub struct Settled {
    /// The run.
    pub world: Arc<World>,
}

impl Observer for Settled {
    /// Also counts attempts whose settle is not reported, because its response may be lost.
    fn failed(&self, event: &StoredEvent, destination: &str, error: &SendError) -> Observed {
        let place = self.world.plan.places.iter().position(|place| place.name == destination);
        if let (Some(place), Some(known)) = (place, lock(&self.world.journal).known.get_mut(&event.id))
            && error.kind != SendErrorKind::Unavailable
        {
            let failures = known.failed_attempts.entry(place).or_default();
            *failures += 1;
            let until = self.world.elapsed() + self.world.plan.settings.retry.delay(*failures, 1.0);
            let own = known.own_failures.entry(place).or_default();
            own.1 = own.1.max(until);
        }
        Ok(())
    }

    fn settled(&self, event: &StoredEvent, verdict: &Verdict) -> Observed {
        let (world, policy) = (&self.world, self.world.plan.settings.retry);
        for attempt in verdict.failures.iter().filter(|attempt| attempt.counts()) {
            let place = world.plan.places.iter().position(|place| place.name == attempt.destination);
            let now = world.elapsed();
            if let (Some(place), Some(known)) = (place, lock(&world.journal).known.get_mut(&event.id)) {
                let (failures, until) = known.own_failures.entry(place).or_default();
                *failures += 1;
                *until = now + policy.delay(*failures, 1.0);
            }
        }
        Ok(())
    }
}

/// Checks an event that a place has received.
pub fn received(world: &World, process: Process, place: usize, message: &Message) {
    let (id, at) = (message.id, world.elapsed());
    let name = &world.plan.places[place].name;
    world.log(format!("{name} receives {id} from process {process}"));
    let known = lock(&world.journal).known.get(&id).cloned();
    let Some(known) = known else {
        return world.broken(format!("{name} received {id}, which nobody emitted"));
    };
    if !world.plan.routes[known.emit.route].contains(&place) {
        world.broken(format!("{name} received {id}, which is not routed to it"));
    }
    if message.payload.get().len() != known.emit.bytes + 2 {
        world.broken(format!("{name} received {id} with another payload"));
    }
    let first = {
        let mut journal = lock(&world.journal);
        let arrivals = journal.received.entry((id, place)).or_default();
        arrivals.push(at);
        arrivals.len() == 1
    };
    if first {
        check_order(world, place, &known, id);
        check_wait(world, place, &known, id, at);
    }
}

fn check_order(world: &World, place: usize, known: &Known, id: Uuid) {
    if !world.plan.is_ordered() || known.emit.delay.is_some() {
        return;
    }
    let late = {
        let mut journal = lock(&world.journal);
        let latest = journal.latest.entry((known.emit.aggregate, place)).or_default();
        let late = *latest > known.seq;
        *latest = known.seq.max(*latest);
        late
    };
    if late {
        world.broken(format!("{id} arrived after a later event of its aggregate"));
    }
}

/// Returns the time from which an event's wait for a place counts, and its bound. Returns `None` while the place is not
/// healthy, and for ordered plans and events that kill.
fn patience(world: &World, place: usize, known: &Known, at: Duration) -> Option<(Duration, Duration)> {
    let plan = &world.plan;
    if plan.is_ordered() || known.emit.kills {
        return None;
    }
    let (healthy_since, mode) = plan.places[place].mode(at);
    if !matches!(mode, Mode::Healthy(_)) {
        return None;
    }
    let own = known.own_failures.get(&place).map_or(Duration::ZERO, |(_, until)| *until);
    let excuses = [healthy_since, own, world.database_excuse(at), world.relay_excuse(place, at), deaths(world, at)];
    let from = excuses.into_iter().fold(known.free_at, Duration::max);
    let steady = plan.places[place].is_steady() && plan.routes[known.emit.route].len() == 1;
    let bound = match (steady, known.suspect) {
        (_, true) => SUSPECT,
        (true, false) => STEADY,
        (false, false) => RECOVERY + plan.places[place].timeout,
    };
    Some((from, bound))
}

/// Returns the end of the last restart after an event killed a relay. Until then, other events wait.
fn deaths(world: &World, at: Duration) -> Duration {
    let journal = lock(&world.journal);
    let last = journal.deaths.iter().rev().find(|death| **death <= at);
    last.map_or(Duration::ZERO, |death| *death + RESTART)
}

fn check_wait(world: &World, place: usize, known: &Known, id: Uuid, at: Duration) {
    let Some((from, bound)) = patience(world, place, known, at) else { return };
    let waited = at.saturating_sub(from);
    let name = &world.plan.places[place].name;
    if bound == STEADY {
        let mut journal = lock(&world.journal);
        journal.longest_wait = journal.longest_wait.max(waited);
    }
    if waited > bound {
        world.broken(format!("{id} waited {waited:?} for {name}, which was there; {bound:?} is the bound"));
    }
}

/// Returns when everything must be done at the latest.
pub fn deadline(plan: &Plan) -> Duration {
    let lease = plan.settings.lease;
    let kills = plan.emits.iter().any(|emit| emit.kills);
    let leases = if kills { 12 } else { 3 };
    plan.heals_at + Duration::from_secs(400) + lease * leases
}

/// Checks the promises at the end of a run.
pub fn ended(world: &World) {
    let known: Vec<(Uuid, Known)> = {
        let journal = lock(&world.journal);
        let mut known: Vec<_> = journal.known.iter().map(|(id, known)| (*id, known.clone())).collect();
        known.sort_by_key(|(_, known)| known.seq);
        known
    };
    for (id, known) in known {
        let row = lock(&world.table).get(id).cloned();
        match row.as_ref().map(|row| row.status) {
            None | Some(Status::Delivered) => check_delivered(world, id, &known),
            Some(Status::Failed) => check_failed(world, id, &known, row.as_ref()),
            Some(Status::Pending) => check_pending(world, id, &known, row.as_ref()),
        }
    }
    check_duplicates(world);
}

fn check_delivered(world: &World, id: Uuid, known: &Known) {
    for place in &world.plan.routes[known.emit.route] {
        if !lock(&world.journal).confirmed.contains_key(&(id, *place)) {
            let name = &world.plan.places[*place].name;
            world.broken(format!("{id} counts as delivered and {name} never confirmed it"));
        }
    }
}

/// Checks that a failed event failed by its own failures or by the relays that it killed.
fn check_failed(world: &World, id: Uuid, known: &Known, row: Option<&Row>) {
    let limit = world.plan.settings.retry.max_attempts;
    let settled = known.own_failures.values().map(|(failures, _)| *failures);
    let failures = settled.chain(known.failed_attempts.values().copied()).max().unwrap_or_default();
    let exhausted = limit > 0 && failures >= limit;
    if !(exhausted || known.emit.kills) {
        let error = row.map(|row| row.error.clone()).unwrap_or_default();
        world.broken(format!("{id} is failed without a failure of its own: {error}"));
    }
}

/// Checks that a pending event waits for people, after a failed event of its aggregate.
fn check_pending(world: &World, id: Uuid, known: &Known, row: Option<&Row>) {
    let table = lock(&world.table);
    let blocked = matches!(world.plan.settings.order, Order::Aggregate(_))
        && table.rows.values().any(|other| {
            let same = other.event.aggregate_id == known.emit.aggregate.to_string();
            same && other.status == Status::Failed && other.event.seq < known.seq
        });
    drop(table);
    if !blocked {
        let waits = row.map(|row| (row.parked_on.as_deref(), row.claimed_by, row.error.as_str()));
        world.broken(format!("{id} is neither delivered nor failed at the end: {waits:?}"));
    }
}

fn check_duplicates(world: &World) {
    let plan = &world.plan;
    let harmless =
        |mode: &Mode| matches!(mode, Mode::Healthy(_) | Mode::Refusing | Mode::Failing(_) | Mode::Throttling(_));
    let peaceful = plan.mishaps.is_empty()
        && plan.losses == 0.0
        && plan.emits.iter().all(|emit| !emit.kills)
        && plan.places.iter().all(|place| place.modes.iter().all(|(_, mode)| harmless(mode)));
    if !peaceful {
        return;
    }
    let twice = lock(&world.journal).received.iter().find(|(_, arrivals)| arrivals.len() > 1).map(|(key, _)| *key);
    if let Some((id, place)) = twice {
        world.broken(format!("{} received {id} twice for no reason", plan.places[place].name));
    }
}
