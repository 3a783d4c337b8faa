//! Applications that write data and events in one transaction, and roll some transactions back.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pillarbox::Event;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::task::JoinHandle;
use uuid::Uuid;

use crate::database::Outbox;

/// The suffix of event types that the disturbed receiver rejects. Only these events may fail.
pub(crate) const POISON: &str = ".poison";

/// The prefix of event types that go to both receivers.
pub(crate) const SHARED: &str = "shared";

/// The number of events of a large transaction: a leader of the log inserts it into the table while it arrives.
const LARGE: usize = 3000;

/// The number of aggregates per producer when order is kept.
const AGGREGATES: u64 = 8;

pub(crate) struct Producers {
    stop: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<Emitted>>,
}

/// All emitted events, whether or not they were committed.
#[derive(Default)]
pub(crate) struct Emitted {
    pub(crate) all: HashSet<Uuid>,
    pub(crate) poison: HashSet<Uuid>,
    pub(crate) shared: HashSet<Uuid>,
}

/// How producers write.
#[derive(Clone, Copy)]
pub(crate) struct Habits {
    /// Whether each producer has a few aggregates of its own. Then `seq` is the order of their commits.
    pub(crate) order: bool,
    /// Whether half of the events are for both receivers.
    pub(crate) fan_out: bool,
    /// Whether a few transactions are large.
    pub(crate) large: bool,
}

impl Producers {
    pub(crate) fn start(outbox: &Outbox, seed: u64, habits: Habits) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let tasks = (0..3u64)
            .map(|number| {
                let random = StdRng::seed_from_u64(seed ^ (number + 1));
                let own = number * AGGREGATES..(number + 1) * AGGREGATES;
                let aggregates = if habits.order { own } else { 0..u64::MAX };
                tokio::spawn(produce(outbox.clone(), random, aggregates, habits, Arc::clone(&stop)))
            })
            .collect();
        Self { stop, tasks }
    }

    pub(crate) async fn stop(self) -> Emitted {
        self.stop.store(true, Ordering::Relaxed);
        let mut total = Emitted::default();
        for task in self.tasks {
            let part = task.await.expect("a producer does not panic");
            total.all.extend(part.all);
            total.poison.extend(part.poison);
            total.shared.extend(part.shared);
        }
        total
    }
}

async fn produce(
    outbox: Outbox,
    mut random: StdRng,
    aggregates: Range<u64>,
    habits: Habits,
    stop: Arc<AtomicBool>,
) -> Emitted {
    let mut emitted = Emitted::default();
    while !stop.load(Ordering::Relaxed) {
        let is_large = habits.large && random.random_bool(0.0003);
        let count = if is_large { LARGE } else { random.random_range(1..=5) };
        let types: Vec<String> = (0..count).map(|_| event_type(&mut random, habits.fan_out)).collect();
        let events = types.iter().map(|event_type| {
            let aggregate = random.random_range(aggregates.clone());
            Event::new("Order", aggregate, event_type).repeatable().payload([random.random::<u32>()])
        });
        let events = events.collect();
        let commit = random.random_bool(0.75);
        // A transaction that failed before its commit emitted nothing.
        if let Ok(ids) = outbox.transact(events, commit).await {
            for (id, event_type) in ids.into_iter().zip(&types) {
                emitted.all.insert(id);
                if event_type.ends_with(POISON) {
                    emitted.poison.insert(id);
                }
                if event_type.starts_with(SHARED) {
                    emitted.shared.insert(id);
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(random.random_range(1..20))).await;
    }
    emitted
}

fn event_type(random: &mut StdRng, fan_out: bool) -> String {
    let end = if random.random_bool(0.01) { POISON } else { ".placed" };
    let begin = if fan_out && random.random_bool(0.5) { SHARED } else { "order" };
    format!("{begin}{end}")
}
