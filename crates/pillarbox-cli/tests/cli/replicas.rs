//! Several admins on one database: one log-in for all of them, and jobs that outlive the process that started them.

use std::collections::BTreeMap;

use pillarbox::store::postgres::PostgresStore;
use pillarbox::store::sqlite::SqliteStore;
use pillarbox::store::{Filter, Paging, REPLAY_OF, State};
use pillarbox::{Event, Inspect, emit_all};
use pillarbox_testkit::postgres::TestDatabase;
use pillarbox_testkit::process::Program;
use pillarbox_testkit::wait_until;
use serde_json::{Value, json};

use crate::access::{PASSWORD, address, serve, with_users};
use crate::client::Client;
use crate::delivering::PATIENCE;
use crate::home::Home;

const EVENTS: u64 = 60;

async fn post(client: &mut Client, path: &str, body: &Value) -> Value {
    let json = [("content-type", "application/json")];
    let answer = client.send("POST", &format!("/api/v1{path}"), &json, &body.to_string()).await;
    assert!((200..300).contains(&answer.status), "{path}: {answer:?}");
    answer.json()
}

async fn job(client: &mut Client, id: &str) -> Value {
    client.get(&format!("/api/v1/jobs/{id}")).await.json()
}

/// An admin, and a client with the operator's token.
async fn served(home: &Home, token: &str) -> (Program, Client) {
    let (program, mut client) = serve(home).await;
    client.headers.push(("authorization".to_owned(), format!("Bearer {token}")));
    (program, client)
}

fn events() -> impl Iterator<Item = Event> {
    (0..EVENTS).map(|number| Event::new("Order", number, "order.placed"))
}

/// The process is killed three times while it works, and another one goes on each time.
async fn replay_under_kills(home: &Home, token: &str, store: &dyn Inspect) {
    home.run(&["sweep"]).succeeded();
    let (mut program, mut client) = served(home, token).await;
    let replay = json!({ "action": "replay", "filter": { "state": "delivered" }, "rate": 10.0 });
    let started = post(&mut client, "/jobs", &replay).await;
    assert_eq!(started["total"], EVENTS, "{started}");
    let id = started["id"].as_str().unwrap();
    let mut done = 0;
    for _ in 0..3 {
        wait_until("another batch is done", PATIENCE, async || {
            job(&mut client, id).await["done"].as_u64().unwrap() > done
        })
        .await;
        done = job(&mut client, id).await["done"].as_u64().unwrap();
        program.kill().await;
        (program, client) = served(home, token).await;
        let found = job(&mut client, id).await;
        assert_eq!(found["state"], "running", "it is not done before the process is killed: {found}");
    }
    wait_until("the job is done", PATIENCE, async || job(&mut client, id).await["state"] == "done").await;
    let ended = job(&mut client, id).await;
    assert_eq!((&ended["done"], &ended["changed"], &ended["refused"]), (&json!(EVENTS), &json!(EVENTS), &json!(0)));
    let mut replays: BTreeMap<String, u32> = BTreeMap::new();
    let filter = Filter { state: Some(State::Due), ..Filter::default() };
    for event in store.list(&filter, &Paging::first(500)).await.unwrap().events {
        let detail = store.get(event.id).await.unwrap().unwrap();
        *replays.entry(detail.headers[REPLAY_OF].clone()).or_default() += 1;
    }
    assert!(replays.len() == EVENTS as usize && replays.values().all(|count| *count == 1), "{replays:?}");
    let audit = client.get("/api/v1/audit?limit=1").await.json();
    assert_eq!((&audit["entries"][0]["what"], &audit["entries"][0]["events"]), (&json!("replay"), &json!(EVENTS)));
    assert!(program.terminate(PATIENCE).await.unwrap().success());
}

