//! Emit, list, show, cleanup: what people and their scripts do all day.

use sqlx::Connection;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};

use pillarbox_testkit::wait_until;

use crate::delivering::PATIENCE;
use crate::home::{DISCARD, Home};

#[test]
fn a_payload_comes_from_the_argument_or_from_standard_input_and_keeps_its_digits() {
    let home = Home::new();
    let id = home.emit("1", &[r#"{"n": 10000000000000000000000.10}"#]);
    let shown = home.run(&["events", "show", &id]).succeeded();
    assert!(shown.out.contains("10000000000000000000000.10"), "{shown:?}");
    let done = home.run_with_input(&["emit", "Order", "2", "order.placed", "-", "--json"], "[1, 2]\n").succeeded();
    let id = done.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(home.json(&["events", "show", &id])["payload"], serde_json::json!([1, 2]));
    let done = home.run(&["emit", "Order", "3", "order.placed", "{total"]);
    assert_eq!(done.code, 2);
    assert!(done.err.contains("the payload is not JSON"), "{done:?}");
}

#[test]
fn a_duplicate_is_refused_with_the_flags_that_mean_it() {
    let home = Home::new();
    let id = home.emit("1", &[]);
    let done = home.run(&["emit", "Order", "1", "order.placed"]);
    assert_eq!(done.code, 1);
    assert!(done.err.contains("add --repeatable") && done.err.contains("add --once"), "{done:?}");
    let existing = home.json(&["emit", "Order", "1", "order.placed", "--once"]);
    assert_eq!(existing["id"], id.as_str());
    assert_eq!(existing["is_new"], false);
    assert_ne!(home.emit("1", &["--repeatable"]), id);
    assert_ne!(home.emit("1", &["--key", "second"]), id);
    assert_eq!(home.emit("2", &["--key", "second", "--once"]), home.emit("1", &["--key", "second", "--once"]));
}

#[test]
fn everything_about_an_event_can_be_said_and_seen() {
    let home = Home::new();
    let later = ["--deliver-at", "2099-01-01T08:00:00Z", "--header", "tenant=a=b", "--max-attempts", "0"];
    let id = home.emit("1", &later);
    let shown = home.json(&["events", "show", &id]);
    assert_eq!(shown["state"], "scheduled");
    assert_eq!(shown["headers"]["tenant"], "a=b");
    assert_eq!(shown["max_attempts"], 0);
    let text = home.run(&["events", "show", &id]).succeeded().out;
    for part in ["state      scheduled", "failures   0 (no limit)", "due        2099-01-01T08:00:00Z", "tenant  a=b"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let done = home.run(&["events", "show", "00000000-0000-0000-0000-000000000000"]);
    assert_eq!(done.code, 1);
    assert!(done.err.contains("there is no event 00000000-"), "{done:?}");
}

#[test]
fn lists_are_narrowed_by_flags_and_go_on_page_by_page() {
    let home = Home::new();
    for id in ["1", "2", "3"] {
        home.emit(id, &[]);
    }
    home.run(&["emit", "Invoice", "1", "invoice.sent"]).succeeded();
    let count = |arguments: &[&str]| {
        let list = home.json(&[&["events", "list"], arguments].concat());
        list["events"].as_array().unwrap().len()
    };
    assert_eq!(count(&[]), 4);
    assert_eq!(count(&["--type", "order.*"]), 3);
    assert_eq!(count(&["--aggregate-type", "Invoice"]), 1);
    assert_eq!(count(&["--aggregate-type", "Order", "--aggregate-id", "2"]), 1);
    assert_eq!(count(&["--search", "INVOICE"]), 1);
    assert_eq!(count(&["--state", "due"]), 4);
    assert_eq!(count(&["--state", "failed"]), 0);
    assert_eq!(count(&["--parked-on", "runner"]), 0);
    assert_eq!(count(&["--since", "1h"]), 4);
    assert_eq!(count(&["--since", "2999-01-01T00:00:00Z"]), 0);
    let page = home.json(&["events", "list", "--limit", "3"]);
    let next = page["next"].as_str().unwrap();
    assert_eq!(count(&["--limit", "3", "--after", next]), 1);
    let done = home.run(&["events", "list", "--limit", "3"]).succeeded();
    assert!(done.err.contains(&format!("there are more: add --after {next}")), "{done:?}");
    let oldest = home.json(&["events", "list", "--limit", "1", "--oldest-first"]);
    assert_eq!(oldest["events"][0]["aggregate_id"], "1");
    assert_eq!(home.run(&["events", "list", "--after", "nowhere"]).code, 2);
    let done = home.run(&["events", "list", "--state", "failed", "--after", next]);
    assert_eq!((done.code, done.err.contains("does not belong to this list")), (1, true), "{done:?}");
    assert_eq!(home.run(&["events", "list", "--state", "lost"]).code, 2);
    assert_eq!(home.run(&["events", "list", "--since", "yesterday"]).code, 2);
}

#[test]
fn what_was_delivered_is_cleaned_up_by_age() {
    let home = Home::with_config(DISCARD);
    for id in ["1", "2", "3"] {
        home.emit(id, &[]);
    }
    assert_eq!(home.json(&["sweep", "--all"]), serde_json::json!({ "processed": 3, "remaining": 0 }));
    home.emit("4", &[]);
    assert_eq!(home.json(&["cleanup"])["deleted"], 0);
    let done = home.run(&["cleanup", "--delivered-after", "0s", "--batch", "2"]).succeeded();
    assert_eq!(done.err, "2 deleted so far\n");
    assert_eq!(done.out, "deleted 3 old events, 0 remaining\n");
    let stats = home.json(&["stats"]);
    assert_eq!((&stats["due"], &stats["delivered"]), (&1.into(), &0.into()));
}

#[test]
fn migrate_says_what_it_did_and_does_it_once() {
    let home = Home::new();
    let applied = "applied 0001 outbox to sqlite://pillarbox.db\napplied 0002 desk to sqlite://pillarbox.db\n";
    assert_eq!(home.run(&["migrate"]).succeeded().out, applied);
    assert_eq!(home.run(&["migrate"]).succeeded().out, "the outbox's tables in sqlite://pillarbox.db are up to date\n");
    assert_eq!(home.json(&["migrate"])["applied"], serde_json::json!([]));
    let done = home.run(&["migrate", "--emit-role", "shop"]);
    assert_eq!(done.code, 1);
    assert!(done.err.contains("SQLite has no roles"), "{done:?}");
    assert_eq!(home.run(&["migrate", "--apply"]).code, 2);
}

#[tokio::test]
async fn somebody_elses_file_is_refused_with_the_command_to_run() {
    let home = Home::new();
    let file = SqliteConnectOptions::new().filename(home.path("pillarbox.db")).create_if_missing(true);
    let mut connection = SqliteConnection::connect_with(&file).await.unwrap();
    sqlx::query("CREATE TABLE theirs (a)").execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    for arguments in [&["stats"][..], &["relay"], &["sweep"], &["cleanup"], &["events", "list"]] {
        let done = home.run(arguments);
        assert_eq!(done.code, 1, "{done:?}");
        assert!(done.err.contains("run `pillarbox migrate`"), "{done:?}");
    }
    let done = home.run(&["emit", "Order", "1", "order.placed"]);
    assert_eq!(done.code, 1, "{done:?}");
    assert!(done.err.contains("`pillarbox migrate`"), "{done:?}");
    home.run(&["migrate"]).succeeded();
    home.run(&["stats"]).succeeded();
}

#[test]
fn a_file_in_a_directory_that_is_not_there_is_refused_with_what_to_do() {
    let mut home = Home::new();
    home.set("PILLARBOX_DATABASE_URL", "sqlite://missing/pillarbox.db");
    let done = home.run(&["stats"]);
    assert_eq!(done.code, 1);
    assert!(done.err.contains("the directory missing for the database file does not exist; create it"), "{done:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_are_retried_only_within_the_window() {
    let home = Home::new();
    let ids: Vec<String> = ["1", "2", "3"].iter().map(|id| home.emit(id, &[])).collect();
    for id in &ids {
        home.run(&["events", "fail", id, "--reason", "broken"]).succeeded();
    }
    home.age(&ids[0], 24 * 40).await;
    home.age(&ids[1], 2).await;
    let would = |arguments: &[&str]| {
        home.json(&[&["dead-letters", "retry", "--dry-run"], arguments].concat())["would_retry"].as_u64().unwrap()
    };
    let group = home.json(&["dead-letters"])["groups"][0]["group"].as_str().unwrap().to_owned();
    for which in [&["--all"][..], &["--type", "order.*"], &["--group", &group]] {
        assert_eq!(would(&[which, &["--within", "1h"]].concat()), 1, "{which:?}");
        assert_eq!(would(which), 2, "as listed by default: {which:?}");
        assert_eq!(would(&[which, &["--within", "100days"]].concat()), 3, "{which:?}");
    }
    let said = home.run(&["dead-letters", "retry", "--all", "--within", "1h", "--dry-run"]).succeeded().out;
    assert_eq!(said, "1 failed event of the last 1h would be retried\n");
    home.run(&["dead-letters", "retry", "--all", "--within", "1h", "--yes"]).succeeded();
    let states: Vec<String> = ids.iter().map(|id| home.state(id)).collect();
    assert_eq!(states, ["failed", "failed", "due"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_destination_is_paused_and_resumed_while_a_relay_runs() {
    let home = Home::with_config(DISCARD);
    home.run(&["migrate"]).succeeded();
    let name = home.json(&["destinations", "list"])[0]["name"].as_str().unwrap().to_owned();
    assert_eq!(home.json(&["destinations", "pause", &name])["changed"], true);
    let mut relay = crate::listening::start(&home, &["relay"]).await;
    let id = home.emit("1", &["{}"]);
    wait_until("it waits", PATIENCE, async || home.state(&id) == "parked").await;
    let listed = home.json(&["destinations", "list"]);
    assert!(listed[0]["paused_by"].as_str().is_some_and(|who| who.contains('@')), "{listed}");
    assert_eq!((&listed[0]["health"], &listed[0]["waiting"]), (&"paused".into(), &1.into()), "{listed}");
    assert!(listed[0]["oldest_waiting_seconds"].as_f64().is_some(), "{listed}");
    let table = home.run(&["destinations", "list"]).succeeded().out;
    assert!(table.contains("WAITING") && table.contains("paused by"), "{table}");
    let stats = home.run(&["stats"]).succeeded().out;
    assert!(stats.contains(&format!("{name} is paused")) && stats.contains("oldest for"), "{stats}");
    assert_eq!(home.json(&["destinations", "resume", &name])["changed"], true);
    wait_until("it arrives", PATIENCE, async || home.state(&id) == "delivered").await;
    assert!(relay.terminate(PATIENCE).await.unwrap().success());
    let refused = home.command(&["destinations", "pause", "runer"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("no destination \"runer\""), "{refused:?}");
}
