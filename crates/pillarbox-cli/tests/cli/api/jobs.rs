//! Dead letters by what they have in common, and jobs over many events.

use pillarbox::store::sqlite::SqliteStore;
use pillarbox::{Event, Inspect, emit_all};
use pillarbox_testkit::receiver::Answer as Reply;
use pillarbox_testkit::wait_until;
use serde_json::{Value, json};

use super::{Desk, problem};
use crate::delivering::PATIENCE;

#[tokio::test(flavor = "multi_thread")]
async fn a_job_goes_through_all_dead_letters_once_however_they_end() {
    for mut desk in [Desk::on_sqlite().await, Desk::on_postgres().await, Desk::on_mariadb().await] {
        desk.refuse();
        let mut ids = Vec::new();
        for number in 0..5 {
            ids.push(desk.emit(&number.to_string(), json!({})).await);
        }
        for id in &ids {
            desk.wait_for_state(id, "failed").await;
        }
        let sent = desk.receiver.count();
        let retry = json!({ "action": "retry" });
        assert_eq!(desk.done("/dead-letters/preview", &retry).await, json!({ "count": 5, "at_least": false }));
        let started = desk.post("/jobs", &retry).await;
        let id = started.json()["id"].as_str().unwrap().to_owned();
        assert_eq!((started.status, started.header("location")), (202, format!("/api/v1/jobs/{id}").as_str()));
        let job = desk.wait_for_job(&id, "done").await;
        assert_eq!(
            (&job["total"], &job["done"], &job["changed"], &job["refused"]),
            (&json!(5), &json!(5), &json!(5), &json!(0))
        );
        // They fail again, and are not taken again: each is sent once more.
        for id in &ids {
            desk.wait_for_state(id, "failed").await;
        }
        assert_eq!(desk.receiver.count(), sent + 5);
        assert_eq!(desk.audit(1).await, [("olga".to_owned(), "retry".to_owned(), Some(5))]);

        desk.accept();
        let some = json!({ "action": "retry", "filter": { "aggregate_id": "3" } });
        assert_eq!(desk.done("/dead-letters/preview", &some).await["count"], 1);
        let id = desk.done("/jobs", &some).await["id"].as_str().unwrap().to_owned();
        assert_eq!(desk.wait_for_job(&id, "done").await["changed"], 1);
        desk.wait_for_state(&ids[3], "delivered").await;
        assert_eq!(desk.get("/events?state=failed").await["events"].as_array().unwrap().len(), 4);
        desk.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_fails_again_while_a_job_runs_is_left_alone() {
    const MANY: u64 = 250;
    let mut desk = Desk::on_sqlite().await;
    desk.refuse();
    let store = SqliteStore::open(desk.home.path("pillarbox.db")).await.unwrap();
    let mut tx = store.pool().begin().await.unwrap();
    let events = (0..MANY).map(|number| Event::new("Order", number, "order.placed"));
    emit_all(&mut tx, events).await.unwrap();
    tx.commit().await.unwrap();
    let all_failed = async || store.depth().await.unwrap().failed == MANY;
    wait_until("all have failed", PATIENCE, all_failed).await;
    let sent = desk.receiver.count();
    // More than a page of them: the first fail again, behind the others, before the second page is read.
    let job = desk.done("/jobs", &json!({ "action": "retry", "rate": 100.0 })).await;
    let job = desk.wait_for_job(job["id"].as_str().unwrap(), "done").await;
    assert_eq!((&job["done"], &job["changed"]), (&json!(MANY), &json!(MANY)), "{job}");
    wait_until("all have failed again", PATIENCE, all_failed).await;
    assert_eq!(desk.receiver.count(), sent + MANY as usize);
    desk.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_are_told_in_groups_and_a_job_takes_one_of_them() {
    for mut desk in [Desk::on_sqlite().await, Desk::on_postgres().await] {
        desk.receiver.answer_with(|request| {
            let gone = String::from_utf8_lossy(&request.body).contains("gone");
            Reply::status(if gone { 410 } else { 400 })
        });
        let mut ids = Vec::new();
        for (number, why) in ["gone", "bad", "gone"].into_iter().enumerate() {
            ids.push(desk.emit(&number.to_string(), json!({ "why": why })).await);
        }
        for id in &ids {
            desk.wait_for_state(id, "failed").await;
        }
        let told = desk.get("/dead-letters").await;
        let groups = told["groups"].as_array().unwrap();
        assert_eq!((groups.len(), &told["complete"]), (2, &json!(true)), "{told}");
        let gone = &groups[0];
        assert_eq!((&gone["destination"], &gone["count"]), (&json!("runner"), &json!(2)), "{told}");
        assert!(gone["sample"].as_str().unwrap().contains("410") && gone["event_types"] == json!(["order.placed"]));
        assert_eq!(gone["over_time"].as_array().unwrap().iter().filter_map(Value::as_u64).sum::<u64>(), 2);
        assert_eq!(desk.get("/dead-letters?event_type=invoice.*").await["groups"], json!([]));

        desk.accept();
        let group = json!({ "destination": gone["destination"], "error": gone["error"] });
        let retry = json!({ "action": "retry", "group": group });
        assert_eq!(desk.done("/dead-letters/preview", &retry).await, json!({ "count": 2, "at_least": false }));
        let job = desk.done("/jobs", &retry).await;
        assert!(job["target"].as_str().unwrap().contains(" of runner: the receiver answered"), "{job}");
        let job = desk.wait_for_job(job["id"].as_str().unwrap(), "done").await;
        assert_eq!((&job["done"], &job["changed"]), (&json!(2), &json!(2)), "{job}");
        desk.wait_for_state(&ids[0], "delivered").await;
        desk.wait_for_state(&ids[2], "delivered").await;
        assert_eq!(desk.get(&format!("/events/{}", ids[1])).await["event"]["state"], "failed");
        assert_eq!(desk.audit(1).await, [("olga".to_owned(), "retry".to_owned(), Some(2))]);

        let found = desk.get(&format!("/find?q={}", ids[1])).await;
        assert_eq!(found["events"][0]["id"], ids[1].as_str());
        assert_eq!(desk.get("/find?q=Order:2").await["events"][0]["id"], ids[2].as_str());
        let replayed = desk.done(&format!("/events/{}/replay", ids[0]), &json!(null)).await;
        let neighbours = desk.get(&format!("/events/{}/neighbours", ids[0])).await;
        assert_eq!(neighbours["events"][0]["id"], replayed["events"][0]["replayed_as"], "{neighbours}");
        desk.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_takes_only_what_failed_within_the_window_that_was_listed() {
    let mut desk = Desk::on_sqlite().await;
    desk.refuse();
    let mut ids = Vec::new();
    for number in 0..3 {
        ids.push(desk.emit(&number.to_string(), json!({})).await);
        desk.wait_for_state(&ids[number], "failed").await;
    }
    desk.home.age(&ids[0], 24 * 20).await;
    desk.home.age(&ids[1], 2).await;
    let told = desk.get("/dead-letters?hours=1").await;
    let group = json!({ "destination": "runner", "error": told["groups"][0]["error"] });
    assert_eq!((told["groups"].as_array().unwrap().len(), &told["groups"][0]["count"]), (1, &json!(1)), "{told}");
    let window = json!({ "failed_since": told["since"] });
    let preview = async |desk: &mut Desk, body: Value| desk.done("/dead-letters/preview", &body).await["count"].clone();
    assert_eq!(preview(&mut desk, json!({ "action": "retry", "filter": window, "group": group })).await, 1);
    assert_eq!(preview(&mut desk, json!({ "action": "retry", "filter": window })).await, 1);
    assert_eq!(preview(&mut desk, json!({ "action": "replay", "filter": window, "group": group })).await, 1);
    // Without a window, that of /dead-letters.
    assert_eq!(preview(&mut desk, json!({ "action": "retry", "group": group })).await, 2);
    assert_eq!(preview(&mut desk, json!({ "action": "retry" })).await, 3);
    assert_eq!(preview(&mut desk, json!({ "action": "fail", "filter": window })).await, 0);
    let since = told["since"].as_str().unwrap().replace('+', "%2B");
    let listed = desk.get(&format!("/events?failed_since={since}")).await;
    assert_eq!(listed["events"].as_array().unwrap().len(), 1, "{listed}");

    desk.accept();
    let job = desk.done("/jobs", &json!({ "action": "retry", "filter": window, "group": group })).await;
    let job = desk.wait_for_job(job["id"].as_str().unwrap(), "done").await;
    assert_eq!((&job["done"], &job["changed"]), (&json!(1), &json!(1)), "{job}");
    desk.wait_for_state(&ids[2], "delivered").await;
    assert_eq!(desk.home.state(&ids[0]), "failed");
    assert_eq!(desk.home.state(&ids[1]), "failed");
    desk.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_keeps_to_its_rate_and_ends_when_it_is_cancelled() {
    for mut desk in [Desk::on_sqlite().await, Desk::on_postgres().await] {
        desk.refuse();
        let mut ids = Vec::new();
        for number in 0..3 {
            ids.push(desk.emit(&number.to_string(), json!({})).await);
        }
        for id in &ids {
            desk.wait_for_state(id, "failed").await;
        }
        desk.accept();
        // One goes at once, the next in a quarter of an hour.
        let slow = json!({ "action": "retry", "rate": 0.001 });
        let id = desk.done("/jobs", &slow).await["id"].as_str().unwrap().to_owned();
        desk.receiver.wait_for(4, PATIENCE).await.unwrap();
        let running = desk.get(&format!("/jobs/{id}")).await;
        assert_eq!(
            (&running["state"], &running["done"], &running["rate"]),
            (&json!("running"), &json!(1), &json!(0.001))
        );
        assert!(running["ends_about"].is_string(), "{running}");
        assert_eq!(desk.get("/jobs").await["jobs"][0]["id"], id.as_str());
        desk.done(&format!("/jobs/{id}/cancel"), &json!(null)).await;
        let job = desk.wait_for_job(&id, "cancelled").await;
        assert_eq!((&job["done"], &job["changed"], &job["total"]), (&json!(1), &json!(1), &json!(3)), "{job}");
        assert_eq!(desk.get("/events?state=failed").await["events"].as_array().unwrap().len(), 2);
        let lines = desk.audit(2).await;
        assert_eq!((lines[0].1.as_str(), lines[1].1.as_str(), lines[1].2), ("cancel", "retry", Some(1)));

        // At most so many at once.
        let mut begun = Vec::new();
        for _ in 0..4 {
            let job = desk
                .done("/jobs", &json!({ "action": "replay", "filter": { "state": "failed" }, "rate": 0.001 }))
                .await;
            begun.push(job["id"].as_str().unwrap().to_owned());
        }
        assert!(problem(&desk.post("/jobs", &slow).await, 409).contains("4 jobs are running already"));
        for id in begun {
            desk.done(&format!("/jobs/{id}/cancel"), &json!(null)).await;
            desk.wait_for_job(&id, "cancelled").await;
        }
        desk.close().await;
    }
}
