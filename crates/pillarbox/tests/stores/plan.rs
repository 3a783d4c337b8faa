//! How PostgreSQL finds what is due: through the index, up to now and no further.

use pillarbox_testkit::conformance::PostgresOutbox;
use sqlx::AssertSqlSafe;

const CLAIM: &str = include_str!("../../sql/postgres/claim.sql");

/// A table like that of an outbox at work: much that was delivered, much that waits for its time, little that is due.
const ROWS: &str = "
INSERT INTO outbox_event (aggregate_type, aggregate_id, event_type, idempotency_key, status, delivered_at, next_attempt_at)
SELECT 'Order', number, 'order.placed', number, CASE WHEN number % 2 = 0 THEN 'delivered' ELSE 'pending' END,
       CASE WHEN number % 2 = 0 THEN clock_timestamp() END,
       CASE WHEN number % 2 = 1 THEN clock_timestamp() + number * interval '1 second' - interval '100 seconds' END
FROM generate_series(1, 20000) AS number;
ANALYZE outbox_event";

#[tokio::test]
async fn a_claim_reads_what_is_due_and_not_what_waits() {
    let outbox = PostgresOutbox::create().await;
    outbox.execute(ROWS).await;
    let values = ["500", "1000000", "300.0", "'00000000-0000-4000-8000-000000000000'", "2", "5"];
    let claim = (1..)
        .zip(values)
        .fold(CLAIM.replace("{schema}", "public"), |sql, (number, value)| sql.replace(&format!("${number}"), value));
    let explain = AssertSqlSafe(format!("EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) {claim}"));
    let plan: Vec<String> = sqlx::query_scalar(explain).fetch_all(outbox.pool()).await.unwrap();
    let text = plan.join("\n");
    let scan = plan.iter().position(|line| line.contains("using outbox_event_due")).expect(&text);
    let rest = &plan[scan..plan.len().min(scan + 3)];
    assert!(rest.iter().any(|line| line.contains("Index Cond: (next_attempt_at <= ")), "{text}");
}
