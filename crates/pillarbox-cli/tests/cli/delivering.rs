//! Relay, sweep, retry and demo, against a receiver that answers as the test says.

use std::time::Duration;

use pillarbox_testkit::process::{Program, Signal};
use pillarbox_testkit::receiver::{Answer, Receiver};

use crate::home::{DISCARD, Home};

/// For what takes milliseconds, on a machine that has other things to do.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn to_receiver(receiver: &Receiver, more: &str) -> Home {
    Home::with_config(&format!(
        "[destinations.runner]\nkind = \"http\"\nurl = \"{}\"\nallow_private = true\n{more}\n\
         [[routes]]\nevents = \"order.*\"\nto = [\"runner\"]\n",
        receiver.url("/events")
    ))
}

#[test]
fn a_sweep_is_one_pass_and_all_drains() {
    let home = Home::with_config(&format!("[relay]\nbatch_size = 2\n{DISCARD}"));
    let ids: Vec<String> = (1..=5).map(|number| home.emit(&number.to_string(), &[])).collect();
    let done = home.run(&["sweep"]).succeeded();
    assert_eq!(done.out, "processed 2 events, 3 remaining\n");
    assert_eq!(home.json(&["sweep", "--all"]), serde_json::json!({ "processed": 3, "remaining": 0 }));
    assert!(ids.iter().all(|id| home.state(id) == "delivered"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_receiver_refuses_for_good_is_failed_and_can_be_retried() {
    let receiver = Receiver::start().await;
    receiver.answer_with(|_| Answer::status(410).body("no more"));
    let home = to_receiver(&receiver, "");
    let ids = [home.emit("1", &[]), home.emit("2", &[])];
    home.run(&["sweep"]).succeeded();
    assert_eq!(home.state(&ids[0]), "failed");
    let shown = home.run(&["events", "show", &ids[0]]).succeeded().out;
    assert!(shown.contains("attempts\n") && shown.contains("410") && shown.contains("no more"), "{shown}");

    receiver.answer_with(|_| Answer::ok());
    assert_eq!(home.run(&["events", "retry", &ids[0]]).succeeded().out, "1 event due now\n");
    let done = home.run(&["events", "retry", "--failed"]);
    assert_eq!(done.code, 2);
    assert!(done.err.contains("1 failed event would be retried; add --yes"), "{done:?}");
    assert_eq!(home.json(&["events", "retry", "--failed", "--yes", "--type", "invoice.*"])["due"], 0);
    let retried = home.json(&["events", "retry", "--failed", "--yes", "--type", "order.*"]);
    assert_eq!(retried["events"], serde_json::json!([{ "id": ids[1], "result": "due" }]));
    home.run(&["sweep"]).succeeded();
    assert!(ids.iter().all(|id| home.state(id) == "delivered"));
    assert_eq!(receiver.count(), 4);

    let done = home.run(&["events", "retry", &ids[0]]);
    assert_eq!(done.code, 1);
    assert!(done.out.contains("is already delivered; nothing was changed"), "{done:?}");
    assert_eq!(home.run(&["events", "retry"]).code, 2);
    assert_eq!(home.run(&["events", "retry", &ids[0], "--search", "x"]).code, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_successful_attempt_is_shown_with_its_status_if_it_is_recorded() {
    let receiver = Receiver::start().await;
    receiver.answer_with(|_| Answer::status(204));
    let mut home = to_receiver(&receiver, "");
    let before = home.emit("1", &[]);
    home.run(&["sweep"]).succeeded();
    assert_eq!(home.json(&["events", "show", &before])["delivered_attempts"], serde_json::json!([]));

    home.set("PILLARBOX_RELAY_RECORD_ATTEMPTS", "all");
    let id = home.emit("2", &[]);
    home.run(&["sweep"]).succeeded();
    let attempt = &home.json(&["events", "show", &id])["delivered_attempts"][0];
    assert_eq!((&attempt["delivered"], &attempt["status_code"]), (&true.into(), &204.into()));
    assert_eq!((&attempt["destination"], &attempt["number"]), (&"runner".into(), &1.into()));
    let shown = home.run(&["events", "show", &id]).succeeded().out;
    let line = shown.lines().find(|line| line.contains("runner")).unwrap();
    assert!(line.contains("delivered") && line.contains(" ms") && line.contains("204"), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_delivers_what_another_process_emits_and_stops_when_it_is_told() {
    for signal in [Signal::Terminate, Signal::Interrupt] {
        let receiver = Receiver::start().await;
        let mut home = to_receiver(&receiver, "secrets = [\"env:SECRET\"]\nbearer = \"env:TOKEN\"");
        home.set("SECRET", "whsec_aHVudGVyMmh1bnRlcjJodW50ZXIyaHVudGVyMg==");
        home.set("TOKEN", "hunter2");
        let mut relay = Program::start(home.command(&["relay", "--log-format", "json"]));
        relay.wait_for_line("relay started", PATIENCE).await.unwrap();
        let id = home.emit("1", &[]);
        receiver.wait_for(1, PATIENCE).await.unwrap();
        let request = &receiver.received()[0];
        assert_eq!(request.id.map(|id| id.to_string()), Some(id.clone()));
        assert_eq!(request.headers["authorization"], "Bearer hunter2");
        assert!(request.headers.contains_key("webhook-signature"));

        relay.signal(signal);
        assert!(relay.wait(PATIENCE).await.unwrap().success());
        assert_eq!(home.state(&id), "delivered");
        assert!(relay.lines().iter().all(|line| !line.contains("hunter2")), "{:?}", relay.lines());
        assert_eq!(home.json(&["stats"])["relays"], serde_json::json!([]));
    }
}

#[test]
fn the_demo_delivers_all_that_was_committed_and_nothing_else() {
    let home = Home::new();
    let verdict = home.json(&["demo", "--orders", "60", "--seed", "7"]);
    assert_eq!(verdict["ok"], true, "{verdict}");
    assert_eq!(verdict["committed"], verdict["arrived"]);
    assert_eq!(verdict["arrived_though_rolled_back"], 0);
    assert!(verdict["rolled_back"].as_u64() > Some(0) && verdict["retried"].as_u64() > Some(0), "{verdict}");
    assert!(verdict["answered_500"].as_u64() > Some(0) && verdict["answered_503"].as_u64() > Some(0), "{verdict}");
    assert_eq!(std::fs::read_dir(home.path(".")).unwrap().count(), 0);
}

#[tokio::test]
async fn the_demo_can_be_stopped() {
    let home = Home::new();
    let mut demo = Program::start(home.command(&["demo", "--orders", "100000"]));
    demo.wait_for_line("committed ", PATIENCE).await.unwrap();
    demo.signal(Signal::Interrupt);
    assert_eq!(demo.wait(PATIENCE).await.unwrap().code(), Some(1));
    demo.wait_for_line("nothing was checked", PATIENCE).await.unwrap();
}
