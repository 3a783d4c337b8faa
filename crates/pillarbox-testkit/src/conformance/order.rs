//! Order: events of one aggregate one after another, with any number of claimers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pillarbox::delivery::{Change, Verdict};
use pillarbox::store::{Ask, Claim, Filter, LOSSES_BEFORE_ALONE, Retention, Selection};
use pillarbox::{Event, OnFailed, Order, Store};
use rand::RngExt;
use tokio::task::JoinSet;
use uuid::Uuid;

use super::Outbox;
use super::outbox::{ASK, BY_ANN, deliver, fail, park};

const HOUR: Duration = Duration::from_secs(3600);
const ORDERED: Ask<'static> = Ask { order: Order::Aggregate(OnFailed::Block), ..ASK };
const SKIPPING: Ask<'static> = Ask { order: Order::Aggregate(OnFailed::Skip), ..ASK };

fn of(aggregate: &str) -> Event {
    Event::new("Account", aggregate, "account.changed").repeatable()
}

/// Emits events of these aggregates, each letter an aggregate, in this order.
async fn emit(outbox: &dyn Outbox, aggregates: &str) -> Vec<Uuid> {
    let mut ids = Vec::new();
    // One by one, because emit_all inserts in the order of the keys.
    for aggregate in aggregates.chars() {
        ids.push(outbox.emit_event(of(&aggregate.to_string())).await.id);
    }
    ids
}

fn ids(claim: &Claim) -> Vec<Uuid> {
    claim.iter().map(|claimed| claimed.event().id).collect()
}

/// Returns the aggregates of a claim, sorted.
fn aggregates(claim: &Claim) -> String {
    let mut letters: Vec<&str> = claim.iter().map(|claimed| claimed.event().aggregate_id.as_str()).collect();
    letters.sort_unstable();
    letters.concat()
}

/// Claims, and settles the first event with this change; the other events are given back.
async fn settle_first(outbox: &dyn Outbox, ask: Ask<'_>, change: Change) {
    let give_back = |attempts| Verdict::of(Change::Release { after: Duration::ZERO }, attempts);
    let mut change = Some(change);
    let claim = outbox.claim_with(ask).await;
    let settlements = claim.into_iter().map(|claimed| {
        let attempts = claimed.event().attempts;
        claimed.settle(change.take().map_or_else(|| give_back(attempts), |change| Verdict::of(change, 0)))
    });
    let settlements: Vec<_> = settlements.collect();
    assert!(!settlements.is_empty(), "there was something to claim");
    outbox.settle(settlements).await;
}

/// Claims, and delivers all.
async fn deliver_all(outbox: &dyn Outbox, ask: Ask<'_>) -> Vec<Uuid> {
    let claim = outbox.claim_with(ask).await;
    let claimed = ids(&claim);
    outbox.settle(claim.into_iter().map(deliver).collect()).await;
    claimed
}

/// Earlier events come first in the same claim.
pub async fn one_claim_takes_an_aggregate_in_the_order_of_seq(outbox: &dyn Outbox) {
    let emitted = emit(outbox, "abab").await;
    assert_eq!(ids(&outbox.claim_with(ORDERED).await), emitted);
}

/// While a relay holds the first event, no handle can claim the second.
pub async fn nothing_is_claimed_behind_a_live_lease(outbox: &dyn Outbox) {
    let emitted = emit(outbox, "aab").await;
    let first = outbox.claim_with(Ask { limit: 1, ..ORDERED }).await;
    assert_eq!(ids(&first), emitted[..1]);
    let other = outbox.another().await.claim(ORDERED).await.unwrap();
    assert_eq!(ids(&other), emitted[2..], "the other aggregate is free");
    assert!(outbox.claim_with(ORDERED).await.is_empty());
    outbox.settle(first.into_iter().map(deliver).collect()).await;
    assert_eq!(ids(&outbox.claim_with(ORDERED).await), emitted[1..2]);
}

/// A relay claims behind the events that it holds itself, but not behind others.
pub async fn a_claim_goes_behind_the_events_that_its_relay_names(outbox: &dyn Outbox) {
    let emitted = emit(outbox, "aababa").await;
    let held = outbox.claim_with(Ask { limit: 2, ..ORDERED }).await;
    assert_eq!(ids(&held), emitted[..2]);
    let seqs: Vec<i64> = held.iter().map(|claimed| claimed.event().seq).collect();
    let other = outbox.another().await.claim(Ask { limit: 1, ..ORDERED }).await.unwrap();
    assert_eq!(ids(&other), emitted[2..3]);
    assert!(outbox.claim_with(Ask { behind: &seqs[1..], ..ORDERED }).await.is_empty(), "the first is not named");
    let behind = outbox.claim_with(Ask { behind: &seqs, ..ORDERED }).await;
    assert_eq!(ids(&behind), [emitted[3], emitted[5]], "of the other aggregate, another relay holds the first");
}

