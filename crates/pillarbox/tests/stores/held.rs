//! Claims by lock: settled in the transaction that holds them, leased when that takes long, free when it breaks.

use std::time::Duration;

use pillarbox::delivery::{Change, Verdict};
use pillarbox::store::postgres::PostgresStore;
use pillarbox::store::{Ask, Claim, Claimed, Settlement};
use pillarbox::{Claims, Event, Fleet, OnFailed, Order, Parking};
use pillarbox_testkit::conformance::outbox::{ASK, deliver};
use pillarbox_testkit::conformance::{Outbox, PostgresOutbox};
use pillarbox_testkit::wait_until;
use uuid::Uuid;

async fn outbox(events: usize) -> PostgresOutbox {
    let outbox = PostgresOutbox::create().await;
    (&outbox as &dyn Outbox).emit_many(events).await;
    outbox.postgres().hold_from_now_on();
    outbox
}

async fn claim(outbox: &PostgresOutbox) -> Claim {
    let claim = outbox.postgres().claim(ASK).await.unwrap();
    assert!(claim.is_empty() || claim.together().is_some(), "it is held by locks");
    claim
}

async fn another(outbox: &PostgresOutbox) -> PostgresStore {
    PostgresStore::connect(&outbox.url(), "public").await.unwrap()
}

fn delivered(claim: impl IntoIterator<Item = Claimed>) -> Vec<Settlement> {
    claim.into_iter().map(deliver).collect()
}

async fn count(outbox: &PostgresOutbox, condition: &str) -> i64 {
    let sql = format!("SELECT count(*) FROM outbox_event WHERE {condition}");
    sqlx::query_scalar(sqlx::AssertSqlSafe(sql)).fetch_one(outbox.pool()).await.unwrap()
}

async fn is_leased(outbox: &PostgresOutbox, events: i64) {
    wait_until("what was not answered is leased", Duration::from_secs(5), async || {
        count(outbox, "claimed_by IS NOT NULL AND next_attempt_at > clock_timestamp() + interval '4 minutes'").await
            == events
    })
    .await;
}

#[tokio::test]
async fn a_claim_writes_nothing_and_nobody_else_gets_it() {
    let outbox = outbox(3).await;
    let claim = claim(&outbox).await;
    assert_eq!(claim.len(), 3);
    assert_eq!(count(&outbox, "claimed_by IS NULL AND updated_at = created_at").await, 3);
    assert!(another(&outbox).await.claim(ASK).await.unwrap().is_empty());
    assert_eq!(outbox.postgres().settle(&delivered(claim), false).await.unwrap(), []);
    assert_eq!(count(&outbox, "status = 'delivered' AND delivered_at IS NOT NULL AND attempts = 0").await, 3);
}

#[tokio::test]
async fn what_was_delivered_is_deleted_and_the_others_are_kept() {
    let outbox = outbox(4).await;
    let mut claim = claim(&outbox).await.into_iter();
    let retry = Change::Retry { after: Duration::from_secs(60), error: "no".to_owned() };
    let mut settlements = vec![claim.next().unwrap().settle(Verdict::of(retry, 1))];
    settlements.extend(delivered(claim));
    assert_eq!(outbox.postgres().settle(&settlements, true).await.unwrap(), []);
    assert_eq!(outbox.rows("outbox_event").await, 1);
    assert_eq!(count(&outbox, "attempts = 1 AND error_message = 'no' AND claimed_by IS NULL").await, 1);
}

