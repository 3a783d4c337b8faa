//! Claims by lock: settled in the transaction that holds them, leased when that takes long, free when it breaks.

use std::time::Duration;

use pillarbox::Store;
use pillarbox::delivery::{Change, Verdict};
use pillarbox::store::postgres::PostgresStore;
use pillarbox::store::{Claim, Claimed, Settlement};
use pillarbox_testkit::conformance::outbox::{ASK, deliver};
use pillarbox_testkit::conformance::{Outbox, PostgresOutbox};
use pillarbox_testkit::wait_until;

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
        id: uuid::Uuid::from_u128(id),
        host: "here".to_owned(),
        in_flight: 0,
        idle: false,
    };
    outbox.postgres().heartbeat(&heartbeat(1)).await.unwrap();
    assert!(claim(&outbox).await.together().is_some(), "nobody else lives");
    another(&outbox).await.heartbeat(&heartbeat(2)).await.unwrap();
    outbox.execute("UPDATE outbox_relay SET started_at = started_at - interval '1 minute'").await;
    outbox.postgres().heartbeat(&heartbeat(1)).await.unwrap();
    (&outbox as &dyn Outbox).emit_one().await;
    assert!(outbox.postgres().claim(ASK).await.unwrap().together().is_none(), "it may be dead");
}
