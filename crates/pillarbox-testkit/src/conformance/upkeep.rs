//! Upkeep: cleanup, the number of remaining events, and heartbeats.

use std::collections::HashMap;
use std::time::Duration;

use chrono::{DurationRound, TimeDelta, Utc};
use pillarbox::delivery::{Answer, Change, Verdict};
use pillarbox::store::{Cleaned, Heartbeat, LaneView, Minute, Retention, State, Told};
use uuid::Uuid;

use super::Outbox;
use super::outbox::{ASK, PLACE, deliver, event, fail, failed, judged, park};
use crate::wait_until;

const HOUR: Duration = Duration::from_secs(3600);

fn retention(delivered_after: Duration, failed_after: Duration) -> Retention {
    Retention { delivered_after, failed_after, batch: 1000 }
}

async fn cleanup(outbox: &dyn Outbox, retention: Retention) -> Cleaned {
    let cleaned = outbox.store().cleanup(&retention).await.unwrap();
    assert!(!cleaned.elsewhere);
    cleaned
}

/// An event that was emitted long ago and delivered a minute ago stays.
pub async fn cleanup_counts_age_from_the_terminal_moment(outbox: &dyn Outbox) {
    let old = outbox.emit_one().await;
    outbox.age(old.id, 100 * HOUR).await;
    outbox.claim_and_settle(Change::Deliver).await;
    let dead = outbox.emit_one().await;
    outbox.age(dead.id, 100 * HOUR).await;
    outbox.claim_and_settle(fail()).await;
    assert_eq!(cleanup(outbox, retention(HOUR, HOUR)).await, Cleaned::default());
    outbox.age(old.id, HOUR).await;
    outbox.age(dead.id, HOUR).await;
    assert_eq!(cleanup(outbox, retention(HOUR, HOUR)).await.deleted, 2);
    assert_eq!(outbox.rows("outbox_event").await, 0);
}

/// Dead letters are kept longer, for people.
pub async fn cleanup_keeps_failed_and_delivered_for_their_own_time(outbox: &dyn Outbox) {
    let delivered = outbox.emit_one().await;
    outbox.claim_and_settle(Change::Deliver).await;
    let dead = outbox.emit_one().await;
    outbox.claim_and_settle(fail()).await;
    for id in [delivered.id, dead.id] {
        outbox.age(id, 2 * HOUR).await;
    }
    assert_eq!(cleanup(outbox, retention(HOUR, 3 * HOUR)).await.deleted, 1);
    assert!(outbox.inspect().get(delivered.id).await.unwrap().is_none());
    assert_eq!(cleanup(outbox, retention(3 * HOUR, 3 * HOUR)).await.deleted, 0);
    assert_eq!(cleanup(outbox, retention(3 * HOUR, HOUR)).await.deleted, 1);
    assert!(outbox.inspect().get(dead.id).await.unwrap().is_none());
}

/// Pending events are never deleted, however old they are and whatever they wait for.
pub async fn cleanup_never_takes_what_is_pending(outbox: &dyn Outbox) {
    let parked = outbox.emit_one().await;
    outbox.claim_and_settle(park("runner")).await;
    let scheduled = outbox.emit_one().await;
    outbox.claim_and_settle(Change::Retry { after: 1000 * HOUR, error: "no".to_owned() }).await;
    let leased = outbox.emit_one().await;
    let _claim = outbox.store().claim(pillarbox::store::Ask { lease: 1000 * HOUR, ..ASK }).await.unwrap();
    let due = outbox.emit_one().await;
    for emitted in [&parked, &scheduled, &leased, &due] {
        outbox.age(emitted.id, 500 * HOUR).await;
    }
    assert_eq!(cleanup(outbox, retention(Duration::ZERO, Duration::ZERO)).await, Cleaned::default());
    let mut states = Vec::new();
    for emitted in [&parked, &scheduled, &leased, &due] {
        states.push(outbox.get(emitted.id).await.event.state);
    }
    assert_eq!(states, [State::Parked, State::Scheduled, State::Sending, State::Due]);
}

