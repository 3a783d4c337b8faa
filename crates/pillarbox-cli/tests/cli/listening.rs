//! Who listens to a relay: a parent that reads its report, a probe that looks at its file, a metrics server.

use std::net::UdpSocket;
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use pillarbox::Inspect;
use pillarbox::celery::Task;
use pillarbox::store::sqlite::SqliteStore;
use pillarbox_testkit::process::{Program, Signal};
use pillarbox_testkit::receiver::{Answer, Receiver};
use pillarbox_testkit::wait_until;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::delivering::{PATIENCE, to_receiver};
use crate::deploy;
use crate::home::{DISCARD, Home};

const TWO_ATTEMPTS: &str = "[relay.retry]\nbase = \"20ms\"\njitter = 0.0\nmax_attempts = 2\n";

/// A receiver that refuses what is said to be bad.
async fn choosy() -> (Receiver, Home) {
    let receiver = Receiver::start().await;
    receiver.answer_with(|request| {
        let bad = String::from_utf8_lossy(&request.body).contains("bad");
        if bad { Answer::status(500) } else { Answer::ok() }
    });
    let home = to_receiver(&receiver, TWO_ATTEMPTS);
    (receiver, home)
}

pub(crate) async fn start(home: &Home, arguments: &[&str]) -> Program {
    let relay = Program::start(home.command(arguments));
    relay.wait_for_line("relay started", PATIENCE).await.unwrap();
    relay
}