/// Starts with the events in a SQLite file.
async fn filled_on_sqlite() -> (Home, String, SqliteStore) {
    let (home, token) = with_users("");
    home.run(&["migrate"]).succeeded();
    let store = SqliteStore::open(home.path("pillarbox.db")).await.unwrap();
    let mut tx = store.pool().begin().await.unwrap();
    emit_all(&mut tx, events()).await.unwrap();
    tx.commit().await.unwrap();
    (home, token, store)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_survives_kills_and_replays_each_event_once_on_sqlite() {
    let (home, token, store) = filled_on_sqlite().await;
    replay_under_kills(&home, &token, &store).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_survives_kills_and_replays_each_event_once_on_postgres() {
    let database = TestDatabase::create().await;
    let (mut home, token) = with_users("");
    home.set("PILLARBOX_DATABASE_URL", &database.url());
    home.run(&["migrate"]).succeeded();
    let store = PostgresStore::connect(&database.url(), "public").await.unwrap();
    let mut tx = store.pool().begin().await.unwrap();
    emit_all(&mut tx, events()).await.unwrap();
    tx.commit().await.unwrap();
    replay_under_kills(&home, &token, &store).await;
    drop(store);
    database.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_log_in_is_enough_for_all_replicas_and_survives_a_restart() {
    let (home, _) = with_users("");
    home.run(&["migrate"]).succeeded();
    let (mut one, mut client) = serve(&home).await;
    let (mut other, _) = serve(&home).await;
    let second = address(&other).await;
    // A proxy in front of both.
    client.host = "localhost:9999".to_owned();
    assert_eq!(client.log_in("olga", PASSWORD).await.status, 303);
    let csrf = client.csrf().await;
    client.go_to(&second);
    let page = client.get("/").await;
    assert!(page.status == 200 && page.body.contains("olga"), "{page:?}");
    let paused = client.post("/destinations/nowhere/pause", &[("csrf", &csrf)]).await;
    assert_eq!((paused.status, paused.header("location")), (303, "/destinations?did=pause"), "{paused:?}");
    assert_eq!(client.post("/destinations/nowhere/resume", &[("csrf", "another")]).await.status, 403);

    // Nothing in the database lets anybody in.
    let token = client.cookies().values().next().unwrap().clone();
    for name in ["pillarbox.db", "pillarbox.db-wal"] {
        let bytes = std::fs::read(home.path(name)).unwrap_or_default();
        for secret in [&token, &csrf] {
            assert!(!bytes.windows(secret.len()).any(|part| part == secret.as_bytes()), "{name}");
        }
    }

    one.kill().await;
    other.kill().await;
    (one, _) = serve(&home).await;
    (other, _) = serve(&home).await;
    let (first, second) = (address(&one).await, address(&other).await);
    client.go_to(&first);
    assert_eq!(client.get("/").await.status, 200, "the session has survived");
    client.go_to(&second);
    assert_eq!(client.post("/logout", &[("csrf", &csrf)]).await.status, 303);
    client.keep_cookie("pillarbox_session_9999", &token);
    client.go_to(&first);
    let refused = client.get("/").await;
    assert_eq!((refused.status, refused.header("location")), (303, "/login?next=%2F"), "logged out everywhere");
    for program in [&mut one, &mut other] {
        assert!(program.terminate(PATIENCE).await.unwrap().success());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_cancelled_from_another_replica() {
    let (home, token, _store) = filled_on_sqlite().await;
    let (mut one, mut client) = served(&home, &token).await;
    let (mut other, mut elsewhere) = served(&home, &token).await;
    let fail = json!({ "action": "fail", "reason": "not wanted", "rate": 2.0 });
    let id = post(&mut client, "/jobs", &fail).await["id"].as_str().unwrap().to_owned();
    wait_until("it has begun", PATIENCE, async || job(&mut client, &id).await["done"].as_u64() > Some(0)).await;
    let jobs = elsewhere.get("/api/v1/jobs").await.json();
    assert_eq!((&jobs["jobs"][0]["id"], &jobs["jobs"][0]["state"]), (&json!(id), &json!("running")), "{jobs}");
    let cancelled = post(&mut elsewhere, &format!("/jobs/{id}/cancel"), &json!(null)).await;
    assert_eq!(cancelled["state"], "cancelled", "{cancelled}");
    let seen = job(&mut client, &id).await;
    assert_eq!((&seen["state"], &seen["done"]), (&json!("cancelled"), &cancelled["done"]), "{seen}");
    // A second job runs to its end and finds all that the first one has left.
    let rest = json!({ "action": "fail", "reason": "not wanted" });
    let rest = post(&mut elsewhere, "/jobs", &rest).await["id"].as_str().unwrap().to_owned();
    wait_until("the rest is done", PATIENCE, async || job(&mut client, &rest).await["state"] == "done").await;
    let changed = |job: &Value| job["changed"].as_u64().unwrap();
    let (first, second) = (job(&mut client, &id).await, job(&mut client, &rest).await);
    assert_eq!(changed(&first) + changed(&second), EVENTS, "{first} {second}");
    let audit = client.get("/api/v1/audit?limit=3").await.json();
    let what: Vec<&str> = (0..3).map(|line| audit["entries"][line]["what"].as_str().unwrap()).collect();
    assert_eq!(what, ["fail", "cancel", "fail"]);
    for program in [&mut one, &mut other] {
        assert!(program.terminate(PATIENCE).await.unwrap().success());
    }
}
