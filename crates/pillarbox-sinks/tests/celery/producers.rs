//! Workflows from Rust, the whole way: emitted in a transaction, relayed to a broker, run by a real worker. What they
//! came to is read from the result backend.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ::redis::AsyncTypedCommands;
use ::redis::aio::MultiplexedConnection;
use chrono::{SubsecRound, Utc};
use pillarbox::celery::{Sent, Signature, Task, chain, chord, group, send};
use pillarbox::store::sqlite::SqliteStore;
use pillarbox::{Destination, Relay, Route};
use pillarbox_sinks::celery::CelerySettings;
use pillarbox_testkit::{Celery, CeleryWorker, wait_until};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::fixture::{PATIENCE, settings, shared_redis, sink, unique};

/// An application with its outbox, a relay, and a worker on a queue of their own.
struct Shop {
    store: Arc<SqliteStore>,
    relay: Relay,
    results: MultiplexedConnection,
    _worker: CeleryWorker,
    _directory: TempDir,
}

impl Shop {
    async fn open(celery: Celery, broker: &str) -> Self {
        let queue = unique("producers");
        let backend = pillarbox_testkit::redis::shared_url();
        let environment = [("CELERY_BROKER_URL", broker), ("CELERY_RESULT_BACKEND", &backend), ("QUEUE", &queue)];
        let app = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/celery/worker.py");
        let worker = CeleryWorker::start(celery, &app, &environment).await;
        let directory = TempDir::new().unwrap();
        let store = SqliteStore::open(directory.path().join("shop.db")).await.unwrap();
        store.migrate().await.unwrap();
        let store = Arc::new(store);
        let sink = sink(CelerySettings { default_queue: queue, ..settings(broker) });
        let relay = Relay::builder(Arc::clone(&store) as Arc<_>)
            .destination(Destination::new("celery", sink))
            .route(Route::new("*", ["celery"]))
            .build()
            .unwrap();
        Self { store, relay, results: shared_redis().await, _worker: worker, _directory: directory }
    }

    /// Commits a workflow; it is on its way when this returns.
    async fn send(&self, workflow: impl Into<Signature>) -> Sent {
        let mut tx = self.store.pool().begin().await.unwrap();
        let sent = send(&mut tx, workflow).await.unwrap();
        tx.commit().await.unwrap();
        let pass = self.relay.run_once().await.unwrap();
        assert_eq!(pass.remaining, 0, "{pass:?}");
        sent
    }

    /// What the task of this id has come to.
    async fn outcome(&mut self, id: &str) -> Value {
        let key = format!("celery-task-meta-{id}");
        let mut meta = None;
        wait_until("the task has ended", PATIENCE, async || {
            meta = self.results.get(&key).await.unwrap();
            meta.is_some()
        })
        .await;
        serde_json::from_str(&meta.unwrap()).unwrap()
    }

    async fn result(&mut self, id: &str) -> Value {
        let mut outcome = self.outcome(id).await;
        assert_eq!(outcome["status"], "SUCCESS", "{outcome}");
        outcome["result"].take()
    }

    /// What the workflow has come to.
    async fn run(&mut self, workflow: impl Into<Signature>) -> Value {
        let sent = self.send(workflow).await;
        self.result(&sent.id).await
    }
}

fn add(args: &[i32]) -> Task {
    args.iter().fold(Task::new("add"), Task::arg)
}

fn total() -> Task {
    Task::new("total")
}

async fn a_task_knows_what_it_was_told(shop: &mut Shop) {
    let eta = (Utc::now() + Duration::from_millis(300)).trunc_subsecs(6);
    let expires = eta + Duration::from_secs(60);
    let big = serde_json::value::RawValue::from_string("123456789012345678901234567890".to_owned()).unwrap();
    let task = Task::new("show")
        .arg("é 😀 \0 'quoted'")
        .arg(big)
        .kwarg("deep", json!({ "a": [1.5, null, { "b": [true] }] }))
        .eta(eta)
        .expires_at(expires)
        .time_limit(Duration::from_secs(20))
        .soft_time_limit(Duration::from_secs(10))
        .shadow("shown")
        .header("tenant", "acme")
        .stamp("trace", "t1")
        .root_id("root")
        .parent_id("parent")
        .priority(3);
    let sent = shop.send(task).await;
    let key = format!("celery-task-meta-{}", sent.id);
    let shown = shop.result(&sent.id).await;
    assert!(Utc::now() >= eta, "it was not run before its time");
    let stored: String = shop.results.get(&key).await.unwrap().unwrap();
    assert!(stored.contains("123456789012345678901234567890"), "{stored}");
    assert_eq!(shown["args"][0], "é 😀 \0 'quoted'");
    assert_eq!(shown["kwargs"], json!({ "deep": { "a": [1.5, null, { "b": [true] }] } }));
    assert_eq!((&shown["root_id"], &shown["parent_id"]), (&json!("root"), &json!("parent")));
    assert_eq!((&shown["timelimit"], &shown["retries"]), (&json!([20, 10]), &json!(0)));
    assert_eq!((&shown["shadow"], &shown["tenant"]), (&json!("shown"), &json!("acme")));
    assert_eq!((&shown["stamps"], &shown["priority"]), (&json!({ "trace": "t1" }), &json!(3)));
    let moment = |name: &str| shown[name].as_str().unwrap().parse::<chrono::DateTime<Utc>>().unwrap();
    assert_eq!((moment("eta"), moment("expires")), (eta, expires));
}

