//! Tasks for Celery's workers, to real brokers: from the tables of django-celery-outbox, and from our own.

use lapin::message::BasicGetMessage;
use lapin::options::BasicGetOptions;
use lapin::{Connection, ConnectionProperties};
use pillarbox::celery::Task;
use pillarbox_testkit::celery_outbox::CeleryOutbox;
use pillarbox_testkit::redis::Redis;
use pillarbox_testkit::{rabbitmq, wait_until};
use redis::AsyncCommands;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::delivering::PATIENCE;
use crate::home::Home;
use crate::listening::{report, start};

/// For those who have no configuration but two variables.
fn adopting(outbox: &CeleryOutbox, broker: &str) -> Home {
    let mut home = Home::new();
    home.set("PILLARBOX_DATABASE_URL", &outbox.url());
    home.set("PILLARBOX_BROKER_URL", broker);
    home
}

async fn emptied(outbox: &CeleryOutbox) {
    wait_until("the table is empty", PATIENCE, async || outbox.rows().await.is_empty()).await;
}

/// What Celery's workers would find in Redis, oldest first.
pub(crate) async fn in_redis(redis: &Redis, queue: &str) -> Vec<Value> {
    let mut connection = pillarbox_testkit::redis::connect(&redis.url()).await;
    let messages: Vec<String> = connection.lrange(queue, 0, -1).await.unwrap();
    messages.iter().rev().map(|message| serde_json::from_str(message).unwrap()).collect()
}

/// What Celery's workers would find in the shared RabbitMQ.
pub(crate) async fn in_rabbitmq(queue: &str) -> Vec<BasicGetMessage> {
    let url = rabbitmq::shared_url();
    let url = format!("{}/%2f", url.trim_end_matches('/'));
    let connection = Connection::connect(&url, ConnectionProperties::default()).await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    let mut messages = Vec::new();
    while let Some(message) = channel.basic_get(queue.into(), BasicGetOptions { no_ack: true }).await.unwrap() {
        messages.push(message);
    }
    messages
}

#[tokio::test(flavor = "multi_thread")]
async fn celery_relay_needs_nothing_but_a_database_and_a_broker() {
    let (outbox, redis) = (CeleryOutbox::create().await, Redis::start().await);
    let home = adopting(&outbox, &redis.url());
    outbox.add(20).await;
    let mut arguments = vec!["celery-relay", "--report", "--liveness-file", "alive"];
    arguments.extend(["--batch-size", "7", "--idle-time", "0.02", "--backoff-time", "1", "--max-retries", "3"]);
    arguments.extend(["--publish-concurrency", "2", "--queue-snapshot-refresh-seconds", "1", "--max-backoff", "60"]);
    arguments.extend(["--stale-timeout-seconds", "60", "--send-timeout", "5", "--shutdown-timeout", "5"]);
    arguments.extend(["--broker-outage-cooldown", "1"]);
    let mut relay = start(&home, &arguments).await;
    emptied(&outbox).await;
    outbox.add(1).await;
    emptied(&outbox).await;
    wait_until("the file is there", PATIENCE, async || home.path("alive").exists()).await;
    assert!(relay.terminate(PATIENCE).await.unwrap().success());

    let sent = in_redis(&redis, "celery").await;
    assert_eq!(sent.len(), 21);
    assert!(sent.iter().all(|message| message["headers"]["task"] == "orders.process"), "{sent:?}");
    for name in ["relay_started", "batch_processed", "relay_shutdown"] {
        let name = format!("celery_outbox_{name}");
        assert!(relay.lines().iter().any(|line| line.contains(&name)), "{name} in {:?}", relay.lines());
    }
    let lines = report(&relay);
    assert_eq!(lines.len(), 21);
    assert!(lines.iter().all(|line| line["outcome"] == "sent" && line["aggregate_type"] == "celery"), "{lines:?}");
    assert!(lines.iter().any(|line| line["aggregate_id"] == "task-20" && line["event_type"] == "orders.process"));
}

