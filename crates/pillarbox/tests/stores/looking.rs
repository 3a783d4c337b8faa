//! How databases find what people look at: through an index, so far and no further, whatever it is narrowed by.

use pillarbox_testkit::conformance::{PostgresOutbox, SqliteOutbox};
use sqlx::{AssertSqlSafe, Row};

/// The settings of a transaction that looks, which are those of one that claims.
const AS_IT_LOOKS: &str = "SET enable_seqscan = off; SET enable_bitmapscan = off; SET jit = off; \
     SET plan_cache_mode = force_custom_plan";

/// Much that was delivered, and some of everything else.
const ROWS: &str = "
INSERT INTO outbox_event (id, aggregate_type, aggregate_id, event_type, idempotency_key, status, delivered_at, next_attempt_at,
                          parked_on, error_message, created_at, updated_at)
SELECT (lpad(to_hex((extract(epoch FROM moment) * 1000)::bigint), 12, '0') || '7' || substr(md5(number::text), 1, 3)
            || '8' || substr(md5(number::text), 4, 15))::uuid,
       'Order', number % 1000, 'order.' || number % 20, number,
       CASE number % 20 WHEN 0 THEN 'failed' WHEN 1 THEN 'pending' WHEN 2 THEN 'pending' ELSE 'delivered' END,
       CASE WHEN number % 20 > 2 THEN moment END,
       CASE WHEN number % 20 IN (1, 2) THEN moment + number % 7 * interval '1 day' END,
       CASE WHEN number % 20 = 2 THEN 'runner' END, '', moment, moment
FROM (SELECT number, clock_timestamp() - interval '3 days' + number * interval '1 second' AS moment
      FROM generate_series(1, 200000) AS number) AS made;
INSERT INTO outbox_attempt (event_id, number, destination, took_ms, error)
SELECT id, 1, 'runner', 1, '' FROM outbox_event WHERE status = 'failed'";

const LIST: &str = include_str!("../../sql/postgres/list.sql");
const TYPES: &str = "text, text, text, text, text, text, timestamptz, timestamptz, bigint, bigint, uuid, uuid, timestamptz, bigint, \
     timestamptz, bigint, text, text, text[], text[], boolean[], boolean";

/// The ways that lists take, with the index of each.
const WAYS: [(&str, &str, &str, &str); 8] = [
    ("by id", "NULL", include_str!("../../sql/postgres/list_by_id.sql"), "outbox_event_pkey"),
    ("due", "'due'", include_str!("../../sql/postgres/list_waiting.sql"), "outbox_event_due"),
    ("scheduled", "'scheduled'", include_str!("../../sql/postgres/list_waiting.sql"), "outbox_event_due"),
    ("pending", "'pending'", include_str!("../../sql/postgres/list_waiting.sql"), "outbox_event_due"),
    ("parked", "'parked'", include_str!("../../sql/postgres/list_parked.sql"), "outbox_event_parked"),
    ("parked on", "NULL", include_str!("../../sql/postgres/list_parked_on.sql"), "outbox_event_parked"),
    ("failed", "'failed'", include_str!("../../sql/postgres/list_failed.sql"), "outbox_event_failed"),
    ("delivered", "'delivered'", include_str!("../../sql/postgres/list_delivered.sql"), "outbox_event_delivered"),
];

/// What lists are narrowed by, from the second value to the eighth, and the four of a destination.
const FILTERS: [(&str, &str, &str); 5] = [
    ("nothing", "NULL, NULL, NULL, NULL, NULL, NULL, NULL", "NULL, '{}', '{}', '{}'"),
    ("type", "'nothing', NULL, NULL, NULL, NULL, NULL, NULL", "NULL, '{}', '{}', '{}'"),
    ("aggregate", "NULL, 'Order', '7', NULL, NULL, now(), NULL", "NULL, '{}', '{}', '{}'"),
    ("search", "NULL, NULL, NULL, NULL, '%nothing%', NULL, now()", "NULL, '{}', '{}', '{}'"),
    ("destination", "NULL, NULL, NULL, NULL, NULL, NULL, NULL", "'mail', '{order.1,%}', '{%,%}', '{t,f}'"),
];

/// So many entries at most.
const BUDGET: u32 = 700;

