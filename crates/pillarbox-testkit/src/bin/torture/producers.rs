//! Applications that write data and events in one transaction, some of which they roll back.

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

/// Events of this type are refused for good by the receiver, and are the only ones that may fail.
pub(crate) const POISON: &str = "order.poison";

/// How many aggregates a producer has when order is kept.
const AGGREGATES: u64 = 8;

pub(crate) struct Producers {
    stop: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<Emitted>>,
}

/// What was emitted, whether or not it was committed.
#[derive(Default)]
pub(crate) struct Emitted {
    pub(crate) all: HashSet<Uuid>,
    pub(crate) poison: HashSet<Uuid>,
}

impl Producers {
    /// With `order` each has a few aggregates of its own: then `seq` is the order of their commits.
    pub(crate) fn start(outbox: &Outbox, seed: u64, order: bool) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let tasks = (0..3u64)
            .map(|number| {
                let random = StdRng::seed_from_u64(seed ^ (number + 1));
                let aggregates = order.then_some(number * AGGREGATES..(number + 1) * AGGREGATES);
                tokio::spawn(produce(outbox.clone(), random, aggregates, Arc::clone(&stop)))
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
        }
        total
    }
}

async fn produce(outbox: Outbox, mut random: StdRng, aggregates: Option<Range<u64>>, stop: Arc<AtomicBool>) -> Emitted {
    let mut emitted = Emitted::default();
    while !stop.load(Ordering::Relaxed) {
        let poison: Vec<bool> = (0..random.random_range(1..=5)).map(|_| random.random_bool(0.01)).collect();
        let events = poison.iter().map(|poison| {
            let event_type = if *poison { POISON } else { "order.placed" };
            let aggregate = random.random_range(aggregates.clone().unwrap_or(0..u64::MAX));
            Event::new("Order", aggregate, event_type).repeatable().payload([random.random::<u32>()])
        });
        let events = events.collect();
        let commit = random.random_bool(0.75);
        // A transaction that did not get as far as its commit emitted nothing.
        if let Ok(ids) = outbox.transact(events, commit).await {
            emitted.poison.extend(ids.iter().zip(&poison).filter(|(_, poison)| **poison).map(|(id, _)| *id));
            emitted.all.extend(ids);
        }
        tokio::time::sleep(Duration::from_millis(random.random_range(1..20))).await;
    }
    emitted
}
