//! `pillarbox doctor`: nothing is bad that is not, and what is bad is found, with what to do about it.

use pillarbox_testkit::mysql::TestMysql;
use pillarbox_testkit::postgres::{TestDatabase, shared_url};
use pillarbox_testkit::wait_until;
use serde_json::Value;
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use uuid::Uuid;

use crate::delivering::PATIENCE;
use crate::home::{DISCARD, Done, Home};
use crate::listening::start;

/// (what was looked at, how bad it is, what was found, what to do)
type Finding = (String, String, String, String);

fn findings(done: &Done) -> Vec<Finding> {
    let all: Vec<Value> = serde_json::from_str(&done.out).unwrap();
    let text = |finding: &Value, key: &str| finding[key].as_str().unwrap().to_owned();
    let read = |finding: &Value| {
        (text(finding, "about"), text(finding, "level"), text(finding, "found"), text(finding, "fix"))
    };
    all.iter().map(read).collect()
}

fn the<'a>(findings: &'a [Finding], about: &str) -> &'a Finding {
    findings.iter().find(|finding| finding.0 == about).unwrap_or_else(|| panic!("{about} in {findings:?}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sound_outbox_is_found_sound() {
    let database = TestDatabase::create().await;
    let mut on_postgres = Home::with_config(DISCARD);
    on_postgres.set("PILLARBOX_DATABASE_URL", &database.url());
    let mariadb = TestMysql::create().await;
    let mut on_mariadb = Home::with_config(DISCARD);
    on_mariadb.set("PILLARBOX_DATABASE_URL", &mariadb.url());
    for home in [on_postgres, on_mariadb, Home::with_config(DISCARD)] {
        home.run(&["migrate"]).succeeded();
        let done = home.run(&["doctor", "--json"]).succeeded();
        let all = findings(&done);
        assert!(all.len() >= 4 && all.iter().all(|finding| finding.1 != "bad"), "{all:?}");
        assert_eq!(the(&all, "schema").1, "good");
        assert_eq!(the(&all, "destination").2, "nowhere is reachable");
        // Nothing delivers, and nothing waits: a word, no more.
        assert_eq!((the(&all, "relays").1.as_str(), the(&all, "relays").3.is_empty()), ("notice", false));
    }
    database.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_bad_is_found_with_what_to_do_about_it() {
    let database = TestDatabase::create().await;
    let role = format!("doctored_{}", Uuid::new_v4().simple());
    let mut home = Home::with_config(
        "[destinations.gone]\nkind = \"http\"\nurl = \"http://127.0.0.1:9/hook?password=secret\"\nallow_private = true\n\
         [destinations.rabbit]\nkind = \"celery\"\nbroker = \"amqp://user:secret@127.0.0.1:9//\"\n\
         [[routes]]\nto = [\"gone\"]\n[admin]\nmask = [\"$.card\"]\n",
    );
    home.set("PILLARBOX_DATABASE_URL", &database.url());
    let without_tables = home.run(&["doctor", "--json"]);
    assert_eq!(without_tables.code, 1);
    let all = findings(&without_tables);
    assert!(the(&all, "schema").3.contains("`pillarbox migrate`"), "{all:?}");

    home.run(&["migrate"]).succeeded();
    home.emit("1", &[]);
    let mut server = PgConnection::connect(&database.url()).await.unwrap();
    server
        .execute(AssertSqlSafe(format!(
            "DROP INDEX outbox_event_due; ALTER TABLE outbox_event SET (autovacuum_enabled = false);
             UPDATE outbox_event SET next_attempt_at = next_attempt_at - interval '1 hour';
             CREATE ROLE {role} LOGIN; GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}"
        )))
        .await
        .unwrap();
    home.set("PILLARBOX_DATABASE_URL", &database.url().replace("postgres@", &format!("{role}@")));
    let done = home.run(&["doctor", "--json"]);
    assert_eq!(done.code, 1, "{done:?}");
    let all = findings(&done);
    for (about, found, fix) in [
        ("indexes", "outbox_event_due", "CREATE INDEX CONCURRENTLY outbox_event_due ON"),
        ("rights", "INSERT on outbox_event", "pillarbox migrate --relay-role"),
        ("autovacuum", "off", "RESET (autovacuum_enabled)"),
        ("relays", "1 due", "pillarbox relay"),
        ("destination", "gone is unreachable: cannot connect to http://127.0.0.1:9", "[destinations.gone]"),
    ] {
        let finding = the(&all, about);
        assert_eq!(finding.1, "bad", "{finding:?}");
        assert!(finding.2.contains(found) && finding.3.contains(fix), "{finding:?}");
    }
    let unseen = the(&all, "long transactions");
    assert!(unseen.1 == "notice" && unseen.3.contains("GRANT pg_read_all_stats TO doctored_"), "{unseen:?}");
    assert!(all.iter().any(|finding| finding.2.contains("rabbit is unreachable")), "{all:?}");
    assert!(!done.out.contains("secret"), "{done:?}");

    // For people it is the same.
    let told = home.run(&["doctor"]);
    assert!(told.out.contains("BAD  indexes") && told.out.contains("→ create them: CREATE INDEX"), "{told:?}");

    server.close().await.unwrap();
    database.close().await;
    let mut server = PgConnection::connect(&shared_url()).await.unwrap();
    server.execute(AssertSqlSafe(format!("DROP ROLE {role}"))).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn events_that_are_not_delivered_are_found() {
    let home = Home::with_config(&DISCARD.replace("[[routes]]\n", "[[routes]]\nevents = \"order.*\"\n"));
    let id = home.emit("1", &[]);
    home.run(&["events", "fail", &id, "--reason", "broken"]).succeeded();
    let sound = findings(&home.run(&["doctor", "--json"]).succeeded());
    assert!(sound.iter().all(|finding| finding.0 != "unrouted events"), "{sound:?}");
    home.run(&["emit", "Invoice", "7", "invoice.sent"]).succeeded();
    home.run(&["sweep"]).succeeded();
    let done = home.run(&["doctor", "--json"]);
    assert_eq!(done.code, 1, "{done:?}");
    let all = findings(&done);
    let (_, level, found, fix) = the(&all, "dead letters");
    assert_eq!((level.as_str(), found.as_str()), ("notice", "1 event"));
    assert!(fix.contains("`pillarbox dead-letters`"), "{fix}");
    let (_, level, found, fix) = the(&all, "unrouted events");
    assert_eq!((level.as_str(), found.as_str()), ("bad", "no route matches 1 waiting event: invoice.sent"));
    assert!(fix.contains("[[routes]]"), "{fix}");
}

#[tokio::test(flavor = "multi_thread")]
async fn relays_that_disagree_on_routes_are_found() {
    let database = TestDatabase::create().await;
    let mariadb = TestMysql::create().await;
    for url in [database.url(), mariadb.url(), "sqlite://pillarbox.db".to_owned()] {
        let mut home = Home::with_config(DISCARD);
        home.set("PILLARBOX_DATABASE_URL", &url);
        home.write("other.toml", &DISCARD.replace("[[routes]]\n", "[[routes]]\nevents = \"order.*\"\n"));
        home.run(&["migrate"]).succeeded();
        let beats = async |relays: usize| {
            wait_until("the relays have written their heartbeats", PATIENCE, async || {
                home.json(&["stats"])["relays"].as_array().unwrap().len() == relays
            })
            .await;
        };
        let mut same = start(&home, &["relay"]).await;
        beats(1).await;
        assert!(!home.run(&["check-config"]).succeeded().err.contains("running relays"), "{url}");
        let good = findings(&home.run(&["doctor", "--json"]).succeeded());
        assert_eq!(the(&good, "routes").1, "good", "{good:?}");

        let mut other = start(&home, &["relay", "--config", "other.toml"]).await;
        beats(2).await;
        let host = home.json(&["stats"])["relays"][0]["host"].as_str().unwrap().to_owned();
        let done = home.run(&["doctor", "--json"]);
        assert_eq!(done.code, 1, "{done:?}");
        let all = findings(&done);
        let (_, level, found, fix) = the(&all, "routes");
        assert_eq!(found, &format!("relays disagree on routes or destinations: {host} against {host}"));
        assert!(level == "bad" && fix.contains("[[routes]]"), "{all:?}");
        let checked = home.run(&["check-config"]).succeeded().err;
        let differs = "running relays have other routes or destinations than this configuration";
        assert!(checked.contains(&format!("note: {differs}: {host} (1 of 2)")), "{checked}");

        assert!(same.terminate(PATIENCE).await.unwrap().success());
        let checked = home.json(&["check-config"])["remarks"].to_string();
        assert!(checked.contains(&format!("{differs}: {host} (all)")), "{checked}");
        let alone = findings(&home.run(&["doctor", "--json", "--config", "other.toml"]).succeeded());
        assert_eq!(the(&alone, "routes").1, "good", "{alone:?}");
        assert!(other.terminate(PATIENCE).await.unwrap().success());
    }
    database.close().await;
}
