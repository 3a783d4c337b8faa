//! Settle: what becomes of a row, and only if it is still ours.

use futures_util::FutureExt;
use pillarbox::store::Claimed;

use super::*;

pub(super) async fn what_is_delivered_is_deleted(outbox: CeleryOutbox) {
    outbox.add(3).await;
    let store = store(&outbox).await;
    let claim = store.claim(ASK).await.unwrap();
    assert!(settle(&store, claim, Change::Deliver, 0).await.is_empty());
    assert!(outbox.rows().await.is_empty() && outbox.dead_letters().await.is_empty());
}

pub(super) async fn a_retry_counts_and_waits(outbox: CeleryOutbox) {
    outbox.add(1).await;
    let store = store(&outbox).await;
    let claim = store.claim(ASK).await.unwrap();
    assert!(settle(&store, claim, retry(120), 1).await.is_empty());
    let rows = outbox.rows().await;
    assert_eq!((rows[0].retries, wait(&rows[0])), (1, 120));
    assert!(outbox.selected(STALE).await.is_empty() && store.claim(ASK).await.unwrap().is_empty());
    let due = store.next_due().await.unwrap().unwrap().as_secs();
    assert!((110..=120).contains(&due), "{due}");
}

pub(super) async fn what_fails_becomes_a_dead_letter_with_its_error(outbox: CeleryOutbox) {
    outbox.add(2).await;
    outbox
        .execute(
            "UPDATE celery_outbox SET retries = 4, redacted_args = '[\"*\"]', sentry_trace_id = 'a-b-1', \
             sentry_baggage = 'k=v', structlog_context = '{\"a\":1}', options = '{\"queue\": \"q\"}'",
        )
        .await;
    let store = store(&outbox).await;
    let claim = store.claim(ASK).await.unwrap();
    let error = format!("no queue 'orders'\0{}", "x".repeat(5000));
    assert!(settle(&store, claim, Change::Fail { error }, 5).await.is_empty());
    assert!(outbox.rows().await.is_empty());
    let dead = outbox.dead_letters().await;
    assert_eq!((dead.len(), dead[0].0.as_str(), dead[0].1), (2, "task-1", 4));
    let reason = dead[0].2.as_deref().unwrap();
    assert!(reason.starts_with("no queue 'orders'\u{fffd}xxx") && reason.len() < 2100);
    let whole = outbox.number(
        "SELECT count(*) FROM celery_outbox_dead_letter WHERE redacted_args = '[\"*\"]' AND sentry_trace_id = 'a-b-1' \
         AND sentry_baggage = 'k=v' AND structlog_context = '{\"a\":1}' AND options = '{\"queue\": \"q\"}' \
         AND schema_version = 1 AND task_name = 'orders.process' AND kwargs = '{}' AND redacted_kwargs IS NULL \
         AND created_at < dead_at AND args IN ('[1]', '[2]')",
    )
    .await;
    assert_eq!(whole, 2);
}

pub(super) async fn what_is_parked_waits_for_the_cooldown_and_nothing_is_claimed_meanwhile(outbox: CeleryOutbox) {
    let added = outbox.add(30).await;
    let store = store(&outbox).await;
    assert!(store.parked_on().await.unwrap().is_empty());
    let claim = store.claim(Ask { limit: 20, ..ASK }).await.unwrap();
    assert!(settle(&store, claim, park(), 0).await.is_empty());
    let rows = outbox.rows().await;
    assert!(rows[..20].iter().all(|row| row.retries == 0 && wait(row) == 30));
    assert_eq!(store.parked_on().await.unwrap(), ["celery"]);
    assert!(store.claim(ASK).await.unwrap().is_empty(), "ten are due, and the broker is down");
    assert_eq!((store.next_due().await.unwrap(), store.remaining().await.unwrap()), (None, 10));
    assert_eq!(outbox.selected(STALE).await, added[20..], "its own relay may try them");

    // Eight are let back, and eight may be claimed.
    assert_eq!(store.unpark("celery", None, 8).await.unwrap(), 8);
    let claim = store.claim(ASK).await.unwrap();
    assert_eq!(ids(&claim), added[..8]);
    assert!(store.claim(ASK).await.unwrap().is_empty());
    // One of them is answered, and all that is due may be claimed; the others are let back as the relay asks.
    assert!(settle(&store, claim, Change::Deliver, 0).await.is_empty());
    let rest = store.claim(ASK).await.unwrap();
    assert_eq!(ids(&rest), added[20..]);
    assert_eq!(store.unpark("celery", None, 100).await.unwrap(), 12);
    assert!(store.parked_on().await.unwrap().is_empty());
    assert_eq!(ids(&store.claim(ASK).await.unwrap()), added[8..20]);
}

/// The relay's liveness goes by the answer to a claim.
#[tokio::test]
async fn while_the_broker_is_down_too_a_claim_fails_without_the_database() {
    let outbox = CeleryOutbox::create().await;
    outbox.add(1).await;
    let settings = CeleryOutboxSettings::default();
    let store = CeleryOutboxStore::new(outbox.postgres().clone(), "public", settings).unwrap();
    let claim = store.claim(ASK).await.unwrap();
    assert!(settle(&store, claim, park(), 0).await.is_empty());
    assert!(store.claim(ASK).await.unwrap().is_empty());
    outbox.postgres().close().await;
    assert!(store.claim(ASK).await.is_err());
}