#[tokio::test]
async fn what_waits_for_its_destination_is_parked_beside_what_was_delivered() {
    let outbox = outbox(7).await;
    let mut claim = claim(&outbox).await.into_iter();
    let mut park = |on: &str, error: &str| {
        let change = Change::Park { on: on.to_owned(), error: error.to_owned() };
        claim.next().unwrap().settle(Verdict::of(change, 0))
    };
    let mut settlements = vec![park("one", ""), park("one", "down\0"), park("other", ""), park("one", "")];
    settlements.extend(delivered(claim.by_ref().take(2)));
    assert_eq!(outbox.postgres().settle(&settlements, false).await.unwrap(), []);
    let parked = "status = 'pending' AND claimed_by IS NULL AND attempts = 0 AND next_attempt_at = updated_at \
                  AND updated_at > created_at AND parked_on";
    assert_eq!(count(&outbox, &format!("{parked} = 'one' AND error_message = ''")).await, 2);
    assert_eq!(count(&outbox, &format!("{parked} = 'one' AND error_message = U&'down\\FFFD'")).await, 1);
    assert_eq!(count(&outbox, &format!("{parked} = 'other' AND error_message = ''")).await, 1);
    assert_eq!(count(&outbox, "status = 'delivered' AND parked_on IS NULL").await, 2);
    is_leased(&outbox, 1).await;
    assert_eq!(outbox.postgres().unpark("one", None, 10).await.unwrap(), 3);
    assert_eq!(another(&outbox).await.claim(ASK).await.unwrap().len(), 3);
}

#[tokio::test]
async fn what_is_not_answered_soon_becomes_a_lease_that_can_be_settled() {
    let outbox = outbox(5).await;
    let mut claim = claim(&outbox).await.into_iter();
    let soon = delivered([claim.next().unwrap(), claim.next().unwrap()]);
    assert_eq!(outbox.postgres().settle(&soon, false).await.unwrap(), []);
    assert_eq!(count(&outbox, "status = 'delivered'").await, 2);
    is_leased(&outbox, 3).await;
    assert!(another(&outbox).await.claim(ASK).await.unwrap().is_empty());
    assert_eq!(outbox.postgres().settle(&delivered(claim), false).await.unwrap(), []);
    assert_eq!(count(&outbox, "status = 'delivered' AND claimed_by IS NULL").await, 5);
}

#[tokio::test]
async fn what_nobody_settles_becomes_a_lease_by_itself() {
    let outbox = outbox(2).await;
    let claim = claim(&outbox).await;
    is_leased(&outbox, 2).await;
    assert_eq!(outbox.postgres().settle(&delivered(claim), true).await.unwrap(), []);
    assert_eq!(outbox.rows("outbox_event").await, 0);
}

#[tokio::test]
async fn what_is_dropped_comes_back() {
    let outbox = outbox(3).await;
    let mut claim = claim(&outbox).await.into_iter();
    let kept = claim.next().unwrap();
    drop(claim);
    let other = another(&outbox).await;
    wait_until("the dropped ones are due again", Duration::from_secs(5), async || {
        other.remaining().await.unwrap() == 2 && count(&outbox, "claimed_by IS NOT NULL").await == 1
    })
    .await;
    assert_eq!(other.claim(ASK).await.unwrap().len(), 2);
    assert_eq!(outbox.postgres().settle(&delivered([kept]), false).await.unwrap(), []);
}

/// As a server that restarts, or one that thinks that the relay has vanished.
async fn break_transactions(outbox: &PostgresOutbox) {
    let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
               WHERE datname = current_database() AND state = 'idle in transaction'";
    let ended: i64 = sqlx::query_scalar(end).fetch_one(outbox.pool()).await.unwrap();
    assert_eq!(ended, 1);
}

#[tokio::test]
async fn what_was_sent_is_settled_all_the_same_when_the_transaction_breaks() {
    let outbox = outbox(3).await;
    let sent = delivered(claim(&outbox).await);
    break_transactions(&outbox).await;
    outbox.postgres().settle(&sent, false).await.unwrap_err();
    assert_eq!(outbox.postgres().settle(&sent, false).await.unwrap(), []);
    assert_eq!(count(&outbox, "status = 'delivered'").await, 3);
}

#[tokio::test]
async fn what_somebody_has_claimed_since_is_theirs() {
    let outbox = outbox(3).await;
    let sent = delivered(claim(&outbox).await);
    break_transactions(&outbox).await;
    outbox.postgres().settle(&sent, false).await.unwrap_err();
    let other = another(&outbox).await;
    let theirs = other.claim(ASK).await.unwrap();
    assert_eq!(theirs.len(), 3);
    assert_eq!(outbox.postgres().settle(&sent, false).await.unwrap().len(), 3, "all were lost");
    assert_eq!(other.settle(&delivered(theirs), false).await.unwrap(), []);
}

