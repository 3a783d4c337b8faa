//! What is different on PostgreSQL: nothing is migrated unasked, and there are roles.

use pillarbox_testkit::postgres::{TestDatabase, shared_url};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use uuid::Uuid;

use crate::home::{DISCARD, Home};

#[tokio::test(flavor = "multi_thread")]
async fn people_migrate_and_grant_and_then_it_works_as_on_sqlite() {
    let database = TestDatabase::create().await;
    let mut home = Home::with_config(DISCARD);
    home.set("PILLARBOX_DATABASE_URL", &database.url());
    home.set("PILLARBOX_DATABASE_SCHEMA", "shop");
    for arguments in [&["stats"][..], &["emit", "Order", "1", "order.placed"]] {
        let done = home.run(arguments);
        assert_eq!(done.code, 1);
        assert!(done.err.contains("`pillarbox migrate`"), "{done:?}");
    }
    let done = home.run(&["migrate", "--emit-role", "a \"role\"", "--relay-role", "relay"]).succeeded();
    assert!(done.err.starts_with("applied 0001 outbox to postgres://"), "{done:?}");
    assert!(done.err.ends_with("nothing was granted; run the statements, or add --apply\n"), "{done:?}");
    let statements = done.out.lines().filter(|line| !line.starts_with("--") && !line.starts_with("    "));
    assert!(statements.clone().count() > 5 && statements.clone().all(|line| line.starts_with("GRANT ")), "{done:?}");
    assert!(done.out.contains("ON \"shop\".outbox_event TO \"a \"\"role\"\"\";"), "{done:?}");
    let granted = home.json(&["migrate", "--relay-role", "postgres", "--apply"]);
    assert_eq!((&granted["granted"], &granted["applied"]), (&true.into(), &serde_json::json!([])));

    let id = home.emit("1", &[]);
    assert_eq!(home.json(&["emit", "Order", "1", "order.placed", "--once"])["id"], id.as_str());
    assert_eq!(home.json(&["sweep"]), serde_json::json!({ "processed": 1, "remaining": 0 }));
    assert_eq!(home.state(&id), "delivered");
    assert_eq!(home.json(&["cleanup", "--delivered-after", "0s"])["deleted"], 1);
    database.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_that_only_emits_can_emit_from_the_terminal() {
    let database = TestDatabase::create().await;
    let role = format!("emitter_{}", Uuid::new_v4().simple());
    let mut server = PgConnection::connect(&shared_url()).await.unwrap();
    server.execute(AssertSqlSafe(format!("CREATE ROLE {role} LOGIN"))).await.unwrap();
    let mut home = Home::new();
    home.set("PILLARBOX_DATABASE_URL", &database.url());
    home.run(&["migrate", "--emit-role", &role, "--apply"]).succeeded();

    home.set("PILLARBOX_DATABASE_URL", &database.url().replace("postgres@", &format!("{role}@")));
    let id = home.emit("1", &[]);
    let again = home.json(&["emit", "Order", "1", "order.placed", "--once"]);
    assert_eq!((&again["id"], &again["is_new"]), (&id.into(), &false.into()));
    assert_eq!(home.json(&["emit", "Order", "2", "order.placed", "--once"])["is_new"], true);
    let done = home.run(&["events", "list"]);
    assert_eq!(done.code, 1);
    assert!(done.err.contains("permission denied"), "{done:?}");

    database.close().await;
    server.execute(AssertSqlSafe(format!("DROP ROLE {role}"))).await.unwrap();
}

#[test]
fn a_database_that_is_not_there_is_told_of_without_the_password() {
    let (server, _) = shared_url().rsplit_once('/').map(|(server, name)| (server.to_owned(), name.to_owned())).unwrap();
    let mut home = Home::new();
    home.set("PILLARBOX_DATABASE_URL", &format!("{}/missing", server.replace("postgres@", "postgres:hunter2@")));
    home.set("RUST_LOG", "trace");
    let done = home.run(&["stats"]);
    assert_eq!(done.code, 1);
    assert!(
        done.err.contains("connection to PostgreSQL at 127.0.0.1:")
            && done.err.contains(" failed: ")
            && done.err.contains("\"missing\""),
        "{done:?}"
    );
    assert!(!done.err.contains("hunter2"), "{done:?}");
}
