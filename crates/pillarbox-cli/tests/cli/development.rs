//! `pillarbox dev`: one command to develop with.

use std::process::Stdio;

use pillarbox_testkit::postgres::TestDatabase;
use pillarbox_testkit::process::Program;
use pillarbox_testkit::receiver::Receiver;
use pillarbox_testkit::wait_until;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::client::Client;
use crate::delivering::{PATIENCE, to_receiver};
use crate::home::{DISCARD, Home};

async fn dev(home: &Home, arguments: &[&str]) -> Program {
    let dev = Program::start(home.command(&[&["dev"], arguments].concat()));
    dev.wait_for_line("pillarbox emit Order 42", PATIENCE).await.unwrap();
    dev
}

#[tokio::test(flavor = "multi_thread")]
async fn an_emitted_event_is_delivered_and_printed() {
    let home = Home::new();
    let mut dev = dev(&home, &[]).await;
    assert!(dev.lines().iter().any(|line| line.contains("outbox   sqlite://pillarbox.db")), "{:?}", dev.lines());
    let id = home.emit("42", &[r#"{"total": "19.90", "note": "\u001b[2J"}"#]);
    let printed = dev.wait_for_line("204", PATIENCE).await.unwrap();
    assert_eq!(printed, format!("order.placed  {id}  Order 42  attempt 1: 204"));
    dev.wait_for_line("    \"total\": \"19.90\"", PATIENCE).await.unwrap();
    wait_until("it is settled", PATIENCE, async || home.state(&id) == "delivered").await;
    assert!(dev.terminate(PATIENCE).await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_attempts_fail_if_that_is_asked_for_and_retries_come_soon() {
    let database = TestDatabase::create().await;
    // Whatever the configuration says.
    let home = Home::with_config("[relay.retry]\nbase = \"1h\"\ncap = \"2h\"\n");
    let url = database.url();
    let mut dev = Program::start(home.command(&["dev", "--fail", "2", "--json", "--database", &url]));
    let begun = dev.wait_for_line("\"receiver\":\"http://127.0.0.1:", PATIENCE).await.unwrap();
    let begun: Value = serde_json::from_str(&begun).unwrap();
    assert_eq!((&begun["outbox"], &begun["pages"]), (&json!(url), &Value::Null));
    let mut emit = home.command(&["emit", "Order", "1", "order.placed", "{\"n\": 10000000000000000000000.10}"]);
    assert!(emit.env("PILLARBOX_DATABASE_URL", &url).stdout(Stdio::null()).status().unwrap().success());
    dev.wait_for_line("\"204\"", PATIENCE).await.unwrap();
    assert!(dev.terminate(PATIENCE).await.unwrap().success());
    let lines = dev.lines();
    let attempts = lines.iter().filter(|line| line.contains("\"attempt\""));
    let attempts: Vec<Value> = attempts.map(|line| serde_json::from_str(line).unwrap()).collect();
    let [first, second, third] = &attempts[..] else { panic!("{lines:?}") };
    assert_eq!((&first["attempt"], &second["attempt"], &third["attempt"]), (&json!(1), &json!(2), &json!(3)));
    assert!(first["result"].as_str().unwrap().starts_with("500, --fail 2: attempt 1"), "{first}");
    assert_eq!((&third["event_type"], &third["aggregate_id"]), (&json!("order.placed"), &json!("1")));
    assert!(lines.iter().any(|line| line.contains("10000000000000000000000.10")), "{lines:?}");
    assert!(!home.path("pillarbox.db").exists());
    database.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn routes_of_the_configuration_are_used() {
    let receiver = Receiver::start().await;
    let home = to_receiver(&receiver, "");
    let refused = home.run(&["dev", "--fail", "1"]);
    assert!(refused.code == 2 && refused.err.contains("the configuration has routes"), "{refused:?}");
    let mut dev = dev(&home, &[]).await;
    let id = home.emit("1", &[]);
    dev.wait_for_line(&format!("order.placed  {id}  Order 1  attempt 1: delivered to runner"), PATIENCE).await.unwrap();
    receiver.wait_for(1, PATIENCE).await.unwrap();
    assert!(dev.terminate(PATIENCE).await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_are_served_at_a_free_port() {
    let home = Home::with_config(DISCARD);
    // The default port may be taken on this machine, or not: both work.
    let start = async || {
        let mut command = home.command(&["dev"]);
        command.env_remove("PILLARBOX_ADMIN_LISTEN");
        let dev = Program::start(command);
        let line = dev.wait_for_line("pages    http://127.0.0.1:", PATIENCE).await.unwrap();
        let address = line.split("http://").nth(1).unwrap().trim().to_owned();
        wait_until("pages are served", PATIENCE, async || TcpStream::connect(&address).await.is_ok()).await;
        (dev, address)
    };
    let (mut one, first) = start().await;
    let (mut other, second) = start().await;
    assert_ne!(first, second);
    for address in [first, second] {
        assert_eq!(Client::new(&address).get("/").await.status, 200);
    }
    assert!(one.terminate(PATIENCE).await.unwrap().success());
    assert!(other.terminate(PATIENCE).await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn any_free_port_that_is_configured_is_printed_and_served() {
    let home = Home::with_config(DISCARD);
    let mut command = home.command(&["dev"]);
    command.env("PILLARBOX_ADMIN_LISTEN", "127.0.0.1:0");
    let mut dev = Program::start(command);
    let line = dev.wait_for_line("pages    http://127.0.0.1:", PATIENCE).await.unwrap();
    let address = line.split("http://").nth(1).unwrap().trim().to_owned();
    assert!(!address.ends_with(":0"), "{address}");
    // It is bound before it is printed.
    assert_eq!(Client::new(&address).get("/").await.status, 200);
    let taken = {
        let mut command = home.command(&["dev"]);
        command.env("PILLARBOX_ADMIN_LISTEN", &address);
        command.output().unwrap()
    };
    let told = String::from_utf8_lossy(&taken.stderr).into_owned();
    assert!(
        !taken.status.success() && told.contains(&format!("admin.listen: listening on {address} failed")),
        "{told}"
    );
    assert!(dev.terminate(PATIENCE).await.unwrap().success());
}