#[tokio::test]
async fn what_has_lost_a_lease_is_only_claimed_by_lease() {
    let outbox = outbox(2).await;
    outbox.execute("UPDATE outbox_event SET claims = 1 WHERE seq = 1").await;
    assert_eq!(claim(&outbox).await.len(), 1);
    let other = another(&outbox).await;
    let lapsed = other.claim(ASK).await.unwrap();
    assert!(lapsed.together().is_none());
    assert_eq!(lapsed.len(), 1);
}

/// What kills a relay while it is held by a lock leaves no trace; by lease the loss is counted.
#[tokio::test]
async fn after_a_death_everything_is_claimed_by_lease() {
    let outbox = outbox(1).await;
    let heartbeat = |id: u128| pillarbox::store::Heartbeat {
        id: Uuid::from_u128(id),
        host: "here".to_owned(),
        in_flight: 0,
        idle: false,
        configuration: None,
    };
    outbox.postgres().heartbeat(&heartbeat(1)).await.unwrap();
    assert!(claim(&outbox).await.together().is_some(), "nobody else lives");
    another(&outbox).await.heartbeat(&heartbeat(2)).await.unwrap();
    outbox.execute("UPDATE outbox_relay SET started_at = started_at - interval '1 minute'").await;
    outbox.postgres().heartbeat(&heartbeat(1)).await.unwrap();
    (&outbox as &dyn Outbox).emit_one().await;
    assert!(outbox.postgres().claim(ASK).await.unwrap().together().is_none(), "it may be dead");
}

/// The database refuses one of them: what was sent must not be free for others for that.
#[tokio::test]
async fn what_the_database_refuses_to_settle_becomes_a_lease_with_the_others() {
    let outbox = outbox(3).await;
    outbox.execute("ALTER TABLE outbox_event ADD CONSTRAINT refusal CHECK (error_message <> 'refused')").await;
    let mut claim = claim(&outbox).await.into_iter();
    let refused = Change::Retry { after: Duration::ZERO, error: "refused".to_owned() };
    let mut settlements = vec![claim.next().unwrap().settle(Verdict::of(refused, 1))];
    settlements.extend(delivered(claim));
    outbox.postgres().settle(&settlements, false).await.unwrap_err();
    assert_eq!(count(&outbox, "claimed_by IS NOT NULL").await, 3);
    assert!(another(&outbox).await.claim(ASK).await.unwrap().is_empty());
    assert_eq!(outbox.postgres().settle(&settlements[1..], false).await.unwrap(), []);
    assert_eq!(count(&outbox, "status = 'delivered'").await, 2);
}

/// As many are locked as were asked for, and only so many claimed as are not too large: the others are claimed next.
#[tokio::test]
async fn what_is_locked_and_too_large_to_be_claimed_with_the_others_is_not_passed_over() {
    for order in [Order::None, Order::Aggregate(OnFailed::Block)] {
        let outbox = outbox(0).await;
        let large = |number| Event::new("Order", number, "order.placed").payload("x".repeat(10_000));
        outbox.emit((0..9).map(large).collect()).await;
        let small = Ask { limit: 5, bytes: 15_000, whole: false, order, ..ASK };
        let store = outbox.postgres();
        let mut seqs = Vec::new();
        let (first, second) = (store.claim(small).await.unwrap(), store.claim(small).await.unwrap());
        for claim in [first, second] {
            seqs.extend(claim.iter().map(|claimed| claimed.event().seq));
            assert_eq!(store.settle(&delivered(claim), false).await.unwrap(), []);
        }
        assert_eq!(seqs.len(), 4, "two claims of two");
        for _ in 0..3 {
            let claim = store.claim(small).await.unwrap();
            seqs.extend(claim.iter().map(|claimed| claimed.event().seq));
            assert_eq!(store.settle(&delivered(claim), false).await.unwrap(), []);
        }
        seqs.sort_unstable();
        assert_eq!(seqs, (1..=9).collect::<Vec<i64>>(), "{order:?}");
    }
}