pub(super) async fn what_another_has_touched_is_not_let_back(outbox: CeleryOutbox) {
    outbox.add(1).await;
    let store = store(&outbox).await;
    let claim = store.claim(ASK).await.unwrap();
    settle(&store, claim, park(), 0).await;
    let backoff = "UPDATE celery_outbox SET updated_at = current_timestamp(6) + INTERVAL '0.001' SECOND, retry_after = current_timestamp(6) + INTERVAL '1' HOUR";
    outbox.execute(backoff).await;
    let before = outbox.rows().await;
    assert_eq!(store.unpark("celery", None, 8).await.unwrap(), 1, "the relay shall look");
    assert_eq!(outbox.rows().await, before);
}

pub(super) async fn what_is_released_is_as_it_was(outbox: CeleryOutbox) {
    let added = outbox.add(2).await;
    let fail = format!(
        "UPDATE celery_outbox SET retries = 3, updated_at = current_timestamp(6), retry_after = current_timestamp(6) WHERE id = {}",
        added[1]
    );
    outbox.execute(&fail).await;
    let store = store(&outbox).await;
    let claim = store.claim(ASK).await.unwrap();
    assert!(settle(&store, claim, Change::Release { after: Duration::ZERO }, 0).await.is_empty());
    let rows = outbox.rows().await;
    assert_eq!((rows[0].retries, rows[0].updated_at, rows[0].retry_after), (0, None, None));
    assert_eq!((rows[1].retries, wait(&rows[1])), (3, 0));
    assert_eq!(outbox.selected(STALE).await, added);
}

pub(super) async fn a_claim_that_was_stale_cannot_be_settled(outbox: CeleryOutbox) {
    outbox.add(4).await;
    let (slow, quick) = (store(&outbox).await, store(&outbox).await);
    let mut lost: Vec<_> = slow.claim(DEAD).await.unwrap().into_iter().collect();
    let claim = quick.claim(DEAD).await.unwrap();
    assert_eq!(claim.len(), 4, "it was stale");
    let before = outbox.rows().await;
    for change in [Change::Deliver, retry(1), Change::Fail { error: "no".to_owned() }, park()] {
        let settlement = lost.remove(0).settle(Verdict::of(change, 1));
        assert_eq!(slow.settle(&[settlement], true).await.unwrap().len(), 1);
    }
    assert_eq!(outbox.rows().await, before);
    assert!(outbox.dead_letters().await.is_empty());
    assert!(settle(&quick, claim, Change::Deliver, 0).await.is_empty());
}

pub(super) async fn a_task_that_somebody_reset_meanwhile_is_not_ours_any_more(outbox: CeleryOutbox) {
    let added = outbox.add(1).await;
    let store = store(&outbox).await;
    let claim = store.claim(ASK).await.unwrap();
    // As its admin does.
    outbox.execute("UPDATE celery_outbox SET retries = 0, retry_after = NULL, updated_at = NULL").await;
    assert_eq!(settle(&store, claim, Change::Deliver, 0).await.len(), 1);
    assert_eq!(outbox.selected(STALE).await, added);
}

pub(super) async fn a_renewed_claim_is_young_and_can_be_settled(outbox: CeleryOutbox) {
    outbox.add(3).await;
    let store = store(&outbox).await;
    let claim = store.claim(ASK).await.unwrap();
    let tickets: Vec<Ticket> = claim.iter().map(Claimed::ticket).collect();
    outbox.execute("DELETE FROM celery_outbox WHERE id = (SELECT min(id) FROM celery_outbox)").await;
    let before = outbox.rows().await;
    for _ in 0..2 {
        assert_eq!(store.renew(&tickets, STALE).await.unwrap(), tickets[1..], "one is gone");
    }
    let after = outbox.rows().await;
    assert!(before.iter().zip(&after).all(|(before, after)| before.updated_at < after.updated_at));
    assert_eq!(settle(&store, claim, Change::Deliver, 0).await, tickets[..1]);
    assert!(outbox.rows().await.is_empty());
}

/// A relay cancels a renewal when what it was for has been sent.
pub(super) async fn a_renewal_that_is_cancelled_does_not_lose_the_claim(outbox: CeleryOutbox) {
    outbox.add(50).await;
    let store = store(&outbox).await;
    while !outbox.rows().await.is_empty() {
        let claim = store.claim(Ask { limit: 1, ..ASK }).await.unwrap();
        let tickets: Vec<Ticket> = claim.iter().map(Claimed::ticket).collect();
        assert!(store.renew(&tickets, STALE).now_or_never().is_none());
        // It goes on without us; each time it has come a little further.
        for _ in 0..tickets[0].id.as_u128() % 25 {
            tokio::task::yield_now().await;
        }
        assert!(settle(&store, claim, Change::Deliver, 0).await.is_empty());
    }
}