/// Events that the limit left out come after the events that it took.
pub async fn a_claim_ends_an_aggregate_where_its_limit_does(outbox: &dyn Outbox) {
    let emitted = emit(outbox, "aaaaa").await;
    let mut order = Vec::new();
    for size in [2, 2, 1] {
        let claimed = deliver_all(outbox, Ask { limit: 2, ..ORDERED }).await;
        assert_eq!(claimed.len(), size);
        order.extend(claimed);
    }
    assert_eq!(order, emitted);
}

/// A failed attempt blocks its aggregate until the retry.
pub async fn an_event_is_not_claimed_before_an_earlier_one_that_waits_for_a_retry(outbox: &dyn Outbox) {
    let emitted = emit(outbox, "aab").await;
    let claim = outbox.claim_with(Ask { limit: 1, ..ORDERED }).await;
    let retry = || Verdict::of(Change::Retry { after: HOUR, error: "no".to_owned() }, 1);
    outbox.settle(claim.into_iter().map(|claimed| claimed.settle(retry())).collect()).await;
    assert_eq!(deliver_all(outbox, ORDERED).await, emitted[2..]);
    assert!(outbox.claim_with(ORDERED).await.is_empty());
    outbox.age(emitted[0], HOUR).await;
    assert_eq!(ids(&outbox.claim_with(ORDERED).await), emitted[..2]);
}

/// Such an event has no attempts and no losses, like a delayed event.
pub async fn an_outage_holds_up_its_aggregate_though_it_used_no_attempt(outbox: &dyn Outbox) {
    emit(outbox, "aa").await;
    settle_first(outbox, ORDERED, Change::Retry { after: HOUR, error: "down".to_owned() }).await;
    assert!(outbox.claim_with(ORDERED).await.is_empty());
}

/// A destination that is down blocks the aggregates that wait for it.
pub async fn a_parked_event_holds_up_its_aggregate_only(outbox: &dyn Outbox) {
    let emitted = emit(outbox, "aab").await;
    settle_first(outbox, ORDERED, park("runner")).await;
    assert_eq!(deliver_all(outbox, ORDERED).await, emitted[2..]);
    assert!(outbox.claim_with(ORDERED).await.is_empty());
    assert_eq!(outbox.store().unpark("runner", None, 10).await.unwrap(), 1);
    assert_eq!(ids(&outbox.claim_with(ORDERED).await), emitted[..2]);
}

/// After a retry or a delete, the event blocks nothing any more.
pub async fn a_failed_event_blocks_its_aggregate_until_people_act(outbox: &dyn Outbox) {
    let emitted = emit(outbox, "aabbc").await;
    settle_first(outbox, ORDERED, fail()).await;
    settle_first(outbox, ORDERED, fail()).await;
    assert_eq!(deliver_all(outbox, ORDERED).await, emitted[4..]);
    assert!(outbox.claim_with(ORDERED).await.is_empty());
    outbox.inspect().retry(&Selection::Ids(vec![emitted[0]]), BY_ANN).await.unwrap();
    assert_eq!(deliver_all(outbox, ORDERED).await, emitted[..2], "the retried one comes first");
    let retention = Retention { failed_after: Duration::ZERO, ..Retention::default() };
    assert_eq!(outbox.store().cleanup(&retention).await.unwrap().deleted, 1);
    assert_eq!(deliver_all(outbox, ORDERED).await, emitted[3..4]);
}

/// The policy for users who prefer a gap to a wait.
pub async fn a_failed_event_is_skipped_when_told_to(outbox: &dyn Outbox) {
    let emitted = emit(outbox, "aa").await;
    settle_first(outbox, SKIPPING, fail()).await;
    assert!(outbox.claim_with(ORDERED).await.is_empty());
    assert_eq!(ids(&outbox.claim_with(SKIPPING).await), emitted[1..]);
}

/// A delayed event is not part of the order before its time.
pub async fn a_delayed_event_holds_up_nobody_until_it_is_due(outbox: &dyn Outbox) {
    let later = outbox.emit_event(of("a").deliver_at(outbox.now().await + HOUR)).await.id;
    let emitted = emit(outbox, "aa").await;
    assert_eq!(deliver_all(outbox, Ask { limit: 1, ..ORDERED }).await, emitted[..1]);
    outbox.age(later, HOUR).await;
    assert_eq!(ids(&outbox.claim_with(ORDERED).await), [later, emitted[1]]);
}

/// By `seq`, although the later event has been due for longer.
pub async fn a_retry_that_is_due_comes_before_what_was_emitted_after_it(outbox: &dyn Outbox) {
    let emitted = emit(outbox, "aa").await;
    settle_first(outbox, Ask { limit: 1, ..ORDERED }, Change::Retry { after: Duration::ZERO, error: "no".to_owned() })
        .await;
    let first = outbox.claim_with(Ask { limit: 1, ..ORDERED }).await;
    assert_eq!(ids(&first), emitted[..1]);
    assert!(outbox.claim_with(ORDERED).await.is_empty());
}