/// There is no long transaction, and the caller knows whether to call again.
pub async fn cleanup_works_in_batches_and_says_whether_more_remain(outbox: &dyn Outbox) {
    outbox.emit_many(6).await;
    outbox.settle(outbox.claim().await.into_iter().map(deliver).collect()).await;
    outbox.emit_event(event(99)).await;
    outbox.claim_and_settle(fail()).await;
    let young = outbox.emit_event(event(100)).await;
    let batch = Retention { batch: 3, ..retention(Duration::ZERO, Duration::ZERO) };
    let mut steps = Vec::new();
    for _ in 0..4 {
        let cleaned = cleanup(outbox, batch).await;
        steps.push((cleaned.deleted, cleaned.more));
    }
    assert_eq!(steps, [(3, true), (3, true), (1, false), (0, false)]);
    outbox.emit_many(6).await;
    outbox
        .settle(outbox.claim().await.into_iter().filter(|event| event.event().id != young.id).map(deliver).collect())
        .await;
    assert_eq!(
        cleanup(outbox, Retention { batch: 6, ..batch }).await,
        Cleaned { deleted: 6, more: false, elsewhere: false }
    );
    // A dropped claim is given back in the background.
    wait_until("the young event is given back", Duration::from_secs(10), async || {
        outbox.get(young.id).await.event.state == State::Due
    })
    .await;
}

/// Deliveries and attempts are deleted with their event; other events keep theirs.
pub async fn cleanup_takes_the_details_too(outbox: &dyn Outbox) {
    let emitted = outbox.emit_many(2).await;
    let mut settlements = Vec::new();
    for claimed in outbox.claim().await {
        let mut verdict = judged(&claimed, &[PLACE, "audit"], vec![(PLACE, Answer::Sent), ("audit", failed("no"))]);
        if claimed.event().id == emitted[0].id {
            verdict = Verdict { change: fail(), ..verdict };
        }
        settlements.push(claimed.settle(verdict));
    }
    outbox.settle(settlements).await;
    assert_eq!((outbox.rows("outbox_delivery").await, outbox.rows("outbox_attempt").await), (4, 2));
    assert_eq!(cleanup(outbox, retention(Duration::ZERO, Duration::ZERO)).await.deleted, 1);
    assert_eq!((outbox.rows("outbox_delivery").await, outbox.rows("outbox_attempt").await), (2, 1));
    let kept = outbox.get(emitted[1].id).await;
    assert_eq!((kept.deliveries.len(), kept.failed_attempts.len()), (2, 1));
}

/// The number that a single pass of a relay returns.
pub async fn remaining_counts_what_is_due_and_free(outbox: &dyn Outbox) {
    let remaining = async || outbox.store().remaining().await.unwrap();
    assert_eq!(remaining().await, 0);
    outbox.emit_many(3).await;
    outbox.emit_event(event(10).deliver_at(outbox.now().await + HOUR)).await;
    assert_eq!(remaining().await, 3);
    let claim = outbox.store().claim(pillarbox::store::Ask { limit: 2, ..ASK }).await.unwrap();
    assert_eq!(remaining().await, 1);
    outbox.settle(claim.into_iter().map(deliver).collect()).await;
    assert_eq!(remaining().await, 1);
}

fn heartbeat(id: Uuid, in_flight: usize, idle: bool) -> Heartbeat {
    Heartbeat { id, host: "box-1".to_owned(), in_flight, idle, configuration: Some("4f3a".to_owned()) }
}