async fn plan(connection: &mut sqlx::PgConnection, types: &str, statement: &str, values: &str) -> String {
    let prepare = format!("{AS_IT_LOOKS}; DEALLOCATE ALL; PREPARE looking ({types}) AS {statement}");
    sqlx::raw_sql(AssertSqlSafe(prepare)).execute(&mut *connection).await.unwrap();
    let explain = AssertSqlSafe(format!("EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) EXECUTE looking ({values})"));
    let plan = sqlx::raw_sql(explain).fetch_all(&mut *connection).await.unwrap();
    plan.iter().map(|row| row.get::<String, _>(0)).collect::<Vec<_>>().join("\n")
}

/// No part of the plan has met more rows than it should, or has thrown away any that an index gave it.
fn is_bounded(plan: &str, most: u32) -> bool {
    let number = |line: &str, name: &str| {
        let rest = line.split_once(name)?.1;
        rest.split(|c: char| !c.is_ascii_digit()).next()?.parse::<u32>().ok()
    };
    plan.lines().all(|line| {
        let met = number(line, "rows=").or_else(|| number(line, "Rows Removed by Filter: ")).unwrap_or(0);
        met <= most && !line.contains("Seq Scan")
    })
}

#[tokio::test]
async fn lists_go_along_an_index_and_stop_whatever_they_are_narrowed_by() {
    let outbox = PostgresOutbox::create().await;
    outbox.execute(ROWS).await;
    let mut connection = outbox.pool().acquire().await.unwrap();
    for analysed in [false, true] {
        if analysed {
            outbox.execute("ANALYZE outbox_event; ANALYZE outbox_attempt").await;
        }
        for ((name, state, way, index), direction) in WAYS.iter().flat_map(|way| [(way, "DESC"), (way, "ASC")]) {
            let statement = LIST.replace("{way}", way).replace("{schema}", "public").replace("{direction}", direction);
            for (filter, narrowed, destination) in FILTERS {
                let had_failures = filter == "type";
                let values = format!(
                    "{state}, {narrowed}, 51, {BUDGET}, '00000000-0000-0000-0000-000000000000', \
                     'ffffffff-ffff-ffff-ffff-ffffffffffff', 'epoch', 0, '9999-12-31', 0, 'runner', {destination}, {had_failures}"
                );
                let plan = plan(&mut connection, TYPES, &statement, &values).await;
                let about = format!("{name}, {direction}, narrowed by {filter}, analysed: {analysed}:\n{plan}");
                assert!(
                    plan.contains(&format!("using {index} on outbox_event"))
                        || plan.contains(&format!("Backward using {index}")),
                    "{about}"
                );
                assert!(is_bounded(&plan, BUDGET + 64), "{about}");
                let sorts = plan.lines().filter(|line| line.contains("Sort  (") || line.contains("Sort (actual"));
                assert!(
                    sorts.clone().all(|line| line.contains("Incremental Sort") || line.contains("rows=0")),
                    "{about}"
                );
            }
        }
    }
}

