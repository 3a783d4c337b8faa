//! How PostgreSQL finds what is due: through the index, up to now and no further.

use pillarbox_testkit::conformance::PostgresOutbox;
use sqlx::{AssertSqlSafe, Row};

const CLAIM: &str = include_str!("../../sql/postgres/claim.sql");

/// The settings of a transaction that claims.
const AS_IT_CLAIMS: &str = "SET enable_seqscan = off; SET enable_bitmapscan = off; SET jit = off";

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
    let token = "'00000000-0000-4000-8000-000000000000'";
    let values = ["500", "1000000", "300.0", token, "2", "5", "timestamptz 'epoch'", "0"];
    let claim = (1..)
        .zip(values)
        .fold(CLAIM.replace("{schema}", "public"), |sql, (number, value)| sql.replace(&format!("${number}"), value));
    let explain = AssertSqlSafe(format!("EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) {claim}"));
    let mut connection = outbox.pool().acquire().await.unwrap();
    sqlx::raw_sql(AS_IT_CLAIMS).execute(&mut *connection).await.unwrap();
    let plan: Vec<String> = sqlx::query_scalar(explain).fetch_all(&mut *connection).await.unwrap();
    let text = plan.join("\n");
    let scan = plan.iter().position(|line| line.contains("using outbox_event_due")).expect(&text);
    let rest = &plan[scan..plan.len().min(scan + 3)];
    assert!(rest.iter().any(|line| line.contains("next_attempt_at <= ") && line.contains("Index Cond")), "{text}");
    assert!(rest.iter().any(|line| line.contains("ROW(next_attempt_at, seq) > ")), "{text}");
}

/// A plan that was made when the table was empty is kept, and must be right for ever.
#[tokio::test]
async fn what_is_held_is_found_through_the_index_whatever_the_table_was_when_that_was_planned() {
    for hold in [include_str!("../../sql/postgres/hold.sql"), include_str!("../../sql/postgres/hold_light.sql")] {
        is_found_through_the_index(&hold.replace("{schema}", "public")).await;
    }
}

async fn is_found_through_the_index(hold: &str) {
    let outbox = PostgresOutbox::create().await;
    let mut connection = outbox.pool().acquire().await.unwrap();
    let prepare = format!(
        "{AS_IT_CLAIMS}; SET plan_cache_mode = force_generic_plan; PREPARE hold (bigint, bigint, timestamptz, bigint) AS {hold}; \
         EXECUTE hold (500, 1000000, 'epoch', 0)"
    );
    sqlx::raw_sql(AssertSqlSafe(prepare)).execute(&mut *connection).await.unwrap();
    outbox.execute(ROWS.strip_suffix("ANALYZE outbox_event").unwrap()).await;
    let explain = "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) EXECUTE hold (500, 1000000, 'epoch', 0)";
    let plan: Vec<_> = sqlx::raw_sql(explain).fetch_all(&mut *connection).await.unwrap();
    let text = plan.iter().map(|row| row.get::<String, _>(0)).collect::<Vec<_>>().join("\n");
    assert!(text.contains("using outbox_event_due") && !text.contains("Seq Scan on outbox_event"), "{text}");
    assert!(text.contains("ROW(next_attempt_at, seq) > "), "{text}");
}

/// What must be sent first is looked up in the index that is made for it.
#[tokio::test]
async fn what_must_be_sent_first_is_found_through_an_index() {
    let outbox = PostgresOutbox::create().await;
    let mut connection = outbox.pool().acquire().await.unwrap();
    let walls = include_str!("../../sql/postgres/walls.sql").replace("{schema}", "public");
    let arguments = "array['Order', 'Order'], array['1', '2'], array[100000, 100000], array[7, 8]::bigint[], true";
    for mode in ["force_generic_plan", "force_custom_plan"] {
        let prepare = format!(
            "{AS_IT_CLAIMS}; DEALLOCATE ALL; SET plan_cache_mode = {mode}; \
             PREPARE walls (text[], text[], bigint[], bigint[], boolean) AS {walls}; EXECUTE walls ({arguments})"
        );
        sqlx::raw_sql(AssertSqlSafe(prepare)).execute(&mut *connection).await.unwrap();
        outbox.execute("TRUNCATE outbox_event").await;
        outbox.execute(ROWS.strip_suffix("ANALYZE outbox_event").unwrap()).await;
        let explain = format!("EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) EXECUTE walls ({arguments})");
        let explain = AssertSqlSafe(explain);
        let plan: Vec<_> = sqlx::raw_sql(explain).fetch_all(&mut *connection).await.unwrap();
        let text = plan.iter().map(|row| row.get::<String, _>(0)).collect::<Vec<_>>().join("\n");
        assert_eq!(text.matches("using outbox_event_order").count(), 1, "{mode}: {text}");
        assert!(!text.contains("Seq Scan on outbox_event"), "{mode}: {text}");
    }
}

