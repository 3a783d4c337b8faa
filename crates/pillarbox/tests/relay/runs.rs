//! Runs: a sink that keeps order itself gets many events of an aggregate at once, and nothing overtakes a failure.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use pillarbox::{Destination, Event, Message, OnFailed, SendError, Sink, Status, runs};
use pillarbox_testkit::wait_until;
use uuid::Uuid;

use crate::fixture::{Outbox, PATIENCE, all_to, while_running};
use crate::order::ordered;

/// Stores the messages of each run up to the first one that it refuses.
#[derive(Clone, Default)]
struct Partition {
    refused: Arc<Mutex<Option<(Uuid, SendError)>>>,
    stored: Arc<Mutex<Vec<Uuid>>>,
    /// The length of each run, in the order of arrival.
    runs: Arc<Mutex<Vec<usize>>>,
}

#[async_trait]
impl Sink for Partition {
    async fn send(&self, batch: &[Message]) -> Vec<Result<(), SendError>> {
        let mut results = Vec::new();
        for run in runs(batch) {
            self.runs.lock().unwrap().push(run.len());
            let mut failed = None;
            for message in run {
                let refused = self.refused.lock().unwrap().take_if(|(id, _)| *id == message.id);
                failed = failed.or(refused.map(|(_, error)| error));
                if failed.is_none() {
                    self.stored.lock().unwrap().push(message.id);
                }
                results.push(failed.clone().map_or(Ok(()), Err));
            }
        }
        results
    }

    fn batch_limit(&self) -> usize {
        25
    }

    fn keeps_order(&self) -> bool {
        true
    }
}

async fn emit(outbox: &Outbox, events: usize, aggregates: usize) -> Vec<Uuid> {
    outbox.emit_events((0..events).map(|n| Event::new("Account", n % aggregates, "changed").repeatable())).await
}

fn relay(outbox: &Outbox, place: &Partition) -> pillarbox::Relay {
    let settings = ordered(OnFailed::Block);
    let destination = Destination::new("a", place.clone());
    outbox.relay().settings(settings).destination(destination).route(all_to("a")).build().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_events_of_an_aggregate_go_in_runs_as_long_as_a_batch() {
    let (outbox, place) = (Outbox::new().await, Partition::default());
    let emitted = emit(&outbox, 120, 2).await;
    assert_eq!(relay(&outbox, &place).drain().await.unwrap().processed, 120);
    let mut lengths = place.runs.lock().unwrap().clone();
    lengths.sort_unstable();
    assert_eq!(lengths, [10, 10, 25, 25, 25, 25]);
    let stored = place.stored.lock().unwrap().clone();
    for aggregate in 0..2 {
        let expected: Vec<Uuid> = emitted.iter().skip(aggregate).step_by(2).copied().collect();
        let of_it: Vec<Uuid> = stored.iter().filter(|id| expected.contains(id)).copied().collect();
        assert_eq!(of_it, expected);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_events_behind_a_failure_are_given_back_and_not_blamed() {
    let (outbox, place) = (Outbox::new().await, Partition::default());
    let ids = emit(&outbox, 6, 1).await;
    *place.refused.lock().unwrap() = Some((ids[2], SendError::retry("not now").after(Some(Duration::from_secs(3600)))));
    relay(&outbox, &place).drain().await.unwrap();
    assert_eq!(*place.stored.lock().unwrap(), ids[..2]);
    let event = outbox.get(ids[2]).await.event;
    assert_eq!((event.status, event.attempts, event.error_message.as_str()), (Status::Pending, 1, "not now"));
    for id in &ids[3..] {
        let event = outbox.get(*id).await.event;
        assert_eq!((event.status, event.attempts, event.error_message.as_str()), (Status::Pending, 0, ""));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_in_the_middle_of_a_run_keeps_the_order() {
    let (outbox, place) = (Outbox::new().await, Partition::default());
    let ids = emit(&outbox, 60, 1).await;
    *place.refused.lock().unwrap() = Some((ids[30], SendError::unavailable("no leader")));
    while_running(&relay(&outbox, &place), async {
        wait_until("all are stored", PATIENCE, async || place.stored.lock().unwrap().len() >= ids.len()).await;
    })
    .await;
    assert_eq!(*place.stored.lock().unwrap(), ids);
}
