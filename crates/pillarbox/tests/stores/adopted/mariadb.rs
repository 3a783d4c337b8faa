//! What is different on MariaDB: the indexes, the time zone and the character set.

use pillarbox_testkit::wait_until;
use sqlx::Executor;

use super::*;

/// The text of the claim, with values.
fn claim_due(search: bool) -> String {
    let text = include_str!("../../../sql/celery_outbox/mysql/claim_due.sql");
    let text: String = text.lines().filter(|line| !line.starts_with("--")).map(|line| format!("{line}\n")).collect();
    let values = [("?1", "100"), ("?2", "300.0"), ("?3", "5"), ("?4", if search { "1" } else { "0" })];
    values.iter().fold(text, |text, (place, value)| text.replace(place, value))
}

/// A sort would lock every row that it reads.
#[tokio::test]
async fn a_claim_sorts_nothing_and_locks_no_other_tasks() {
    let outbox = CeleryOutbox::create_on(On::Mysql).await;
    outbox.add(2000).await;
    // Half are untried, a quarter is stale, an eighth is to be retried, and an eighth waits.
    let late = "UPDATE celery_outbox SET updated_at = current_timestamp(6) - INTERVAL '1' HOUR, retry_after = CASE id % 8 \
                WHEN 4 THEN current_timestamp(6) - INTERVAL '1' MINUTE \
                WHEN 0 THEN current_timestamp(6) + INTERVAL '1' MINUTE END WHERE id % 2 = 0";
    outbox.execute(late).await;
    let plan = format!("EXPLAIN FORMAT=JSON {}", claim_due(true));
    let plan: String = sqlx::query_scalar(sqlx::AssertSqlSafe(plan)).fetch_one(outbox.mysql()).await.unwrap();
    assert!(!plan.contains("filesort"), "{plan}");
    for index in ["celery_outbox_retry_idx", "celery_outbox_stale_idx"] {
        assert!(plan.contains(index), "{plan}");
    }

    let mut connection = outbox.mysql().acquire().await.unwrap();
    connection.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED").await.unwrap();
    connection.execute("BEGIN").await.unwrap();
    let locked = connection.fetch_all(sqlx::AssertSqlSafe(claim_due(true))).await.unwrap();
    assert_eq!(locked.len(), 300, "a hundred of each kind");
    let free = "SELECT count(*) FROM (SELECT id FROM celery_outbox FOR UPDATE SKIP LOCKED) AS free";
    assert_eq!(outbox.number(free).await, 1700);
    connection.execute("ROLLBACK").await.unwrap();
}

/// Its index for stale claims also has tasks that wait for a retry.
#[tokio::test]
async fn stale_claims_are_searched_among_many_waiting_tasks_but_not_by_every_claim() {
    let outbox = CeleryOutbox::create_on(On::Mysql).await;
    let added = outbox.add(1200).await;
    let wait = "UPDATE celery_outbox SET retries = 1, updated_at = current_timestamp(6) - INTERVAL '1' HOUR, \
                retry_after = current_timestamp(6) + INTERVAL '1' HOUR";
    outbox.execute(wait).await;
    outbox.execute(&format!("UPDATE celery_outbox SET retry_after = NULL WHERE id = {}", added[700])).await;
    let mut connection = outbox.mysql().acquire().await.unwrap();
    assert!(connection.fetch_all(sqlx::AssertSqlSafe(claim_due(false))).await.unwrap().is_empty());
    let store = store(&outbox).await;
    wait_until("the stale claim is found", Duration::from_secs(20), async || {
        ids(&store.claim(ASK).await.unwrap()) == [added[700]]
    })
    .await;
}

/// Its own relay writes local times; Django's sessions have the server's time zone unless a project sets another one.
#[tokio::test]
async fn the_time_zone_is_that_of_the_server_or_of_the_url() {
    let outbox = CeleryOutbox::create_on(On::Mysql).await;
    outbox.add(2).await;
    let settings = CeleryOutboxSettings::default();
    let of_server = outbox.store(settings).await.claim(Ask { limit: 1, ..ASK }).await.unwrap();
    let url = format!("{}?timezone=-11:00", outbox.url());
    let named = CeleryOutboxStore::connect_mysql(&url, settings).await.unwrap();
    let of_url = named.claim(ASK).await.unwrap();
    assert_eq!((of_server.len(), of_url.len()), (1, 1));
    let offset =
        "SELECT timestampdiff(HOUR, utc_timestamp(6), updated_at) FROM celery_outbox ORDER BY id LIMIT 1 OFFSET";
    let servers = outbox.number("SELECT timestampdiff(MINUTE, utc_timestamp(6), current_timestamp(6))").await;
    assert_ne!(servers, 0, "the test's server is not in UTC");
    assert_eq!(outbox.number(&format!("{offset} 0")).await, servers / 60);
    assert_eq!(outbox.number(&format!("{offset} 1")).await, -11);
    // What a task's message says of time is UTC.
    let event = of_server.iter().next().unwrap().event();
    assert!((chrono::Utc::now() - event.created_at).num_seconds().abs() < 60, "{}", event.created_at);
}

#[tokio::test]
async fn a_latin1_table_gets_the_dead_letter_without_the_letters_that_it_lacks() {
    let outbox = CeleryOutbox::create_empty(On::Mysql).await;
    outbox.execute(&format!("ALTER DATABASE CHARACTER SET latin1; {}", On::Mysql.tables())).await;
    outbox.add(1).await;
    let store = store(&outbox).await;
    let claim = store.claim(ASK).await.unwrap();
    let error = "größe 😀".to_owned();
    assert!(settle(&store, claim, Change::Fail { error }, 1).await.is_empty());
    assert_eq!(outbox.dead_letters().await[0].2.as_deref(), Some("größe ?"));
}