/// Statements of relays, with the types of their parameters and values for them; IDS are some that are pending.
const STATEMENTS: [(&str, &str, &str, &str); 8] = [
    (
        "claim",
        CLAIM,
        "bigint, bigint, float8, uuid, int, int, timestamptz, bigint",
        "500, 1000000, 300, '00000000-0000-4000-8000-000000000000', 2, 5, 'epoch', 0",
    ),
    (
        "hold",
        include_str!("../../sql/postgres/hold.sql"),
        "bigint, bigint, timestamptz, bigint",
        "500, 1000000, 'epoch', 0",
    ),
    (
        "hold, light",
        include_str!("../../sql/postgres/hold_light.sql"),
        "bigint, bigint, timestamptz, bigint",
        "500, 10000, 'epoch', 0",
    ),
    (
        "settle",
        include_str!("../../sql/postgres/settle.sql"),
        "uuid[], uuid[], text[], int[], float8[], text[], text[]",
        "IDS, '{NULL,NULL}', '{deliver,deliver}', '{0,0}', '{0,0}', '{NULL,NULL}', '{\"\",\"\"}'",
    ),
    ("settle, deleting", include_str!("../../sql/postgres/settle_delete.sql"), "uuid[], uuid[]", "IDS, '{NULL,NULL}'"),
    ("renew", include_str!("../../sql/postgres/renew.sql"), "uuid[], uuid[], float8", "IDS, IDS, 300"),
    ("hold, then lease", include_str!("../../sql/postgres/hold_lease.sql"), "uuid[], uuid, float8", "IDS, ID, 300"),
    ("sweep", include_str!("../../sql/postgres/sweep.sql"), "int, text", "5, ''"),
];

/// ANALYZE has found nothing that is pending, and then there is a backlog: whoever believes it takes any index for good.
#[tokio::test]
async fn a_backlog_that_the_statistics_do_not_know_of_is_not_read_as_a_whole() {
    let outbox = PostgresOutbox::create().await;
    outbox
        .execute(
            "INSERT INTO outbox_event (aggregate_type, aggregate_id, event_type, idempotency_key, status, delivered_at, next_attempt_at)
             SELECT 'Order', number, 'order.placed', number, 'delivered', clock_timestamp(), NULL
             FROM generate_series(1, 20000) AS number",
        )
        .await;
    outbox.execute("ANALYZE outbox_event").await;
    outbox
        .execute(
            "INSERT INTO outbox_event (aggregate_type, aggregate_id, event_type, idempotency_key)
             SELECT 'Order', number, 'order.placed', number FROM generate_series(20001, 40000) AS number",
        )
        .await;
    let two = "SELECT id FROM outbox_event WHERE status = 'pending' ORDER BY seq LIMIT 2";
    let ids: Vec<uuid::Uuid> = sqlx::query_scalar(two).fetch_all(outbox.pool()).await.unwrap();
    let list = format!("'{{{},{}}}'", ids[0], ids[1]);
    let mut connection = outbox.pool().acquire().await.unwrap();
    for mode in ["force_generic_plan", "force_custom_plan"] {
        for (name, statement, types, values) in STATEMENTS {
            let (statement, values) = (
                statement.replace("{schema}", "public"),
                values.replace("IDS", &list).replace("ID", &format!("'{}'", ids[0])),
            );
            let prepare = format!(
                "{AS_IT_CLAIMS}; DEALLOCATE ALL; SET plan_cache_mode = {mode}; PREPARE statement ({types}) AS {statement}; BEGIN"
            );
            sqlx::raw_sql(AssertSqlSafe(prepare)).execute(&mut *connection).await.unwrap();
            let explain =
                AssertSqlSafe(format!("EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) EXECUTE statement ({values})"));
            let plan: Vec<_> = sqlx::raw_sql(explain).fetch_all(&mut *connection).await.unwrap();
            sqlx::raw_sql("ROLLBACK").execute(&mut *connection).await.unwrap();
            let text = plan.iter().map(|row| row.get::<String, _>(0)).collect::<Vec<_>>().join("\n");
            assert!(
                !text.contains("rows=20000") && !text.contains("using outbox_event_order"),
                "{name}, {mode}: {text}"
            );
        }
    }
}

/// A batch of cleanup reads a batch and one more, whatever there is, and whatever the planner remembers of the table.
#[tokio::test]
async fn a_cleanup_reads_its_batch_and_no_more() {
    let outbox = PostgresOutbox::create().await;
    let mut connection = outbox.pool().acquire().await.unwrap();
    let cleanup = include_str!("../../sql/postgres/cleanup.sql").replace("{schema}", "public");
    let lock = include_str!("../../sql/postgres/cleanup_lock.sql").replace("{schema}", "public");
    sqlx::raw_sql(AssertSqlSafe(format!(
        "PREPARE cleanup (float8, float8, bigint, timestamptz, timestamptz) AS {cleanup}"
    )))
    .execute(&mut *connection)
    .await
    .unwrap();
    outbox.execute("ALTER TABLE outbox_event SET (autovacuum_enabled = false)").await;
    outbox.execute("VACUUM ANALYZE outbox_event").await;
    outbox.execute(ROWS.strip_suffix("ANALYZE outbox_event").unwrap()).await;
    outbox.execute("UPDATE outbox_event SET status = 'failed', next_attempt_at = NULL WHERE seq % 100 = 1").await;
    for remembered in ["", "ANALYZE outbox_event"] {
        outbox.execute(remembered).await;
        let explain = format!(
            "BEGIN; {lock}; EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) EXECUTE cleanup (0, 0, 100, '-infinity', '-infinity'); COMMIT"
        );
        let plan: Vec<_> = sqlx::raw_sql(AssertSqlSafe(explain)).fetch_all(&mut *connection).await.unwrap();
        let lines: Vec<String> = plan.iter().filter_map(|row| row.try_get(0).ok()).collect();
        let text = lines.join("\n");
        assert!(text.contains("using outbox_event_delivered") && text.contains("using outbox_event_failed"), "{text}");
        // Since version 18, numbers of rows have two decimals.
        let met =
            lines.iter().filter_map(|line| line.split_once("rows=")?.1.split([' ', '.']).next()?.parse::<u32>().ok());
        assert!(met.max().is_some_and(|most| most <= 102) && !text.contains("Seq Scan"), "{text}");
    }
}