#[tokio::test]
async fn look_ups_and_neighbours_go_by_an_index() {
    let outbox = PostgresOutbox::create().await;
    outbox.execute(ROWS).await;
    let id: uuid::Uuid =
        sqlx::query_scalar("SELECT id FROM outbox_event WHERE seq = 100007").fetch_one(outbox.pool()).await.unwrap();
    let mut connection = outbox.pool().acquire().await.unwrap();
    for analysed in [false, true] {
        if analysed {
            outbox.execute("ANALYZE outbox_event").await;
        }
        let sql = |text: &str| text.replace("{schema}", "public");
        let find = sql(include_str!("../../sql/postgres/find.sql"));
        let found = plan(&mut connection, "text[], uuid", &find, &format!("'{{7,Order:7}}', '{id}'")).await;
        assert!(is_bounded(&found, 100), "analysed: {analysed}: {found}");
        let types = sql(include_str!("../../sql/postgres/find_types.sql"));
        let found = plan(&mut connection, "bigint", &types, "500").await;
        assert!(is_bounded(&found, 510) && found.contains("using outbox_event_order"), "{analysed}: {found}");
        let named = sql(include_str!("../../sql/postgres/find_aggregates.sql"));
        let found = plan(&mut connection, "text[], text[]", &named, "'{Order,Order}', '{order 7,7}'").await;
        assert!(is_bounded(&found, 10) && found.contains("using outbox_event_order"), "{analysed}: {found}");
        let newest = sql(include_str!("../../sql/postgres/find_newest.sql"));
        let found = plan(&mut connection, "text, text, bigint", &newest, "'Order', '1', 4").await;
        assert!(is_bounded(&found, 4) && found.contains("Scan Backward using outbox_event_order"), "{found}");
        let recent = sql(include_str!("../../sql/postgres/find_recent.sql"));
        let values = "'{Order,Order}', '{order 7,7}', 500";
        let found = plan(&mut connection, "text[], text[], bigint", &recent, values).await;
        assert!(is_bounded(&found, 1000), "analysed: {analysed}: {found}");
        let beyond = sql(include_str!("../../sql/postgres/find_beyond.sql"));
        let found = plan(&mut connection, "bigint", &beyond, "500").await;
        assert!(is_bounded(&found, 501), "analysed: {analysed}: {found}");
        let neighbours = sql(include_str!("../../sql/postgres/get_neighbours.sql"));
        let near = plan(&mut connection, "uuid, bigint, bigint", &neighbours, &format!("'{id}', 10, 500")).await;
        assert!(is_bounded(&near, 500), "analysed: {analysed}: {near}");
        let views = sql(include_str!("../../sql/postgres/views.sql"));
        let views = plan(&mut connection, "uuid[]", &views, &format!("'{{{id}}}'")).await;
        assert!(is_bounded(&views, 1), "analysed: {analysed}: {views}");
    }
}

/// The same on SQLite, whose planner is asked without statistics.
#[tokio::test]
async fn sqlite_takes_the_same_ways() {
    let outbox = SqliteOutbox::create().await;
    let list = include_str!("../../sql/sqlite/list.sql");
    let ways = [
        (include_str!("../../sql/sqlite/list_by_id.sql"), "sqlite_autoindex_outbox_event_1 (id>? AND id<?)"),
        (include_str!("../../sql/sqlite/list_waiting.sql"), "outbox_event_due (next_attempt_at>?"),
        (include_str!("../../sql/sqlite/list_parked.sql"), "outbox_event_parked ((parked_on,next_attempt_at)>"),
        (include_str!("../../sql/sqlite/list_parked_on.sql"), "outbox_event_parked (parked_on=?"),
        (include_str!("../../sql/sqlite/list_failed.sql"), "outbox_event_failed (updated_at>?"),
        (include_str!("../../sql/sqlite/list_delivered.sql"), "outbox_event_delivered (delivered_at>?"),
    ];
    let explain = async |statement: &str| {
        let explain = AssertSqlSafe(format!("EXPLAIN QUERY PLAN {statement}"));
        let plan = sqlx::query(explain).fetch_all(outbox.pool()).await.unwrap();
        plan.iter().map(|row| row.get::<String, _>("detail")).collect::<Vec<_>>().join("\n")
    };
    for ((way, index), direction) in ways.iter().flat_map(|way| [(way, "DESC"), (way, "ASC")]) {
        let plan = explain(&list.replace("{way}", way).replace("{direction}", direction)).await;
        assert!(plan.contains(&format!("SEARCH outbox_event USING INDEX {index}")), "{plan}");
        // Of routes.
        assert!(plan.matches("TEMP B-TREE FOR ORDER BY").count() <= 1 && !plan.contains("SCAN outbox_event"), "{plan}");
    }
    let plan = explain(include_str!("../../sql/sqlite/get_neighbours.sql")).await;
    let search = "USING INDEX outbox_event_order (aggregate_type=? AND aggregate_id=? AND seq";
    assert_eq!(plan.matches(search).count(), 2, "{plan}");
    for find in [
        include_str!("../../sql/sqlite/find.sql"),
        include_str!("../../sql/sqlite/find_aggregates.sql"),
        include_str!("../../sql/sqlite/find_newest.sql"),
    ] {
        let plan = explain(find).await;
        assert!(!plan.contains("SCAN event") && !plan.contains("SCAN outbox_event"), "{plan}");
        assert!(!plan.contains("FOR ORDER BY"), "{plan}");
    }
}
