//! `pillarbox wal`: PostgreSQL's write-ahead log as the outbox.

use pillarbox_testkit::PrivatePostgres;
use pillarbox_testkit::process::{Program, Signal};
use pillarbox_testkit::receiver::Receiver;
use pillarbox_testkit::wait_until;
use serde_json::Value;
use sqlx::{Connection, Executor, PgConnection};

use crate::access::address;
use crate::client::Client;
use crate::delivering::{PATIENCE, to_receiver};
use crate::deploy;
use crate::home::{DISCARD, Home};
use crate::listening::{get, metric};

#[tokio::test(flavor = "multi_thread")]
async fn the_log_is_enabled_looked_at_and_disabled() {
    let server = PrivatePostgres::start_logical().await;
    let mut home = Home::with_config(DISCARD);
    home.set("PILLARBOX_DATABASE_URL", &server.url());
    let done = home.run(&["wal", "enable"]);
    assert!(done.code == 1 && done.err.contains("`pillarbox migrate`"), "{done:?}");
    home.run(&["migrate"]).succeeded();
    assert_eq!(home.json(&["wal", "status"]), serde_json::json!({ "enabled": false, "status": null, "findings": [] }));
    assert!(home.run(&["wal", "status"]).succeeded().out.contains("`pillarbox wal enable` enables it"));
    assert_eq!(home.json(&["wal", "disable"]), serde_json::json!({ "enabled": false, "changed": false }));

    let done = home.run(&["wal", "enable", "--size-limit", "1000"]).succeeded();
    assert!(
        done.out.contains("replication slot pillarbox_public_postgres") && done.out.contains("REPLICATION"),
        "{done:?}"
    );
    assert_eq!(home.json(&["wal", "enable"])["status"]["size_limit"], 1000, "nothing is done twice");
    let status = home.json(&["wal", "status"]);
    assert_eq!((&status["enabled"], &status["status"]["is_open"]), (&true.into(), &false.into()));
    assert!(status["findings"][0]["found"].as_str().unwrap().contains("no relay reads the log"), "{status}");
    let done = home.run(&["wal", "status"]).succeeded();
    assert!(done.out.contains("go into the table: no relay has opened the log"), "{done:?}");
    let done = home.run(&["doctor"]);
    assert!(done.code == 1 && done.out.contains("no relay reads the log"), "{done:?}");

    // A repeatable event goes into the table until a relay opens the log.
    let emit = ["emit", "Order", "1", "order.updated", "--repeatable"];
    assert!(home.json(&emit)["seq"].is_i64());
    let mut connection = PgConnection::connect(&server.url()).await.unwrap();
    connection.execute("SELECT setval('outbox_log_until', 9999999999)").await.unwrap();
    assert!(home.json(&emit)["seq"].is_null());
    assert!(home.run(&["wal", "status"]).succeeded().out.contains("go into the log"));

    // Undelivered events are given up only by a person who has read so.
    let done = home.run(&["wal", "disable", "--force"]);
    assert_eq!(done.code, 2);
    assert!(done.err.contains("bytes of the log, behind") && done.err.contains("--yes"), "{done:?}");
    assert!(home.json(&["wal", "status"])["enabled"] == true);
    let done = home.run(&["wal", "disable", "--yes"]);
    assert_eq!(done.code, 2, "{done:?}");
    connection.execute("UPDATE outbox_log SET leader = gen_random_uuid(), leader_until = 'infinity'").await.unwrap();
    let done = home.run(&["wal", "disable", "--force", "--yes"]);
    assert!(done.code == 2 && done.err.contains("a relay reads the log"), "{done:?}");
    connection.execute("UPDATE outbox_log SET leader = NULL").await.unwrap();
    assert_eq!(home.json(&["wal", "disable", "--force", "--yes"])["changed"], true);
    assert_eq!(home.json(&["wal", "status"])["enabled"], false);
    assert!(home.json(&emit)["seq"].is_i64());
    connection.close().await.unwrap();
}