/// A suspect is sent alone, in its place.
pub async fn a_suspect_goes_alone_and_its_aggregate_waits(outbox: &dyn Outbox) {
    let emitted = emit(outbox, "aa").await;
    for _ in 0..LOSSES_BEFORE_ALONE {
        let claim = outbox.claim_with(Ask { lease: Duration::ZERO, ..ORDERED }).await;
        assert_eq!(claim.len(), 2);
        std::mem::forget(claim);
    }
    for id in emitted {
        let claim = outbox.claim_with(ORDERED).await;
        assert!(claim.is_alone());
        assert_eq!(ids(&claim), [id]);
        assert!(outbox.claim_with(ORDERED).await.is_empty(), "the other one waits");
        outbox.settle(claim.into_iter().map(deliver).collect()).await;
    }
}

/// The events beyond the limit are the last of their aggregates.
pub async fn bytes_end_a_claim_without_a_gap(outbox: &dyn Outbox) {
    let mut emitted = Vec::new();
    for size in [10, 5000, 10, 10] {
        emitted.push(outbox.emit_event(of("a").payload("x".repeat(size))).await.id);
    }
    assert_eq!(deliver_all(outbox, Ask { bytes: 1000, ..ORDERED }).await, emitted[..2]);
    assert_eq!(deliver_all(outbox, Ask { bytes: 1000, ..ORDERED }).await, emitted[2..]);
}

/// Emits five pages of blocked events, and others after them.
async fn block_many(outbox: &dyn Outbox, small: Ask<'_>) {
    emit(outbox, "a").await;
    settle_first(outbox, small, fail()).await;
    outbox.emit((0..500).map(|_| of("a")).collect()).await;
}

/// However many events wait for one event, others are found.
pub async fn many_blocked_events_at_the_front_hold_up_nobody(outbox: &dyn Outbox) {
    let small = Ask { limit: 10, whole: false, ..ORDERED };
    block_many(outbox, small).await;
    for _ in 0..3 {
        emit(outbox, "bcd").await;
        let claim = outbox.claim_with(small).await;
        assert_eq!(aggregates(&claim), "bcd");
        outbox.settle(claim.into_iter().map(deliver).collect()).await;
        assert!(outbox.claim_with(small).await.is_empty());
    }
}

/// Events below the end of what was read are read again.
pub async fn what_was_blocked_for_long_is_found_again(outbox: &dyn Outbox) {
    let small = Ask { limit: 10, whole: false, ..ORDERED };
    block_many(outbox, small).await;
    assert!(outbox.claim_with(small).await.is_empty());
    let failed = Selection::Failed(Filter::default(), 10);
    assert_eq!(outbox.inspect().retry(&failed, BY_ANN).await.unwrap().len(), 1);
    let mut claimed = 0;
    while claimed < 501 {
        claimed += deliver_all(outbox, Ask { whole: true, ..small }).await.len();
    }
    assert!(outbox.claim_with(ORDERED).await.is_empty());
}

/// Claimers on several handles deliver, fail, delay and drop events: the deliveries of each aggregate are in order.
pub async fn racing_claimers_never_split_the_order(outbox: &dyn Outbox) {
    const EVENTS: usize = 300;
    let emitted = outbox.emit((0..EVENTS).map(|n| of(&(n % 7).to_string())).collect()).await;
    let delivered: Arc<Mutex<HashMap<String, Vec<i64>>>> = Arc::default();
    let mut claimers = JoinSet::new();
    for store in [outbox.store(), outbox.store(), outbox.another().await, outbox.another().await] {
        claimers.spawn(race(store, Arc::clone(&delivered)));
    }
    claimers.join_all().await;
    let delivered = delivered.lock().unwrap();
    assert_eq!(delivered.values().map(Vec::len).sum::<usize>(), emitted.len());
    for (aggregate, order) in delivered.iter() {
        assert!(order.is_sorted(), "{aggregate}: {order:?}");
    }
}

async fn race(store: Arc<dyn Store>, delivered: Arc<Mutex<HashMap<String, Vec<i64>>>>) {
    while store.remaining().await.unwrap() > 0 || store.next_due().await.unwrap().is_some() {
        let limit = rand::rng().random_range(1..20);
        let claim = store.claim(Ask { limit, whole: false, ..ORDERED }).await.unwrap();
        if claim.is_empty() {
            tokio::task::yield_now().await;
            continue;
        }
        // After an event that is not delivered, no later event of its aggregate is.
        let mut broken = Vec::new();
        let mut settlements = Vec::new();
        for claimed in claim {
            let event = Arc::clone(claimed.event());
            let follows = !broken.contains(&event.aggregate_id);
            if follows && rand::rng().random_bool(0.8) {
                delivered.lock().unwrap().entry(event.aggregate_id.clone()).or_default().push(event.seq);
                settlements.push(deliver(claimed));
                continue;
            }
            broken.push(event.aggregate_id.clone());
            if rand::rng().random_bool(0.5) {
                drop(claimed);
            } else {
                let retry = Change::Retry { after: Duration::ZERO, error: "no".to_owned() };
                settlements.push(claimed.settle(Verdict::of(retry, 1)));
            }
        }
        assert_eq!(store.settle(&settlements, false).await.unwrap(), []);
    }
}