/// The store that held them has read on since: events that were due an hour later. It does not rescan for an hour.
#[tokio::test]
async fn what_is_dropped_is_found_again_where_it_was() {
    for order in [Order::None, Order::Aggregate(OnFailed::Block)] {
        let outbox = outbox(6).await;
        let earlier = "UPDATE outbox_event SET next_attempt_at = next_attempt_at - interval '1 hour' WHERE seq <= 3";
        outbox.execute(earlier).await;
        let (store, ask) = (outbox.postgres(), Ask { limit: 3, whole: false, order, ..ASK });
        let (first, second) = (store.claim(ask).await.unwrap(), store.claim(ask).await.unwrap());
        assert_eq!((first.len(), second.len()), (3, 3));
        assert_eq!(store.settle(&delivered(second), false).await.unwrap(), []);
        drop(first);
        wait_until("the dropped ones are delivered", Duration::from_secs(5), async || {
            let claim = store.claim(ask).await.unwrap();
            assert_eq!(store.settle(&delivered(claim), false).await.unwrap(), []);
            count(&outbox, "status = 'delivered'").await == 6
        })
        .await;
    }
}

/// A payload that is larger than its share of a claim does not change what is claimed, nor what comes after it.
#[tokio::test]
async fn a_large_payload_is_claimed_with_small_ones_as_far_as_they_fit() {
    let outbox = outbox(0).await;
    let event =
        |size: usize| Event::new("Order", 42, "order.placed").idempotency_key(Uuid::new_v4()).payload("x".repeat(size));
    outbox.emit([10, 10, 5000, 10, 10, 10, 10].map(event).into()).await;
    let store = outbox.postgres();
    let sizes = |claim: &Claim| claim.iter().map(|one| one.event().payload.get().len() - 2).collect::<Vec<_>>();
    for (bytes, expected) in [(15_000, vec![10, 10, 5000, 10, 10]), (1500, vec![10, 10]), (15_000, vec![])] {
        let claim = store.claim(Ask { limit: 5, bytes, whole: false, ..ASK }).await.unwrap();
        assert_eq!(sizes(&claim), expected);
        assert_eq!(store.settle(&delivered(claim), false).await.unwrap(), []);
    }
    outbox.emit([20, 20].map(event).into()).await;
    let claim = store.claim(Ask { limit: 5, bytes: 15_000, whole: false, ..ASK }).await.unwrap();
    assert_eq!(sizes(&claim), [20, 20]);
    assert_eq!(store.settle(&delivered(claim), false).await.unwrap(), []);
}

#[tokio::test]
async fn a_settle_that_is_cancelled_can_be_tried_again() {
    let outbox = outbox(2).await;
    let sent = delivered(claim(&outbox).await);
    // Polled once: it has begun and waits for the database.
    let _ = tokio::time::timeout(Duration::ZERO, outbox.postgres().settle(&sent, false)).await;
    let settled = async || outbox.postgres().settle(&sent, false).await.is_ok_and(|lost| lost.is_empty());
    let delivered = async || settled().await || count(&outbox, "status = 'delivered'").await == 2;
    wait_until("it is settled", Duration::from_secs(5), delivered).await;
    assert_eq!(count(&outbox, "status = 'delivered'").await, 2);
}

/// Locks do not show: an ordered claim would see what is locked as if it were free, and take nothing.
#[tokio::test]
async fn an_ordered_claim_goes_on_after_what_is_locked() {
    let outbox = outbox(500).await;
    let ordered = Ask { limit: 100, order: Order::Aggregate(OnFailed::Block), whole: false, ..ASK };
    let store = outbox.postgres();
    let mut seqs = Vec::new();
    let mut claims = Vec::new();
    // One of them may be by lease, for what only leases can count.
    for _ in 0..4 {
        let claim = store.claim(ordered).await.unwrap();
        seqs.extend(claim.iter().map(|claimed| claimed.event().seq));
        claims.push(claim);
    }
    assert!(claims.iter().filter(|claim| claim.together().is_some()).count() >= 3);
    seqs.sort_unstable();
    assert_eq!(seqs, (1..=400).collect::<Vec<i64>>());
    for claim in claims {
        assert_eq!(store.settle(&delivered(claim), false).await.unwrap(), []);
    }
}