/// A slot that somebody dropped. The relay goes on with the table, and leads a log that it cannot read.
#[tokio::test(flavor = "multi_thread")]
async fn a_log_without_its_slot_is_removed_beside_a_running_relay() {
    let server = PrivatePostgres::start_logical().await;
    let mut home = Home::with_config(&format!("[source]\nkind = \"wal\"\n{DISCARD}"));
    home.set("PILLARBOX_DATABASE_URL", &server.url());
    home.run(&["migrate"]).succeeded();
    let done = home.run(&["check-config"]).succeeded();
    assert!(
        done.err.contains("the log is not enabled, so all events go into the table; `pillarbox wal enable`"),
        "{done:?}"
    );
    home.run(&["wal", "enable"]).succeeded();
    let done = home.run(&["check-config"]).succeeded();
    assert!(!done.err.contains("the log is"), "{done:?}");
    let mut relay = Program::start(home.command(&["relay", "--log-format", "json"]));
    relay.wait_for_line("gate is open", PATIENCE).await.unwrap();
    let mut connection = PgConnection::connect(&server.url()).await.unwrap();
    let drop_slot = "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active_pid IS NOT NULL; \
                     SELECT pg_drop_replication_slot('pillarbox_public_postgres')";
    let connection = tokio::sync::Mutex::new(&mut connection);
    wait_until("the slot is dropped", PATIENCE, async || connection.lock().await.execute(drop_slot).await.is_ok())
        .await;
    relay.wait_for_line("does not exist", PATIENCE).await.unwrap();
    let done = home.run(&["wal", "disable"]);
    assert!(done.code == 1 && done.err.contains("`pillarbox wal disable --force --yes`"), "{done:?}");
    assert_eq!(home.json(&["wal", "status"])["status"]["is_led"], true);
    let done = home.run(&["check-config"]).succeeded();
    assert!(done.err.contains("the replication slot pillarbox_public_postgres does not exist"), "{done:?}");
    home.run(&["wal", "disable", "--force", "--yes"]).succeeded();
    assert_eq!(home.json(&["wal", "status"])["enabled"], false);
    relay.signal(Signal::Terminate);
    assert!(relay.wait(PATIENCE).await.unwrap().success());
}

/// An application with an outbox table for Debezium: its rows reach a receiver, and the log is disabled again.
#[tokio::test(flavor = "multi_thread")]
async fn rows_of_an_outbox_table_are_delivered() {
    let server = PrivatePostgres::start_logical().await;
    let receiver = Receiver::start().await;
    let mut home = to_receiver(&receiver, "");
    let config = std::fs::read_to_string(home.path("pillarbox.toml")).unwrap();
    home.write(
        "pillarbox.toml",
        &format!("[source]\nkind = \"wal\"\ntables = true\ntable = \"shop.events\"\n[source.columns]\nevent_type = \"kind\"\n{config}"),
    );
    home.set("PILLARBOX_DATABASE_URL", &server.url());
    home.run(&["migrate"]).succeeded();
    let done = home.run(&["wal", "enable"]);
    assert!(done.code == 1 && done.err.contains("the table shop.events does not exist"), "{done:?}");
    let mut connection = PgConnection::connect(&server.url()).await.unwrap();
    let create = "CREATE SCHEMA shop; CREATE TABLE shop.events (id uuid, aggregatetype text, aggregateid text, kind text, payload jsonb)";
    connection.execute(create).await.unwrap();
    let done = home.run(&["wal", "enable", "--table", "shop.other"]);
    assert!(
        done.code == 2 && done.err.contains("--table is shop.other, but [source] table is shop.events"),
        "{done:?}"
    );
    let done = home.run(&["wal", "enable"]).succeeded();
    assert!(done.err.contains("inserted into shop.events from now on are in the log"), "{done:?}");
    assert!(done.out.contains("[source] kind = \"wal\", tables = true"), "{done:?}");
    let done = home.run(&["wal", "status"]).succeeded();
    assert!(done.out.contains("rows of            shop.events"), "{done:?}");

    let mut relay = Program::start(home.command(&["relay", "--log-format", "json"]));
    relay.wait_for_line("relay started", PATIENCE).await.unwrap();
    let id = uuid::Uuid::now_v7();
    let insert = "INSERT INTO shop.events VALUES ($1, 'Order', '42', 'order.placed', '{\"total\": 3}')";
    sqlx::query(insert).bind(id).execute(&mut connection).await.unwrap();
    receiver.wait_for(1, PATIENCE).await.unwrap();
    let request = &receiver.received()[0];
    assert_eq!(request.id, Some(id));
    assert_eq!(request.headers["pillarbox-event-type"], "order.placed");
    let doctor = home.run(&["doctor"]);
    assert!(doctor.out.contains("rows that are inserted into shop.events are in the log"), "{doctor:?}");
    connection.execute("ALTER PUBLICATION pillarbox_public_postgres DROP TABLE shop.events").await.unwrap();
    let doctor = home.run(&["doctor"]);
    assert!(doctor.code == 1 && doctor.out.contains("`pillarbox wal enable --table shop.events`"), "{doctor:?}");
    home.run(&["wal", "enable"]).succeeded();
    home.set("PILLARBOX_SOURCE_TABLES", "false");
    let status = home.run(&["wal", "status"]).succeeded();
    assert!(status.out.contains("contains shop.events, which [source] does not name"), "{status:?}");

    let done = home.run(&["wal", "disable"]).succeeded();
    assert!(done.err.contains("inserted into shop.events from now on may not be delivered"), "{done:?}");
    relay.signal(Signal::Terminate);
    assert!(relay.wait(PATIENCE).await.unwrap().success());
    connection.close().await.unwrap();
}

