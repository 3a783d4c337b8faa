//! The API over real connections to the real program: reads, actions and jobs, on SQLite, PostgreSQL and MariaDB.

use std::time::Duration;

use pillarbox_testkit::mysql::TestMysql;
use pillarbox_testkit::postgres::TestDatabase;
use pillarbox_testkit::process::Program;
use pillarbox_testkit::receiver::{Answer as Reply, Receiver};
use pillarbox_testkit::wait_until;
use serde_json::{Value, json};

use crate::access::address;
use crate::client::{Answer, Client};
use crate::delivering::PATIENCE;
use crate::home::Home;

#[path = "api/curl.rs"]
mod curl;
#[path = "api/jobs.rs"]
mod jobs;
#[path = "api/lists.rs"]
mod lists;
#[path = "api/replay.rs"]
mod replay;

const CARD: &str = "4111111111111111";

/// A database that is not a file.
enum Database {
    Postgres(TestDatabase),
    Mariadb(TestMysql),
}

/// A relay that serves the API beside it, a receiver, and an operator with a token.
struct Desk {
    receiver: Receiver,
    home: Home,
    client: Client,
    _relay: Program,
    database: Option<Database>,
}

impl Desk {
    async fn on_sqlite() -> Self {
        Self::new(None).await
    }

    async fn on_postgres() -> Self {
        Self::new(Some(Database::Postgres(TestDatabase::create().await))).await
    }

    async fn on_mariadb() -> Self {
        Self::new(Some(Database::Mariadb(TestMysql::create().await))).await
    }

    async fn new(database: Option<Database>) -> Self {
        let receiver = Receiver::start().await;
        let mut home = Home::new();
        let made = home.json(&["admin", "make-token"]);
        let (token, hash) = (made["token"].as_str().unwrap(), made["hash"].as_str().unwrap());
        home.write(
            "pillarbox.toml",
            &format!(
                "[relay]\nrecord_attempts = \"all\"\n[relay.retry]\nbase = \"10ms\"\njitter = 0.0\nmax_attempts = 2\n\
                 [destinations.runner]\nkind = \"http\"\nurl = \"{}\"\nallow_private = true\nbearer = \"env:TOKEN\"\n\
                 [destinations.vault]\nkind = \"http\"\nurl = \"{}\"\nallow_private = true\n\
                 [[routes]]\nevents = \"order.*\"\nto = [\"runner\"]\n\
                 [[routes]]\nevents = \"both.*\"\nto = [\"runner\", \"vault\"]\n\
                 [admin]\nmask = [\"$.card\"]\n\
                 [admin.users.olga]\nrole = \"operator\"\ntoken = \"{hash}\"\n",
                receiver.url("/events/hunter2hunter2hunter2?key=hunter2"),
                receiver.url("/vault")
            ),
        );
        home.set("TOKEN", "hunter2");
        home.set("PILLARBOX_ADMIN_LISTEN", "127.0.0.1:0");
        if let Some(database) = &database {
            let url = match database {
                Database::Postgres(database) => database.url(),
                Database::Mariadb(database) => database.url(),
            };
            home.set("PILLARBOX_DATABASE_URL", &url);
            home.run(&["migrate"]).succeeded();
        }
        let relay = Program::start(home.command(&["relay"]));
        let mut client = Client::new(&address(&relay).await);
        client.headers.push(("authorization".to_owned(), format!("Bearer {token}")));
        Self { receiver, home, client, _relay: relay, database }
    }

    async fn close(self) {
        let Self { mut _relay, database, .. } = self;
        assert!(_relay.terminate(PATIENCE).await.unwrap().success());
        // Others are dropped with their value.
        if let Some(Database::Postgres(database)) = database {
            database.close().await;
        }
    }

    async fn get(&mut self, path: &str) -> Value {
        let answer = self.client.get(&format!("/api/v1{path}")).await;
        assert_eq!((answer.status, answer.header("content-type")), (200, "application/json"), "{path}: {answer:?}");
        answer.json()
    }

    async fn post(&mut self, path: &str, body: &Value) -> Answer {
        let json = [("content-type", "application/json")];
        self.client.send("POST", &format!("/api/v1{path}"), &json, &body.to_string()).await
    }

