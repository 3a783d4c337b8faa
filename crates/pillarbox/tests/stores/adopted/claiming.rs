//! Claim: the same rows as its own relay selects, once.

use std::collections::HashSet;

use pillarbox::celery::Recorded;
use pillarbox_testkit::celery_outbox::among;
use pillarbox_testkit::wait_until;

use super::*;

pub(super) async fn a_claim_takes_the_oldest_first_and_its_own_relay_leaves_them_alone(outbox: CeleryOutbox) {
    let added = outbox.add(5).await;
    let store = store(&outbox).await;
    let claim = store.claim(Ask { limit: 3, ..ASK }).await.unwrap();
    assert_eq!(ids(&claim), added[..3]);
    assert_eq!(outbox.selected(STALE).await, added[3..]);
    let rest = store.claim(ASK).await.unwrap();
    assert_eq!(ids(&rest), added[3..]);
    assert!(store.claim(ASK).await.unwrap().is_empty());
    assert!(outbox.rows().await.iter().all(|row| row.updated_at.is_some() && row.retry_after.is_none()));
}

pub(super) async fn an_event_is_the_message_of_its_row(outbox: CeleryOutbox) {
    let id = outbox.add(1).await[0];
    outbox
        .execute(
            "UPDATE celery_outbox SET retries = 2, updated_at = current_timestamp(6), retry_after = current_timestamp(6), kwargs = '{\"n\": 1.50}', \
             options = '{\"queue\": \"orders\"}', sentry_trace_id = 'a-b-1'",
        )
        .await;
    let claim = store(&outbox).await.claim(ASK).await.unwrap();
    let claimed = claim.iter().next().unwrap();
    let event = claimed.event();
    assert_eq!((event.seq, event.attempts, event.event_type.as_str()), (id, 2, "orders.process"));
    assert_eq!((event.aggregate_type.as_str(), event.aggregate_id.as_str()), ("celery", "task-1"));
    let message = Recorded::read(&event.payload).unwrap().unwrap();
    let body = std::str::from_utf8(message.body.as_bytes()).unwrap();
    assert!(body.starts_with(r#"[[1], {"n": 1.50}, {"callbacks": null"#), "{body}");
    assert_eq!(message.queue.as_deref(), Some("orders"));
    assert_eq!(message.headers.text("sentry-trace").as_deref(), Some("a-b-1"));
}

pub(super) async fn all_three_kinds_of_due_rows_are_claimed_and_no_others(outbox: CeleryOutbox) {
    let added = outbox.add(7).await;
    for (row, set) in [
        (
            0,
            "updated_at = current_timestamp(6) - INTERVAL '1' HOUR, retry_after = current_timestamp(6) - INTERVAL '1' SECOND, retries = 1",
        ),
        (1, "updated_at = current_timestamp(6) - INTERVAL '6' MINUTE"),
        (3, "updated_at = current_timestamp(6), retry_after = current_timestamp(6) + INTERVAL '1' MINUTE, retries = 1"),
        (4, "updated_at = current_timestamp(6) - INTERVAL '4' MINUTE"),
        (5, "schema_version = 2"),
        (6, "schema_version = 0, updated_at = current_timestamp(6) - INTERVAL '1' HOUR"),
    ] {
        outbox.execute(&format!("UPDATE celery_outbox SET {set} WHERE id = {}", added[row])).await;
    }
    assert_eq!(outbox.selected(STALE).await, added[..3]);
    let store = store(&outbox).await;
    assert_eq!(store.remaining().await.unwrap(), 3);
    let claim = store.claim(ASK).await.unwrap();
    assert_eq!(ids(&claim), added[..3]);
}

/// Its own claim leaves `retry_after` as it is, so that a second relay takes a retried task that is on its way.
pub(super) async fn a_retried_task_on_its_way_is_not_selected_again(outbox: CeleryOutbox) {
    outbox.add(1).await;
    outbox.execute("UPDATE celery_outbox SET retries = 1, updated_at = current_timestamp(6), retry_after = current_timestamp(6)").await;
    let store = store(&outbox).await;
    let claim = store.claim(ASK).await.unwrap();
    assert_eq!(claim.len(), 1);
    assert!(outbox.selected(STALE).await.is_empty());
    assert!(store.claim(ASK).await.unwrap().is_empty());
}

/// That is to be told from a task that waits: its claim is later than the moment it was due.
pub(super) async fn a_retried_task_that_its_own_relay_has_on_its_way_is_left_to_it_until_that_is_stale(
    outbox: CeleryOutbox,
) {
    let added = outbox.add(2).await;
    for (condition, minutes) in [("id % 2 = 1", 6), ("id % 2 = 0", 0)] {
        let claimed = format!(
            "UPDATE celery_outbox SET retries = 1, retry_after = current_timestamp(6) - INTERVAL '10' MINUTE, \
             updated_at = current_timestamp(6) - INTERVAL '{minutes}' MINUTE WHERE {condition}"
        );
        outbox.execute(&claimed).await;
    }
    let stale: Vec<i64> = added.iter().copied().filter(|id| id % 2 == 1).collect();
    assert_eq!(outbox.selected(STALE).await, added, "it selects both");
    let store = store(&outbox).await;
    assert_eq!(store.remaining().await.unwrap(), 1);
    let claim = store.claim(ASK).await.unwrap();
    assert_eq!(ids(&claim), stale);
    assert!(store.next_due().await.unwrap().unwrap() > Duration::from_secs(60), "only the stale timeout of ours");
}

/// Its own relay takes a batch, sends, and deletes; so do we. New tasks and retried ones, and each is taken once.
pub(super) async fn beside_its_own_relay_no_task_is_taken_twice(outbox: CeleryOutbox) {
    let added = outbox.add(600).await;
    let fail = "UPDATE celery_outbox SET retries = 1, updated_at = current_timestamp(6) - INTERVAL '2' MINUTE, \
                retry_after = current_timestamp(6) - INTERVAL '1' MINUTE WHERE id % 3 = 0";
    outbox.execute(fail).await;
    let ours = async {
        let store = store(&outbox).await;
        let mut taken = Vec::new();
        loop {
            let claim = store.claim(Ask { limit: 20, ..ASK }).await.unwrap();
            if claim.is_empty() {
                return taken;
            }
            taken.extend(ids(&claim));
            tokio::task::yield_now().await;
            assert!(settle(&store, claim, Change::Deliver, 0).await.is_empty(), "nobody else has taken one");
        }
    };
    let theirs = async {
        let mut taken = Vec::new();
        loop {
            let batch = outbox.select_as_its_relay(STALE, 20).await;
            if batch.is_empty() {
                return taken;
            }
            tokio::task::yield_now().await;
            outbox.execute(&format!("DELETE FROM celery_outbox WHERE {}", among(&batch))).await;
            taken.extend(batch);
        }
    };
    let (ours, theirs) = tokio::join!(ours, theirs);
    assert!(!ours.is_empty() && !theirs.is_empty());
    let mut taken = [ours, theirs].concat();
    taken.sort_unstable();
    assert_eq!(taken, added);
}

pub(super) async fn a_claim_is_bounded_in_bytes_but_takes_one(outbox: CeleryOutbox) {
    let added = outbox.add(4).await;
    // Compressed it is small, and it is not what is asked for.
    outbox.execute(&format!("UPDATE celery_outbox SET args = '[\"{}\"]'", "x".repeat(100_000))).await;
    let store = store(&outbox).await;
    let claim = store.claim(Ask { bytes: 10, ..ASK }).await.unwrap();
    assert_eq!(ids(&claim), added[..1]);
    let claim = store.claim(Ask { bytes: 150_000, ..ASK }).await.unwrap();
    assert_eq!(ids(&claim), added[1..3]);
}

pub(super) async fn claimers_never_share_a_row(outbox: CeleryOutbox) {
    let added = outbox.add(1000).await;
    let claimers = (0..4).map(|_| async {
        let store = store(&outbox).await;
        let mut claims = Vec::new();
        loop {
            match store.claim(Ask { limit: 20, ..ASK }).await.unwrap() {
                claim if claim.is_empty() => return claims,
                claim => claims.push(claim),
            }
        }
    });
    let claims: Vec<Claim> = futures_util::future::join_all(claimers).await.into_iter().flatten().collect();
    let claimed: Vec<i64> = claims.iter().flat_map(ids).collect();
    let different: HashSet<i64> = claimed.iter().copied().collect();
    assert_eq!((claimed.len(), different.len()), (added.len(), added.len()));
}

pub(super) async fn what_its_own_relay_has_locked_is_passed_over(outbox: CeleryOutbox) {
    let added = outbox.add(3).await;
    let _locked = outbox.lock("SELECT id FROM celery_outbox ORDER BY id LIMIT 2 FOR UPDATE").await;
    let claim = store(&outbox).await.claim(ASK).await.unwrap();
    assert_eq!(ids(&claim), added[2..]);
}

pub(super) async fn a_claim_that_is_dropped_is_untried_again(outbox: CeleryOutbox) {
    let added = outbox.add(2).await;
    outbox
        .execute(&format!(
            "UPDATE celery_outbox SET retries = 1, updated_at = current_timestamp(6), retry_after = current_timestamp(6) WHERE id = {}",
            added[1]
        ))
        .await;
    let store = store(&outbox).await;
    drop(store.claim(ASK).await.unwrap());
    wait_until("both are due again", Duration::from_secs(10), async || outbox.selected(STALE).await == added).await;
    let rows = outbox.rows().await;
    assert_eq!((rows[0].updated_at, rows[0].retry_after), (None, None));
    assert_eq!((rows[1].retries, wait(&rows[1])), (1, 0));
}

pub(super) async fn a_row_that_cannot_be_a_message_says_so_and_stops_nobody(outbox: CeleryOutbox) {
    let added = outbox.add(3).await;
    outbox.execute(&format!("UPDATE celery_outbox SET args = '{{\"a\": 1}}' WHERE id = {}", added[1])).await;
    let claim = store(&outbox).await.claim(ASK).await.unwrap();
    let readable: Vec<_> = claim.iter().map(|claimed| Recorded::read(&claimed.event().payload).unwrap()).collect();
    assert!(readable[0].is_ok() && readable[2].is_ok());
    let why = readable[1].as_ref().unwrap_err().to_string();
    assert_eq!(why, "the row cannot be sent as a Celery task: args is an object, it must be a list");
}

const WAITING: &str = "UPDATE celery_outbox SET updated_at = current_timestamp(6), \
                       retry_after = CASE WHEN id % 2 = 0 THEN current_timestamp(6) + INTERVAL '1' HOUR END WHERE id > 100";

/// Much waits for its time and much is on its way, and a claim does not look at that, whether the statistics are those of
/// an empty table, of one in which everything was untried, or right.
#[tokio::test]
async fn a_claim_reads_what_is_due_and_not_what_waits() {
    for statistics in [0, 1, 2] {
        let outbox = CeleryOutbox::create().await;
        outbox.execute("ALTER TABLE celery_outbox SET (autovacuum_enabled = off)").await;
        for (number, step) in ["SELECT", "", WAITING].into_iter().enumerate() {
            match step {
                "" => drop(outbox.add(20_000).await),
                step => outbox.execute(step).await,
            }
            if number == statistics {
                outbox.execute("ANALYZE celery_outbox").await;
            }
        }
        let plan = plan_of_a_claim(&outbox).await;
        for index in ["celery_outbox_retry_idx", "celery_outbox_stale_idx"] {
            assert!(plan.contains(&format!("Index Scan using {index}")), "{plan}");
        }
        assert!(!plan.contains("Seq Scan") && !plan.contains("Rows Removed by"), "{plan}");
    }
}

async fn plan_of_a_claim(outbox: &CeleryOutbox) -> String {
    let claim = include_str!("../../../sql/celery_outbox/postgres/claim.sql");
    let claim = ["500", "1000000", "300.0", "5"]
        .into_iter()
        .zip(1..)
        .fold(claim.replace("{schema}", "public"), |sql, (value, number)| sql.replace(&format!("${number}"), value));
    let mut tx = outbox.postgres().begin().await.unwrap();
    let settings = "SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_sort = off";
    sqlx::raw_sql(settings).execute(&mut *tx).await.unwrap();
    let explain = sqlx::AssertSqlSafe(format!("EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) {claim}"));
    let plan: Vec<String> = sqlx::query_scalar(explain).fetch_all(&mut *tx).await.unwrap();
    plan.join("\n")
}
