//! Lists in both directions, and the failures of delivered events.

use pillarbox_testkit::receiver::Answer as Reply;
use serde_json::{Value, json};

use super::{Desk, problem};

fn ids(page: &Value) -> Vec<String> {
    page["events"].as_array().unwrap().iter().map(|event| event["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_is_turned_forth_and_back() {
    let mut desk = Desk::on_sqlite().await;
    let mut emitted = Vec::new();
    for number in 0..5 {
        emitted.push(desk.emit(&number.to_string(), json!({})).await);
    }
    emitted.reverse();
    let first = desk.get("/events?limit=2").await;
    assert_eq!((ids(&first), &first["previous"]), (emitted[..2].to_vec(), &Value::Null));
    let second = desk.get(&format!("/events?limit=2&cursor={}", first["next"].as_str().unwrap())).await;
    let third = desk.get(&format!("/events?limit=2&cursor={}", second["next"].as_str().unwrap())).await;
    assert_eq!((ids(&third), &third["next"]), (emitted[4..].to_vec(), &Value::Null));
    let back = desk.get(&format!("/events?limit=2&before={}", third["previous"].as_str().unwrap())).await;
    assert_eq!((ids(&back), &back["next"]), (emitted[2..4].to_vec(), &second["next"]));
    let start = desk.get(&format!("/events?limit=2&before={}", back["previous"].as_str().unwrap())).await;
    assert_eq!((ids(&start), &start["previous"]), (emitted[..2].to_vec(), &Value::Null));
    let wrong = desk.client.get("/api/v1/events?before=xyz").await;
    assert!(problem(&wrong, 400).contains("the cursor does not belong to this list"));
    desk.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_was_delivered_after_a_failure_says_so() {
    for mut desk in [Desk::on_sqlite().await, Desk::on_postgres().await, Desk::on_mariadb().await] {
        let first = desk.emit("1", json!({})).await;
        desk.wait_for_state(&first, "delivered").await;
        let failing = std::sync::atomic::AtomicBool::new(true);
        desk.receiver.answer_with(move |_| {
            let fails = failing.swap(false, std::sync::atomic::Ordering::SeqCst);
            if fails { Reply::status(500) } else { Reply::ok() }
        });
        let second = desk.emit("2", json!({})).await;
        desk.wait_for_state(&second, "delivered").await;
        let page = desk.get("/events?state=delivered&had_failures=true").await;
        assert_eq!((ids(&page), &page["events"][0]["attempts"]), (vec![second.clone()], &json!(1)), "{page}");
        let full = desk.get(&format!("/events/{second}")).await;
        let told: Vec<&Value> = full["timeline"].as_array().unwrap().iter().map(|moment| &moment["what"]).collect();
        assert_eq!(told, ["committed", "failed", "succeeded", "delivered"], "{full}");
        let listed = desk.home.json(&["events", "list", "--had-failures"]);
        assert_eq!(ids(&listed), [second]);
        desk.close().await;
    }
}