    async fn done(&mut self, path: &str, body: &Value) -> Value {
        let answer = self.post(path, body).await;
        assert!((200..300).contains(&answer.status), "{path}: {answer:?}");
        answer.json()
    }

    async fn emit(&mut self, aggregate_id: &str, payload: Value) -> String {
        let event = json!({ "aggregate_type": "Order", "aggregate_id": aggregate_id, "event_type": "order.placed",
                            "payload": payload });
        self.done("/events", &event).await["id"].as_str().unwrap().to_owned()
    }

    async fn wait_for_state(&mut self, id: &str, state: &str) {
        let home = &self.home;
        wait_until(&format!("{id} is {state}"), PATIENCE, async || home.state(id) == state).await;
    }

    /// What the newest lines of the audit say: who, what, how many.
    async fn audit(&mut self, lines: usize) -> Vec<(String, String, Option<u64>)> {
        let entries = self.get(&format!("/audit?limit={lines}")).await["entries"].clone();
        let text = |entry: &Value, name: &str| entry[name].as_str().unwrap().to_owned();
        let line = |entry: &Value| (text(entry, "who"), text(entry, "what"), entry["events"].as_u64());
        entries.as_array().unwrap().iter().map(line).collect()
    }

    async fn wait_for_job(&mut self, id: &str, state: &str) -> Value {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let job = self.get(&format!("/jobs/{id}")).await;
            if job["state"] == state {
                return job;
            }
            assert!(tokio::time::Instant::now() < deadline && job["state"] == "running", "{job}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn refuse(&self) {
        self.receiver
            .answer_with(|request| Reply::status(410).body(format!("no: {}", String::from_utf8_lossy(&request.body))));
    }

    fn accept(&self) {
        self.receiver.answer_with(|_| Reply::ok());
    }
}

fn problem(answer: &Answer, status: u16) -> String {
    assert_eq!((answer.status, answer.header("content-type")), (status, "application/problem+json"), "{answer:?}");
    let problem = answer.json();
    assert_eq!((&problem["type"], &problem["status"]), (&json!("about:blank"), &json!(status)), "{problem}");
    problem["detail"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_event_is_seen_retried_and_delivered() {
    for mut desk in [Desk::on_sqlite().await, Desk::on_postgres().await, Desk::on_mariadb().await] {
        desk.refuse();
        let id = desk.emit("1", json!({ "card": CARD, "total": 5 })).await;
        desk.wait_for_state(&id, "failed").await;
        let full = desk.get(&format!("/events/{id}")).await;
        let told: Vec<&Value> = full["timeline"].as_array().unwrap().iter().map(|moment| &moment["what"]).collect();
        assert_eq!(told, ["committed", "failed", "given_up"], "{full}");
        let attempt = &full["timeline"][1];
        assert_eq!((&attempt["status_code"], &attempt["destination"]), (&json!(410), &json!("runner")), "{full}");
        assert!(attempt["answer"].as_str().unwrap().contains("•••"), "{full}");
        assert_eq!((&full["event"]["failed_on"], &full["goes_to"]), (&json!("runner"), &json!(["runner"])), "{full}");

        desk.accept();
        assert_eq!(desk.done(&format!("/events/{id}/retry"), &json!(null)).await["changed"], 1);
        desk.wait_for_state(&id, "delivered").await;
        let full = desk.get(&format!("/events/{id}")).await;
        let told: Vec<&Value> = full["timeline"].as_array().unwrap().iter().map(|moment| &moment["what"]).collect();
        assert_eq!(told, ["committed", "failed", "succeeded", "delivered"], "{full}");
        let attempt = &full["timeline"][2];
        assert_eq!((&attempt["status_code"], &attempt["destination"]), (&json!(200), &json!("runner")), "{full}");
        assert!(attempt["took_ms"].is_u64() && attempt["number"] == 2, "{full}");
        let again = desk.post(&format!("/events/{id}/retry"), &json!(null)).await;
        assert!(problem(&again, 409).contains("is already delivered; nothing was changed"), "{again:?}");
        assert_eq!(desk.audit(1).await, [("olga".to_owned(), "retry".to_owned(), Some(1))]);
        desk.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_is_an_event_of_its_own_that_no_dedupe_swallows() {
    for mut desk in [Desk::on_sqlite().await, Desk::on_postgres().await, Desk::on_mariadb().await] {
        let id = desk.emit("1", json!({ "total": 5 })).await;
        desk.wait_for_state(&id, "delivered").await;
        let mut made = Vec::new();
        for count in 2..=3 {
            let replayed = desk.done(&format!("/events/{id}/replay"), &json!(null)).await;
            let new = replayed["events"][0]["replayed_as"].as_str().unwrap().to_owned();
            desk.receiver.wait_for(count, PATIENCE).await.unwrap();
            let full = desk.get(&format!("/events/{new}")).await;
            assert_eq!((&full["replay_of"], &full["payload"]), (&json!(id), &json!({ "total": 5 })), "{full}");
            made.push(new);
        }
        let sent: Vec<String> =
            desk.receiver.received().iter().map(|request| request.id.unwrap().to_string()).collect();
        assert_eq!(sent, [id.clone(), made[0].clone(), made[1].clone()]);
        let unknown = desk.post("/events/01a1e103-6c9a-77a0-90a5-682b95640e6a/replay", &json!(null)).await;
        assert!(problem(&unknown, 404).contains("there is no event"), "{unknown:?}");
        assert_eq!(desk.audit(1).await, [("olga".to_owned(), "replay".to_owned(), Some(1))]);
        desk.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_is_heeded_until_it_ends() {
    for mut desk in [Desk::on_sqlite().await, Desk::on_postgres().await, Desk::on_mariadb().await] {
        let paused = desk.done("/destinations/runner/pause", &json!(null)).await;
        assert_eq!(paused, json!({ "destination": "runner", "paused": true, "changed": true }));
        assert_eq!(desk.done("/destinations/runner/pause", &json!(null)).await["changed"], false);
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let shown = desk.get("/destinations").await["destinations"][0].clone();
            assert_eq!((&shown["health"], &shown["paused_by"]), (&json!("paused"), &json!("olga")), "{shown}");
            if shown["lanes"][0]["paused"] == true {
                break;
            }
            assert!(tokio::time::Instant::now() < deadline, "{shown}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let id = desk.emit("1", json!({})).await;
        desk.wait_for_state(&id, "parked").await;
        assert_eq!(desk.receiver.count(), 0);
        let overview = desk.get("/overview").await;
        let shown = &overview["destinations"][0];
        assert_eq!((&shown["waiting"], &shown["waiting_at_least"]), (&json!(1), &json!(false)), "{shown}");
        assert!(shown["oldest_waiting_seconds"].as_f64().is_some_and(|age| age < 60.0), "{shown}");
        let first = &overview["problems"][0];
        assert_eq!((&first["kind"], &first["destination"]), (&json!("paused"), &json!("runner")), "{first}");
        assert_eq!((&first["title"], &first["paused_by"]), (&json!("runner is paused"), &json!("olga")));
        assert_eq!(desk.done("/destinations/runner/resume", &json!(null)).await["changed"], true);
        desk.wait_for_state(&id, "delivered").await;
        let nowhere = desk.post("/destinations/runer/pause", &json!(null)).await;
        assert_eq!(problem(&nowhere, 404), "there is no destination \"runer\"; choose one of: runner, vault");
        let lines: Vec<String> = desk.audit(3).await.into_iter().map(|(_, what, _)| what).collect();
        assert_eq!(lines, ["resume", "emit", "pause"]);
        desk.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_test_event_is_sent_audited_and_stored_nowhere() {
    for mut desk in [Desk::on_sqlite().await, Desk::on_postgres().await, Desk::on_mariadb().await] {
        let tested = desk.done("/destinations/runner/test", &json!(null)).await;
        assert_eq!((&tested["delivered"], &tested["status_code"]), (&json!(true), &json!(200)), "{tested}");
        let request = &desk.receiver.received()[0];
        assert_eq!(request.headers["pillarbox-test"], "true");
        assert_eq!(request.headers["authorization"], "Bearer hunter2");
        desk.receiver.answer_with(|_| Reply::status(500).body("hunter2 is broken"));
        let tested = desk.done("/destinations/runner/test", &json!(null)).await;
        assert_eq!((&tested["delivered"], &tested["error_kind"]), (&json!(false), &json!("retry")), "{tested}");
        assert!(!tested.to_string().contains("hunter2"), "{tested}");
        let nowhere = desk.post("/destinations/runer/test", &json!(null)).await;
        assert_eq!(problem(&nowhere, 404), "there is no destination \"runer\"; choose one of: runner, vault");
        assert_eq!(desk.get("/events").await["events"], json!([]));
        let line = ("olga".to_owned(), "test".to_owned(), Some(0));
        assert_eq!(desk.audit(9).await, [line.clone(), line]);
        desk.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_masked_and_what_lets_somebody_in_is_in_no_answer() {
    let mut desk = Desk::on_sqlite().await;
    desk.refuse();
    let id = desk.emit("1", json!({ "card": CARD, "total": 5 })).await;
    desk.wait_for_state(&id, "failed").await;
    let document = desk.get("/openapi.json").await;
    let mut read = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        if methods.get("get").is_none() || path.contains("/jobs/{id}") {
            continue;
        }
        let path = if path.ends_with("/find") { format!("{path}?q=Order:1") } else { path.replace("{id}", &id) };
        let answer = desk.client.get(&path).await;
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        assert!(!answer.body.contains(CARD) && !answer.body.contains("hunter2"), "{path}: {answer:?}");
        read += 1;
    }
    assert!(read >= 12, "{read}");
    let payload = desk.get(&format!("/events/{id}/payload")).await;
    assert_eq!(payload, json!({ "card": "•••", "total": 5 }));
    let full = desk.get(&format!("/events/{id}")).await;
    let command = full["requests"][0]["command"].as_str().unwrap();
    assert!(
        command.contains("/events/***?key=***'") && command.contains("Bearer $TOKEN") && command.contains("•••"),
        "{command}"
    );
    desk.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_are_emitted_as_base64_and_shown_without_them_under_a_mask() {
    let mut desk = Desk::on_sqlite().await;
    let event = |more: Value| {
        let mut event = json!({ "aggregate_type": "Order", "aggregate_id": "1", "event_type": "order.placed" });
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        event
    };
    let bytes = json!({ "payload_base64": "CCoA/w==", "content_type": "application/x-protobuf" });
    let id = desk.done("/events", &event(bytes)).await["id"].as_str().unwrap().to_owned();
    desk.wait_for_state(&id, "delivered").await;
    let got = &desk.receiver.received()[0];
    assert_eq!(
        (&*got.body, got.headers["content-type"].as_bytes()),
        (&[8, 42, 0, 255][..], &b"application/x-protobuf"[..])
    );

    // With a mask neither the page nor the API shows any of the bytes.
    let full = desk.get(&format!("/events/{id}")).await;
    let opaque = json!({ "content_type": "application/x-protobuf", "size": 4, "hex": null, "problem": null });
    assert_eq!((&full["payload"], &full["opaque_payload"]), (&json!(null), &opaque));
    assert_eq!(desk.get(&format!("/events/{id}/payload")).await, json!("•••"));
    let page = desk.client.get(&format!("/events/{id}")).await.body;
    assert!(
        page.contains("application/x-protobuf, 4 bytes") && page.contains("values of payloads are masked"),
        "{page}"
    );
    assert!(!page.contains("08 2a") && !page.contains("CCoA"), "{page}");

    for (wrong, what) in [
        (json!({ "payload_base64": "CCoA" }), "give payload alone, or payload_base64 and content_type together"),
        (json!({ "payload": {}, "content_type": "a/b" }), "give payload alone"),
        (json!({ "payload_base64": "C-_=", "content_type": "a/b" }), "is not base64 in a JSON string"),
        (json!({ "payload_base64": "CCoA", "content_type": "protobuf" }), "which is not a content type"),
    ] {
        let refused = desk.post("/events", &event(wrong)).await;
        assert!(problem(&refused, 422).contains(what), "{refused:?}");
    }
    desk.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_is_wrong_is_a_problem_that_says_what() {
    let mut desk = Desk::on_sqlite().await;
    let event = json!({ "aggregate_type": "Order", "aggregate_id": "1", "event_type": "order.placed" });
    let first = desk.post("/events", &event).await;
    let id = first.json()["id"].as_str().unwrap().to_owned();
    assert_eq!((first.status, first.header("location")), (201, format!("/api/v1/events/{id}").as_str()));
    assert!(problem(&desk.post("/events", &event).await, 409).contains("exists already"));
    let once = desk
        .post(
            "/events",
            &json!({ "aggregate_type": "Order", "aggregate_id": "1", "event_type": "order.placed",
                                             "once": true }),
        )
        .await;
    assert_eq!((once.status, &once.json()["is_new"], &once.json()["id"]), (200, &json!(false), &json!(id)));

    for (path, status, what) in [
        ("/events?limt=3", 400, "there is no parameter \"limt\" here; choose from: state, event_type, "),
        ("/dead-letters?state=failed", 400, "choose from: event_type, aggregate_type, aggregate_id, destination"),
        ("/find?q=1&limit=3", 400, "choose from: q"),
        ("/relays?minutes=3", 400, "there is no parameter \"minutes\" here; this address takes none"),
        ("/openapi.json?did=retry", 400, "there is no parameter \"did\" here; this address takes none"),
        ("/events?cursor=a&before=b", 400, "cursor and before exclude each other"),
        ("/events?state=lost", 400, "unknown variant `lost`"),
        ("/events?limit=0", 400, "limit is 0, but must be from 1 to 500"),
        ("/events?search=%00", 400, "search contains a NUL character"),
        ("/events?cursor=xyz", 400, "the cursor does not belong to this list"),
        ("/events/1", 400, "the path is not valid"),
        ("/overview?minutes=100000", 400, "minutes is 100000, but must be from 1 to 1440"),
        ("/events/01a1e103-6c9a-77a0-90a5-682b95640e6a", 404, "there is no event"),
        ("/jobs/01a1e103-6c9a-77a0-90a5-682b95640e6a", 404, "there is no job"),
        ("/nowhere", 404, "nothing was found at this address"),
    ] {
        let answer = desk.client.get(&format!("/api/v1{path}")).await;
        assert!(problem(&answer, status).contains(what), "{path}: {answer:?}");
    }
    for (path, body, status, what) in [
        ("/events/retry?dry_run=1", r#"{"ids":[]}"#, 400, "there is no parameter \"dry_run\" here"),
        ("/events", "{", 400, "the body is not valid: EOF"),
        ("/events", r#"{"aggregate_type":"Order"}"#, 400, "missing field `aggregate_id`"),
        ("/events", r#"{"aggregate_type":"","aggregate_id":"1","event_type":"t"}"#, 422, "aggregate_type is empty"),
        ("/events", r#"["Order", "1", "order.placed"]"#, 400, "expected an object"),
        ("/jobs", r#"{"action":"retry","filter":[]}"#, 400, "expected an object"),
        ("/events/retry", r#"{"ids":[]}"#, 422, "no event ids were given"),
        ("/jobs", r#"{"action":"replay"}"#, 422, "must be set to delivered or failed"),
        ("/jobs", r#"{"action":"retry","rate":0}"#, 422, "rate must be events per second"),
        ("/jobs", r#"{"action":"retry","filter":{"state":"due"}}"#, 422, "must be failed"),
    ] {
        let json = [("content-type", "application/json")];
        let answer = desk.client.send("POST", &format!("/api/v1{path}"), &json, body).await;
        assert!(problem(&answer, status).contains(what), "{path} {body}: {answer:?}");
    }
    let text = desk.client.send("POST", "/api/v1/events", &[("content-type", "text/plain")], "{}").await;
    assert!(problem(&text, 415).contains("application/json"));
    let large = json!({ "aggregate_type": "Order", "payload": "x".repeat(3 << 20) });
    assert!(problem(&desk.post("/events", &large).await, 413).contains("bytes"));
    let method = desk.client.send("DELETE", "/api/v1/events", &[], "").await;
    assert!(problem(&method, 405).contains("Allow") && method.header("allow").contains("POST"), "{method:?}");

    desk.client.headers.clear();
    for path in ["/events", "/openapi.json", "/audit"] {
        problem(&desk.client.get(&format!("/api/v1{path}")).await, 401);
    }
    problem(&desk.post("/events", &event).await, 401);
    desk.close().await;
}