async fn links_are_called(shop: &mut Shop) {
    let (called, explained) = (unique("called"), unique("explained"));
    let callback = Task::new("show").kwarg("by", "link").task_id(&*called);
    let errback = Task::new("explain").task_id(&*explained);
    let sent = shop.send(add(&[1, 2]).link(callback).link_error(errback.clone())).await;
    let shown = shop.result(&called).await;
    assert_eq!((&shown["args"], &shown["kwargs"]["by"]), (&json!([3]), &json!("link")));
    assert_eq!((&shown["parent_id"], &shown["root_id"]), (&json!(sent.id), &json!(sent.id)));
    let failed = shop.send(Task::new("fail").link_error(errback)).await;
    assert_eq!(shop.outcome(&failed.id).await["status"], "FAILURE");
    assert_eq!(shop.result(&explained).await, format!("{} failed", failed.id));
}

async fn chains_pass_results_on(shop: &mut Shop) {
    let shown = chain([add(&[1, 2]), add(&[3]), Task::new("show").arg("more")]);
    let sent = shop.send(shown.stamp("workflow", 7)).await;
    let shown = shop.result(&sent.id).await;
    assert_eq!(shown["args"], json!([6, "more"]));
    assert_eq!((&shown["root_id"], &shown["parent_id"]), (&json!(sent.tasks[0]), &json!(sent.tasks[1])));
    assert_eq!(shown["stamps"], json!({ "workflow": 7 }));
    let immutable = chain([add(&[1, 2]), add(&[30, 40]).immutable()]);
    assert_eq!(shop.run(immutable).await, 70);
}

async fn groups_run_all_their_members(shop: &mut Shop) {
    let members = group([Task::new("show").into(), chain([add(&[1, 2]), Task::new("show")])]);
    let sent = shop.send(members).await;
    let alone = shop.result(&sent.tasks[0]).await;
    let chained = shop.result(&sent.tasks[2]).await;
    assert_eq!((&alone["group"], &alone["group_index"]), (&json!(sent.id), &json!(0)));
    assert_eq!((&chained["group"], &chained["group_index"]), (&json!(sent.id), &json!(1)));
    assert_eq!(chained["args"], json!([3]));
}

async fn chords_wait_for_their_headers(shop: &mut Shop) {
    let header = || [add(&[1, 2]), add(&[3, 4])];
    assert_eq!(shop.run(chord(header(), total())).await, 10);
    assert_eq!(shop.run(chain([chord(header(), total()), add(&[100]).into()])).await, 110);
    assert_eq!(shop.run(chain([group(header()), total().into(), add(&[200]).into()])).await, 210);
    let first = || Signature::from(add(&[1, 2]));
    let pair = || group([add(&[10]), add(&[20])]);
    assert_eq!(shop.run(chain([first(), pair(), total().into(), add(&[1]).into()])).await, 37);
    let sums = group([total(), total()]);
    assert_eq!(shop.run(chain([first(), pair(), sums, total().into()])).await, 72);
    let nested = chord([chain([first(), add(&[5]).into()]), chord(header(), total())], chain([total(), add(&[1])]));
    assert_eq!(shop.run(nested).await, 19);
    let sent = shop.send(chain([first(), pair()])).await;
    assert_eq!((shop.result(&sent.tasks[1]).await, shop.result(&sent.tasks[2]).await), (json!(13), json!(23)));
}

async fn a_chord_fails_with_its_header(shop: &mut Shop) {
    let explained = unique("explained");
    let errback = Task::new("explain").task_id(&*explained);
    let sent = shop.send(chord([add(&[1, 2]), Task::new("fail")], total()).on_error(errback)).await;
    assert_eq!(shop.outcome(&sent.id).await["status"], "FAILURE");
    assert_eq!(shop.result(&explained).await, format!("{} failed", sent.id));
}

async fn everything_is_run(celery: Celery, broker: &str) {
    let mut shop = Shop::open(celery, broker).await;
    a_task_knows_what_it_was_told(&mut shop).await;
    links_are_called(&mut shop).await;
    chains_pass_results_on(&mut shop).await;
    groups_run_all_their_members(&mut shop).await;
    chords_wait_for_their_headers(&mut shop).await;
    a_chord_fails_with_its_header(&mut shop).await;
}

#[tokio::test]
async fn the_newest_worker_on_redis_runs_what_rust_sends() {
    everything_is_run(Celery::Newest, &pillarbox_testkit::redis::shared_url()).await;
}

#[tokio::test]
async fn the_oldest_worker_on_rabbitmq_runs_what_rust_sends() {
    everything_is_run(Celery::Oldest, &pillarbox_testkit::rabbitmq::shared_url()).await;
}