/// What the overview knows of the log.
async fn seen(admin: &mut Client) -> (Value, String) {
    let overview = admin.get("/api/v1/overview").await;
    assert_eq!(overview.status, 200, "{overview:?}");
    (overview.json(), admin.get("/").await.body)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_is_seen_by_metrics_api_and_pages() {
    let server = PrivatePostgres::start_logical().await;
    let mut home = Home::with_config(&format!("[source]\nkind = \"wal\"\n{DISCARD}"));
    home.set("PILLARBOX_DATABASE_URL", &server.url());
    home.run(&["migrate"]).succeeded();
    let program = Program::start(home.command(&["admin", "--listen", "127.0.0.1:0"]));
    let mut admin = Client::new(&address(&program).await);
    let (overview, page) = seen(&mut admin).await;
    assert!(overview["log"].is_null() && !page.contains("id=\"log\""), "{overview}\n{page}");

    home.run(&["wal", "enable"]).succeeded();
    let (overview, page) = seen(&mut admin).await;
    let kinds = |overview: &Value| {
        let problems = overview["problems"].as_array().unwrap().iter();
        problems.map(|problem| problem["kind"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(kinds(&overview), ["no_relay", "log_unread"], "{overview}");
    assert!(page.contains("data-log=\"unread\"") && page.contains("id=\"problem-log-unread-\""), "{page}");

    let mut command = home.command(&["relay"]);
    command.env("PILLARBOX_METRICS_LISTEN", "127.0.0.1:0");
    let mut relay = Program::start(command);
    let served = relay.wait_for_line("metrics and health are served", PATIENCE).await.unwrap();
    let served = served.split("address=").nth(1).unwrap().trim().to_owned();
    let metrics = async || get(&served, "/metrics").await.1;
    let is = async |series: &str, value: f64| metric(&metrics().await, series) == Some(value);
    wait_until("the gate is open", PATIENCE, async || seen(&mut admin).await.0["log"]["is_open"] == true).await;
    wait_until("the metric says so", PATIENCE, async || is("pillarbox_log_open", 1.0).await).await;
    assert!(home.json(&["emit", "Order", "1", "order.updated", "--repeatable"])["seq"].is_null());
    wait_until("the event is delivered", PATIENCE, async || is("pillarbox_log_events_delivered_total", 1.0).await)
        .await;
    wait_until("the relay is up to date", PATIENCE, async || is("pillarbox_log_lag_seconds", 0.0).await).await;
    let text = metrics().await;
    deploy::check_log_metrics(&text);
    assert_eq!(metric(&text, "pillarbox_log_leads"), Some(1.0), "{text}");
    assert_eq!(metric(&text, "pillarbox_log_keep_bytes"), Some(256.0 * 1024.0 * 1024.0), "{text}");
    assert!(metric(&text, "pillarbox_log_left_bytes").is_some_and(|left| left > 1e8), "{text}");
    wait_until("the overview has nothing to say", PATIENCE, async || kinds(&seen(&mut admin).await.0).is_empty()).await;
    let (overview, page) = seen(&mut admin).await;
    let log = &overview["log"];
    assert_eq!((&log["is_read"], &log["is_open"], &log["closed"]), (&true.into(), &true.into(), &Value::Null), "{log}");
    assert!(page.contains("data-log=\"open\"") && page.contains("pillarbox_public_postgres"), "{page}");

    assert!(relay.terminate(PATIENCE).await.unwrap().success());
    assert_eq!(seen(&mut admin).await.0["log"]["is_read"], false);
    home.run(&["wal", "disable", "--force", "--yes"]).succeeded();
    assert!(seen(&mut admin).await.0["log"].is_null());
}

#[test]
fn other_databases_have_no_such_log() {
    let home = Home::new();
    let done = home.run(&["wal", "status"]);
    assert!(done.code == 2 && done.err.contains("the write-ahead log is PostgreSQL's"), "{done:?}");
    assert!(!home.path("pillarbox.db").exists(), "nothing is created");
}

/// A configuration whose relay reads the log.
fn reads_log(config: &str) -> String {
    format!("[source]\nkind = \"wal\"\n{config}")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_relays_should_read_and_that_is_not_enabled_is_found() {
    let logical = PrivatePostgres::start_logical().await;
    let plain = PrivatePostgres::start().await;
    for (server, level, told) in
        [(&logical, "notice", "`pillarbox wal enable`"), (&plain, "bad", "wal_level is replica")]
    {
        let mut home = Home::with_config(&reads_log(DISCARD));
        home.set("PILLARBOX_DATABASE_URL", &server.url());
        home.run(&["migrate"]).succeeded();
        let all = home.run(&["doctor", "--json"]).json();
        let log =
            all.as_array().unwrap().iter().find(|finding| finding["about"] == "log").unwrap_or_else(|| panic!("{all}"));
        let told_of_it = format!("{} {}", log["found"], log["fix"]);
        assert!(told_of_it.contains("the log is not enabled, so all events go into the table"), "{log}");
        assert!(log["level"] == level && told_of_it.contains(told), "{log}");
        home.write("tables.toml", DISCARD);
        let found = home.run(&["--config", "tables.toml", "doctor", "--json"]).succeeded().json().to_string();
        assert!(!found.contains("the log is not enabled"), "{found}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timeout_that_no_send_from_the_log_can_have_is_remarked() {
    let home = Home::new();
    let config = |lease: &str, timeout: &str| {
        format!(
            "[database]\nurl = \"postgres://127.0.0.1:1/none\"\n[source]\nkind = \"wal\"\nlease = \"{lease}\"\n[destinations.crm]\n\
             kind = \"http\"\nurl = \"https://crm.example\"\ntimeout = \"{timeout}\"\n[[routes]]\nto = [\"crm\"]\n"
        )
    };
    let remark = "the timeout of crm is not shorter than source.lease";
    for (lease, timeout, is_told) in
        [("15s", "15s", true), ("15s", "20s", true), ("15s", "14s", false), ("21s", "20s", false)]
    {
        home.write("pillarbox.toml", &config(lease, timeout));
        let told = home.run(&["check-config"]).succeeded().err;
        assert_eq!(told.contains(remark), is_told, "{lease} {timeout}: {told}");
    }
    home.write("pillarbox.toml", &config("15s", "20s").replace("kind = \"wal\"\n", ""));
    assert!(!home.run(&["check-config"]).succeeded().err.contains(remark));
}

/// Both work on the same tables, so they must route alike.
#[tokio::test(flavor = "multi_thread")]
async fn relays_on_the_log_and_on_the_tables_alone_are_compared() {
    let server = PrivatePostgres::start_logical().await;
    let mut home = Home::with_config(&reads_log(DISCARD));
    home.set("PILLARBOX_DATABASE_URL", &server.url());
    home.write("tables.toml", DISCARD);
    home.write("other.toml", &DISCARD.replace("[[routes]]\n", "[[routes]]\nevents = \"order.*\"\n"));
    home.run(&["migrate"]).succeeded();
    let differs = "running relays have other routes or destinations than this configuration";
    for (config, disagrees) in [("tables.toml", false), ("other.toml", true)] {
        let mut relay = Program::start(home.command(&["relay", "--config", config]));
        relay.wait_for_line("relay started", PATIENCE).await.unwrap();
        wait_until("the relay has written its heartbeat", PATIENCE, async || {
            home.json(&["stats"])["relays"].as_array().unwrap().len() == 1
        })
        .await;
        let told = home.run(&["check-config"]).succeeded().err;
        assert_eq!(told.contains(differs), disagrees, "{config}: {told}");
        assert!(relay.terminate(PATIENCE).await.unwrap().success());
    }
}