/// A repeated report of a minute replaces the earlier one; the reports of two relays are added up.
pub async fn a_relay_tells_its_minutes_and_how_it_finds_its_destinations(outbox: &dyn Outbox) {
    let (one, other) = (Uuid::new_v4(), Uuid::new_v4());
    let store = outbox.store();
    store.heartbeat(&heartbeat(one, 0, false)).await.unwrap();
    store.heartbeat(&heartbeat(other, 0, false)).await.unwrap();
    let now = Utc::now().duration_trunc(TimeDelta::minutes(1)).unwrap();
    let minute = |at, delivered: u64, failed| {
        let mut minute = Minute { delivered, failed, given_up: 1, ..Minute::new(at, "ledger") };
        (0..delivered).for_each(|_| minute.latency.add(Duration::from_millis(20)));
        (0..failed).for_each(|_| minute.response.add(Duration::from_millis(3)));
        minute
    };
    let earlier = now - TimeDelta::minutes(2);
    let mut lane = LaneView::new("ledger");
    let tell = async |relay, minutes: &[Minute], lanes: &[LaneView]| {
        store.tell(Told { relay, minutes, lanes }).await.unwrap();
    };
    tell(one, &[minute(earlier, 1, 0), minute(now, 2, 0)], std::slice::from_ref(&lane)).await;
    (lane.down, lane.queued, lane.last_error) = (true, 7, Some("it's \"down\"".to_owned()));
    lane.last_error_at = Some(now);
    (lane.limited, lane.down_since, lane.probe_at) = (true, Some(earlier), Some(now + TimeDelta::seconds(8)));
    lane.recovered_at = Some(earlier - TimeDelta::hours(1));
    tell(one, &[minute(now, 5, 3)], std::slice::from_ref(&lane)).await;
    tell(other, &[minute(now, 10, 0)], &[]).await;

    let all = outbox.inspect().minutes(earlier).await.unwrap();
    assert_eq!(all, [minute(earlier, 1, 0), Minute { given_up: 2, ..minute(now, 15, 3) }]);
    assert_eq!(outbox.inspect().minutes(now).await.unwrap().len(), 1);
    let lanes = async || {
        let relays = outbox.inspect().relays().await.unwrap();
        relays.into_iter().map(|relay| (relay.id, relay.lanes)).collect::<HashMap<_, _>>()
    };
    assert_eq!(lanes().await, HashMap::from([(one, vec![lane]), (other, vec![])]));
    store.farewell(one).await.unwrap();
    assert_eq!(lanes().await, HashMap::from([(other, vec![])]));
    assert_eq!(outbox.rows("outbox_lane").await, 0);
}

/// Minutes are deleted after a day.
pub async fn old_minutes_are_forgotten(outbox: &dyn Outbox) {
    let now = Utc::now().duration_trunc(TimeDelta::minutes(1)).unwrap();
    let minute = |at| Minute { delivered: 1, ..Minute::new(at, "ledger") };
    let old = now - TimeDelta::hours(26);
    let told = [minute(old), minute(now)];
    outbox.store().tell(Told { relay: Uuid::new_v4(), minutes: &told, lanes: &[] }).await.unwrap();
    outbox.store().sweep().await.unwrap();
    assert_eq!(outbox.inspect().minutes(old).await.unwrap(), [minute(now)]);
}

/// A relay is listed from its first heartbeat to its farewell.
pub async fn relays_are_told_by_their_heartbeats(outbox: &dyn Outbox) {
    let (one, other) = (Uuid::new_v4(), Uuid::new_v4());
    let store = outbox.store();
    store.heartbeat(&heartbeat(one, 0, false)).await.unwrap();
    store.heartbeat(&heartbeat(other, 0, false)).await.unwrap();
    store.heartbeat(&heartbeat(one, 12, true)).await.unwrap();
    let relays = outbox.inspect().counts().await.unwrap().relays;
    assert_eq!(relays.len(), 2);
    let relay = relays.iter().find(|relay| relay.id == one).unwrap();
    assert_eq!((relay.host.as_str(), relay.in_flight, relay.idle, relay.alive), ("box-1", 12, true, true));
    assert_eq!(relay.configuration.as_deref(), Some("4f3a"));
    let unknown = Uuid::new_v4();
    store.heartbeat(&Heartbeat { configuration: None, ..heartbeat(unknown, 0, false) }).await.unwrap();
    let relays = outbox.inspect().relays().await.unwrap();
    assert_eq!(relays.iter().find(|relay| relay.id == unknown).unwrap().configuration, None);
    store.farewell(unknown).await.unwrap();
    assert!(relay.started_at <= relay.heartbeat_at);
    store.farewell(one).await.unwrap();
    store.farewell(one).await.unwrap();
    let relays = outbox.inspect().counts().await.unwrap().relays;
    assert_eq!(relays.iter().map(|relay| relay.id).collect::<Vec<_>>(), [other]);
}

/// A relay died without a farewell.
pub async fn a_relay_without_a_heartbeat_is_not_alive_and_then_forgotten(outbox: &dyn Outbox) {
    let id = Uuid::new_v4();
    outbox.store().heartbeat(&heartbeat(id, 3, true)).await.unwrap();
    outbox.age_relay(id, Duration::from_secs(60)).await;
    outbox.store().sweep().await.unwrap();
    let relays = outbox.inspect().counts().await.unwrap().relays;
    assert_eq!(relays.iter().map(|relay| relay.alive).collect::<Vec<_>>(), [false]);
    outbox.age_relay(id, 25 * HOUR).await;
    outbox.store().sweep().await.unwrap();
    assert_eq!(outbox.inspect().counts().await.unwrap().relays.len(), 0);
}