#[tokio::test(flavor = "multi_thread")]
async fn relay_and_sweep_and_stats_work_on_the_tables_of_django_celery_outbox() {
    let outbox = CeleryOutbox::create().await;
    let queue = format!("cli-{}", Uuid::new_v4());
    let mut home = adopting(&outbox, &rabbitmq::shared_url());
    home.write(
        "pillarbox.toml",
        &format!(
            "[source]\nkind = \"django-celery-outbox\"\n[destinations.rabbit]\nkind = \"celery\"\n\
             broker = \"env:PILLARBOX_BROKER_URL\"\ndefault_queue = \"missing-{queue}\"\n\
             [[destinations.rabbit.routes]]\ntasks = \"orders.*\"\nqueue = \"{queue}\"\n"
        ),
    );
    outbox.add(2).await;
    assert_eq!(home.json(&["stats"])["due"], 2);

    // Nobody has declared the queue: the broker gives the tasks back.
    home.set("PILLARBOX_RELAY_RETRY_MAX_ATTEMPTS", "1");
    let mut relay = start(&home, &["relay", "--report"]).await;
    emptied(&outbox).await;
    assert!(relay.terminate(PATIENCE).await.unwrap().success());
    let lines = report(&relay);
    assert!(lines.iter().all(|line| line["outcome"] == "dead_lettered" && line["attempts"] == 1), "{lines:?}");
    let dead = outbox.dead_letters().await;
    assert_eq!(dead.len(), 2);
    assert!(dead.iter().all(|(_, _, why)| why.as_deref().unwrap().contains(&queue)), "{dead:?}");
    assert_eq!(home.json(&["stats"]), json!({ "due": 0, "failed": 2, "oldest_due_seconds": null }));
    let told = home.run(&["stats"]).succeeded();
    assert!(told.out.contains("dead letters  2") && told.err.contains("celery_outbox_stats"), "{told:?}");

    let declaring = std::fs::read_to_string(home.path("pillarbox.toml")).unwrap();
    home.write("pillarbox.toml", &declaring.replace("kind = \"celery\"\n", "kind = \"celery\"\ndeclare = true\n"));
    outbox.add(10).await;
    assert_eq!(home.json(&["sweep", "--all"]), json!({ "processed": 10, "remaining": 0 }));
    assert_eq!(in_rabbitmq(&queue).await.len(), 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_is_killed_costs_no_task_and_no_retry() {
    let (outbox, mut redis) = (CeleryOutbox::create().await, Redis::start().await);
    let home = adopting(&outbox, &redis.url());
    let flags = ["--max-retries", "1", "--broker-outage-cooldown", "1", "--batch-size", "10"];
    let mut relay =
        start(&home, &[&["celery-relay", "--report", "--liveness-file", "alive"][..], &flags].concat()).await;
    outbox.add(30).await;
    emptied(&outbox).await;
    redis.kill().await;
    outbox.add(30).await;
    relay.wait_for_line("destination is down", PATIENCE).await.unwrap();
    let alive = || home.path("alive").metadata().and_then(|file| file.modified()).unwrap();
    let before = alive();
    wait_until("the loop turns", PATIENCE, async || alive() > before).await;
    assert!(outbox.rows().await.iter().all(|row| row.retries == 0));
    redis.start_again().await;
    emptied(&outbox).await;
    assert!(relay.terminate(PATIENCE).await.unwrap().success());
    assert!(outbox.dead_letters().await.is_empty());
    assert_eq!(in_redis(&redis, "celery").await.len(), 60);
    assert_eq!(report(&relay).len(), 60, "outages are not told of");
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_in_our_own_tables_go_to_the_broker_of_the_environment() {
    let redis = Redis::start().await;
    let mut home = Home::new();
    home.set("PILLARBOX_BROKER_URL", &redis.url());
    let other = home.emit("1", &[]);
    home.send_task(Task::new("orders.process").arg(1).task_id("t1")).await;
    let refused = home.run(&["emit", "celery", "t2", "orders.process"]);
    assert!(refused.code != 0 && refused.err.contains("reserved for recorded Celery tasks"), "{refused:?}");
    assert_eq!(home.json(&["sweep", "--all"])["remaining"], 0);
    let sent = in_redis(&redis, "celery").await;
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0]["headers"]["id"], "t1");
    assert_eq!(home.state(&other), "parked");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_brokers_password_is_never_shown() {
    let outbox = CeleryOutbox::create().await;
    let mut home = adopting(&outbox, &rabbitmq::shared_url().replace("guest:guest@", "ann:hunter2@"));
    home.set("RUST_LOG", "debug,sqlx=warn");
    outbox.add(1).await;
    let mut relay = start(&home, &["celery-relay", "--report"]).await;
    wait_until("it was tried", PATIENCE, async || {
        relay.lines().iter().any(|line| line.contains("destination=\"celery\"") || line.contains("destination is"))
    })
    .await;
    assert!(relay.terminate(PATIENCE).await.unwrap().success());
    assert!(!relay.lines().iter().any(|line| line.contains("hunter2")), "{:?}", relay.lines());
    assert!(!home.run(&["check-config"]).succeeded().out.contains("hunter2"));
    assert_eq!(outbox.rows().await[0].retries, 0, "an outage uses none");
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_without_effect_there_are_remarked_on() {
    let outbox = CeleryOutbox::create().await;
    let mut home = adopting(&outbox, "redis://127.0.0.1:1/0");
    home.set("PILLARBOX_SOURCE_KIND", "django-celery-outbox");
    assert_eq!(home.json(&["check-config"])["remarks"].as_array().unwrap().len(), 0);
    home.set("PILLARBOX_RELAY_ON_DELIVERED", "keep");
    home.set("PILLARBOX_RELAY_CLEANUP_FAILED_AFTER", "1d");
    let remarks = home.json(&["check-config"])["remarks"].to_string();
    assert!(remarks.contains("\\\"keep\\\" has no effect: delivered tasks are deleted"), "{remarks}");
    assert!(remarks.contains("[relay.cleanup] has no effect") && remarks.contains("purge_dead_letter"), "{remarks}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_makes_no_sense_there_names_what_does() {
    let outbox = CeleryOutbox::create().await;
    let mut home = adopting(&outbox, "redis://127.0.0.1:1/0");
    for (flag, value, problem) in [
        ("--batch-size", "0", "--batch-size is 0, but must be at least 1"),
        ("--send-timeout", "0", "--send-timeout is 0s, but must be longer"),
        ("--idle-time", "soon", "write a number of seconds"),
        ("--stale-timeout-seconds", "5", "must be less than relay.lease (5s)"),
    ] {
        let done = home.run(&["celery-relay", flag, value]);
        assert_eq!(done.code, 2, "{done:?}");
        assert!(done.err.contains(problem), "{done:?}");
    }
    home.set("PILLARBOX_SOURCE_KIND", "django-celery-outbox");
    for (arguments, instead) in [
        (&["events", "list"][..], "manage.py celery_outbox_stats"),
        (&["cleanup"], "manage.py celery_outbox_purge_dead_letter"),
        (&["emit", "a", "1", "b"], "OutboxCelery"),
        (&["migrate"], "manage.py migrate django_celery_outbox"),
    ] {
        let done = home.run(arguments);
        assert_eq!(done.code, 2, "{done:?}");
        assert!(done.err.contains(instead), "{done:?}");
    }
    let done = Home::new().run(&["celery-relay"]);
    assert_eq!(done.code, 2);
    assert!(done.err.contains("PILLARBOX_DATABASE_URL"), "{done:?}");
    let mut home = Home::new();
    home.set("PILLARBOX_DATABASE_URL", &outbox.url());
    let done = home.run(&["celery-relay"]);
    assert_eq!(done.code, 2);
    assert!(done.err.contains("set PILLARBOX_BROKER_URL"), "{done:?}");
    let help = home.run(&["celery-relay", "--help"]).succeeded().out;
    assert!(help.contains("--queue-snapshot-refresh-seconds") && help.contains("PILLARBOX_BROKER_URL"), "{help}");
}