pub(crate) fn report(relay: &Program) -> Vec<Value> {
    let lines = relay.lines();
    let lines = lines.iter().filter(|line| line.starts_with("{\"outcome\""));
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_report_tells_a_parent_what_became_of_each_event() {
    let (_receiver, home) = choosy().await;
    let mut relay = start(&home, &["relay", "--report"]).await;
    let good = home.emit("1", &["{}"]);
    let bad = home.emit("2", &["\"bad\""]);
    let unrouted = home.json(&["emit", "Order", "3", "invoice.sent"])["id"].clone();
    relay.wait_for_line("\"sent\"", PATIENCE).await.unwrap();
    relay.wait_for_line("\"dead_lettered\"", PATIENCE).await.unwrap();
    assert!(relay.terminate(PATIENCE).await.unwrap().success());
    relay.wait_for_line("report complete", PATIENCE).await.unwrap();

    let lines = report(&relay);
    let of = |id: &str| lines.iter().filter(|line| line["id"] == id).cloned().collect::<Vec<_>>();
    let sent = json!({ "outcome": "sent", "id": good, "event_type": "order.placed", "aggregate_type": "Order",
                       "aggregate_id": "1", "destination": "runner", "attempts": 0 });
    assert_eq!(of(&good), [sent]);
    let [failed, dead] = &of(&bad)[..] else { panic!("{lines:?}") };
    assert_eq!((&failed["outcome"], &failed["attempts"]), (&json!("failed"), &json!(1)));
    assert_eq!(
        (&dead["outcome"], &dead["attempts"], &dead["destination"]),
        (&json!("dead_lettered"), &json!(2), &json!("runner"))
    );
    assert!(dead["error"].as_str().unwrap().contains("500"), "{dead}");
    assert!(of(unrouted.as_str().unwrap()).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parent_that_does_not_read_or_is_gone_holds_nobody_up() {
    for reads in [true, false] {
        let home = Home::with_config(DISCARD);
        let store = SqliteStore::open(home.path("pillarbox.db")).await.unwrap();
        store.migrate().await.unwrap();
        let mut command = home.command(&["relay", "--report"]);
        let mut relay = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let out = relay.stdout.take().filter(|_| reads);
        let mut tx = store.pool().begin().await.unwrap();
        // More than a pipe holds.
        let events = (0..1000).map(|number| pillarbox::Event::new("Order", number, "order.placed"));
        pillarbox::emit_all(&mut tx, events).await.unwrap();
        tx.commit().await.unwrap();
        wait_until("all are sent", PATIENCE, async || store.counts().await.unwrap().delivered == 1000).await;
        drop(out);
        Signal::Terminate.send(relay.id());
        assert!(relay.wait().unwrap().success());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_go_to_a_dogstatsd_server() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    let (_receiver, mut home) = choosy().await;
    home.set("PILLARBOX_METRICS_STATSD", &server.local_addr().unwrap().to_string());
    home.set("PILLARBOX_METRICS_TAGS", "service=shop");
    home.set("PILLARBOX_METRICS_EVERY", "500ms");
    let mut relay = start(&home, &["relay"]).await;
    home.emit("1", &["{}"]);
    home.emit("2", &["\"bad\""]);
    home.send_task(Task::new("order.task")).await;
    let mut awaited = vec![
        "pillarbox.messages.published:1|c|#event_type:order.placed,service:shop",
        "pillarbox.messages.published:1|c|#task_name:order.task,service:shop",
        "pillarbox.messages.failed:1|c|#event_type:order.placed,exception_type:retry,service:shop",
        "pillarbox.messages.exceeded:1|c|#event_type:order.placed,exception_type:retry,service:shop",
        "pillarbox.send_latency_ms:",
        "pillarbox.batch.duration_ms:",
        "pillarbox.queue.depth:",
        "pillarbox.dead_letter.count:1|g|#service:shop",
        "pillarbox.oldest_pending_age_seconds:",
    ];
    let mut datagram = [0; 2048];
    while !awaited.is_empty() {
        let length = server.recv(&mut datagram).unwrap_or_else(|error| panic!("{error}; missing: {awaited:?}"));
        let text = String::from_utf8(datagram[..length].to_vec()).unwrap();
        awaited.retain(|part| !text.lines().any(|line| line.starts_with(part)));
    }
    // A server that is gone is no trouble.
    drop(server);
    let id = home.emit("4", &["{}"]);
    wait_until("it is sent", PATIENCE, async || home.state(&id) == "delivered").await;
    assert!(relay.terminate(PATIENCE).await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_liveness_file_is_touched_only_when_the_loop_turns() {
    let home = Home::with_config(DISCARD);
    let store = SqliteStore::open(home.path("pillarbox.db")).await.unwrap();
    store.migrate().await.unwrap();
    let mut relay = Program::start(home.command(&["relay", "--liveness-file", "alive"]));
    let age = || {
        let modified = home.path("alive").metadata().and_then(|file| file.modified()).ok()?;
        Some(SystemTime::now().duration_since(modified).unwrap_or_default())
    };
    wait_until("it is there", PATIENCE, async || age().is_some()).await;
    // What comes due cannot be claimed while somebody else writes.
    let soon = chrono::Utc::now() + Duration::from_secs(1);
    home.emit("1", &["--deliver-at", &soon.to_rfc3339()]);
    let writing = store.pool().begin_with("BEGIN IMMEDIATE").await.unwrap();
    wait_until("it gets old", PATIENCE, async || age() > Some(Duration::from_secs(3))).await;
    writing.rollback().await.unwrap();
    wait_until("it is touched again", PATIENCE, async || age() < Some(Duration::from_secs(1))).await;
    assert!(relay.terminate(PATIENCE).await.unwrap().success());

    let refused = home.run(&["relay", "--liveness-file", "missing/alive"]);
    assert_eq!(refused.code, 1);
    assert!(refused.err.contains("the liveness file missing/alive cannot be written"), "{refused:?}");
}

/// What is served there: the status and the body.
pub(crate) async fn get(address: &str, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

/// The value of a series.
pub(crate) fn metric(metrics: &str, series: &str) -> Option<f64> {
    metrics.lines().find_map(|line| line.strip_prefix(series)?.trim().parse().ok())
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_and_health_are_served() {
    let (_receiver, home) = choosy().await;
    let mut command = home.command(&["relay"]);
    command.env("PILLARBOX_METRICS_LISTEN", "127.0.0.1:0").env("PILLARBOX_METRICS_EVERY", "50ms");
    let mut relay = Program::start(command);
    let served = relay.wait_for_line("metrics and health are served", PATIENCE).await.unwrap();
    let address = served.split("address=").nth(1).unwrap().trim().to_owned();
    home.emit("1", &["{}"]);
    home.emit("2", &["\"bad\""]);
    home.json(&["emit", "Other", "3", "invoice.sent"]);
    let metrics = async || get(&address, "/metrics").await.1;
    wait_until("both are counted", PATIENCE, async || {
        let text = metrics().await;
        metric(&text, "pillarbox_events_delivered_total{event_type=\"order.placed\"}") == Some(1.0)
            && metric(&text, "pillarbox_events_given_up_total{event_type=\"order.placed\"}") == Some(1.0)
            && metric(&text, "pillarbox_dead_letters") == Some(1.0)
            && metric(&text, "pillarbox_destination_parked_events{destination=\"unrouted\"}") == Some(1.0)
    })
    .await;
    let text = metrics().await;
    assert_eq!(metric(&text, "pillarbox_events_retried_total{event_type=\"order.placed\"}"), Some(1.0), "{text}");
    let failed = "pillarbox_attempts_failed_total{destination=\"runner\",kind=\"retry\"}";
    assert_eq!(metric(&text, failed), Some(2.0), "{text}");
    assert_eq!(metric(&text, "pillarbox_delivery_latency_seconds_count{destination=\"runner\"}"), Some(1.0), "{text}");
    assert_eq!(metric(&text, "pillarbox_destination_down{destination=\"runner\"}"), Some(0.0), "{text}");
    assert_eq!(metric(&text, "pillarbox_destination_parked_events{destination=\"runner\"}"), Some(0.0), "{text}");
    let oldest = metric(&text, "pillarbox_destination_oldest_parked_seconds{destination=\"unrouted\"}");
    assert!(oldest.is_some_and(|age| age > 0.0), "{text}");
    assert_eq!(metric(&text, "pillarbox_in_flight_events"), Some(0.0), "{text}");

    deploy::check_metrics(&text);

    for path in ["/healthz", "/readyz"] {
        let (status, body) = get(&address, path).await;
        let answer: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((status, &answer["ok"], &answer["database"]), (200, &json!(true), &json!("ok")), "{path}: {body}");
    }
    let health = |arguments: &[&str]| {
        let mut command = home.command(arguments);
        command.env("PILLARBOX_METRICS_LISTEN", &address).output().unwrap()
    };
    assert!(health(&["health"]).status.success());
    assert!(health(&["health", "--ready"]).status.success());
    relay.kill().await;
    let gone = health(&["health", "--ready"]);
    assert_eq!(gone.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&gone.stderr).contains("check that it is running"), "{gone:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_manager_hears_that_the_loop_turns() {
    let home = Home::with_config(DISCARD);
    let path = home.path("notify");
    let manager = tokio::net::UnixDatagram::bind(&path).unwrap();
    let mut command = home.command(&["relay"]);
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "200000").env("PILLARBOX_RELAY_POLL_INTERVAL", "20ms");
    let mut relay = Program::start(command);
    let mut news = [0; 100];
    for expected in ["READY=1\nWATCHDOG=1", "WATCHDOG=1", "WATCHDOG=1"] {
        let length = tokio::time::timeout(PATIENCE, manager.recv(&mut news)).await.unwrap().unwrap();
        assert_eq!(String::from_utf8_lossy(&news[..length]), expected);
    }
    relay.kill().await;
}
