//! Replays to one of several destinations.

use pillarbox_testkit::wait_until;
use serde_json::{Value, json};

use super::{Desk, problem};
use crate::delivering::PATIENCE;

/// The paths of the requests so far, without their beginning.
fn paths(desk: &Desk) -> Vec<String> {
    let mut paths: Vec<String> = desk
        .receiver
        .received()
        .iter()
        .map(|request| request.path.split('/').nth(1).unwrap_or_default().to_owned())
        .collect();
    paths.sort();
    paths
}

async fn wait_for(desk: &mut Desk, requests: usize) {
    let receiver = &desk.receiver;
    wait_until("the requests arrive", PATIENCE, async || receiver.count() >= requests).await;
}

fn replayed_as(done: &Value) -> String {
    done["events"][0]["replayed_as"].as_str().unwrap_or_else(|| panic!("{done}")).to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_to_one_destination_is_sent_nowhere_else() {
    for mut desk in [Desk::on_sqlite().await, Desk::on_postgres().await, Desk::on_mariadb().await] {
        let event = json!({ "aggregate_type": "Order", "aggregate_id": "1", "event_type": "both.placed" });
        let id = desk.done("/events", &event).await["id"].as_str().unwrap().to_owned();
        desk.wait_for_state(&id, "delivered").await;
        assert_eq!(paths(&desk), ["events", "vault"]);

        let done = desk.done(&format!("/events/{id}/replay"), &json!({ "destination": "vault" })).await;
        let new = replayed_as(&done);
        desk.wait_for_state(&new, "delivered").await;
        assert_eq!(paths(&desk), ["events", "vault", "vault"]);
        let full = desk.get(&format!("/events/{new}")).await;
        assert_eq!((&full["replay_of"], &full["replay_to"]), (&json!(id), &json!("vault")), "{full}");
        let told: Vec<&Value> = full["timeline"].as_array().unwrap().iter().map(|moment| &moment["what"]).collect();
        assert_eq!(told, ["committed", "succeeded", "delivered"], "{full}");

        // In the terminal, and then to all again.
        let done = desk.home.json(&["events", "replay", &new, "--destination", "runner"]);
        desk.wait_for_state(done["events"][0]["as"].as_str().unwrap(), "delivered").await;
        assert_eq!(paths(&desk), ["events", "events", "vault", "vault"]);
        let done = desk.done(&format!("/events/{new}/replay"), &json!(null)).await;
        desk.wait_for_state(&replayed_as(&done), "delivered").await;
        wait_for(&mut desk, 6).await;
        assert_eq!(paths(&desk), ["events", "events", "events", "vault", "vault", "vault"]);
        let audit = desk.get("/audit?limit=3").await;
        assert_eq!(audit["entries"][2]["target"], format!("{id} to vault"), "{audit}");

        let order = desk.emit("2", json!({})).await;
        desk.wait_for_state(&order, "delivered").await;
        let refused = desk.post(&format!("/events/{order}/replay"), &json!({ "destination": "vault" })).await;
        assert!(problem(&refused, 409).contains("is not routed to this destination"), "{refused:?}");
        let both = desk.done("/events/replay", &json!({ "ids": [order, id], "destination": "vault" })).await;
        let results: Vec<&Value> = both["events"].as_array().unwrap().iter().map(|one| &one["result"]).collect();
        assert_eq!(results, ["not_routed", "replayed"], "{both}");
        let unknown = desk.post(&format!("/events/{id}/replay"), &json!({ "destination": "nowhere" })).await;
        assert!(problem(&unknown, 404).contains("choose one of: runner, vault"), "{unknown:?}");
        let misspelt = desk.post(&format!("/events/{id}/replay"), &json!({ "to": "vault" })).await;
        assert!(problem(&misspelt, 400).contains("unknown field `to`"), "{misspelt:?}");
        desk.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_replays_to_one_destination_takes_only_events_that_are_routed_to_it() {
    for mut desk in [Desk::on_sqlite().await, Desk::on_postgres().await, Desk::on_mariadb().await] {
        let mut ids = vec![desk.emit("9", json!({})).await];
        for number in 0..3 {
            let event =
                json!({ "aggregate_type": "Order", "aggregate_id": number.to_string(), "event_type": "both.placed" });
            ids.push(desk.done("/events", &event).await["id"].as_str().unwrap().to_owned());
        }
        for id in &ids {
            desk.wait_for_state(id, "delivered").await;
        }
        assert_eq!(paths(&desk).len(), 7);
        let to_vault = json!({ "action": "replay", "filter": { "state": "delivered" }, "destination": "vault" });
        assert_eq!(desk.done("/dead-letters/preview", &to_vault).await["count"], 3);
        let started = desk.done("/jobs", &to_vault).await;
        assert_eq!(started["target"], "state=delivered destination=vault, only to vault", "{started}");
        let job = desk.wait_for_job(started["id"].as_str().unwrap(), "done").await;
        assert_eq!((&job["changed"], &job["refused"]), (&json!(3), &json!(0)), "{job}");
        wait_for(&mut desk, 10).await;
        let vault = |desk: &Desk| paths(desk).iter().filter(|path| *path == "vault").count();
        assert_eq!((vault(&desk), paths(&desk).len()), (6, 10), "three before, three replayed, and nothing elsewhere");

        for (wrong, status, told) in [
            (json!({ "action": "retry", "destination": "vault" }), 422, "a destination is for replay only"),
            (
                json!({ "action": "replay", "filter": { "state": "delivered" }, "destination": "shed" }),
                404,
                "choose one of",
            ),
        ] {
            for path in ["/jobs", "/dead-letters/preview"] {
                let refused = desk.post(path, &wrong).await;
                assert!(problem(&refused, status).contains(told), "{path}: {refused:?}");
            }
        }
        desk.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_a_replay_of_many_events_offers_each_destination() {
    let mut desk = Desk::on_sqlite().await;
    let both = json!({ "aggregate_type": "Order", "aggregate_id": "1", "event_type": "both.placed" });
    let id = desk.done("/events", &both).await["id"].as_str().unwrap().to_owned();
    let order = desk.emit("2", json!({})).await;
    for id in [&id, &order] {
        desk.wait_for_state(id, "delivered").await;
    }
    let all = desk.client.get("/bulk?action=replay&state=delivered").await.body;
    assert!(all.contains("Replay 2 events?") && all.contains("<span aria-current=\"true\">all destinations"), "{all}");
    let link = "href=\"/bulk?state=delivered&#38;action=replay&#38;replay_to=vault\"";
    assert!(all.contains(link) && !all.contains("name=\"replay_to\""), "{all}");
    let vault = desk.client.get("/bulk?state=delivered&action=replay&replay_to=vault").await.body;
    assert!(vault.contains("Replay 1 event?") && vault.contains("name=\"replay_to\" value=\"vault\""), "{vault}");
    assert_eq!(desk.client.get("/bulk?state=delivered&action=replay&replay_to=shed").await.status, 404);
    let retry = desk.client.get("/bulk?action=retry&state=failed").await.body;
    assert!(!retry.contains("id=\"to\""), "{retry}");
    let form = [("action", "replay"), ("state", "delivered"), ("replay_to", "vault")];
    let started = desk.client.post("/bulk", &form).await;
    assert_eq!(started.status, 303, "{started:?}");
    wait_for(&mut desk, 4).await;
    assert_eq!(paths(&desk), ["events", "events", "vault", "vault"]);
    // The chosen ones are asked for their destination, too.
    let question = desk.client.get(&format!("/chosen?action=replay&id={id}&id={order}")).await.body;
    assert!(question.contains("type=\"radio\" name=\"destination\" value=\"vault\""), "{question}");
    let done = desk
        .client
        .post("/chosen", &[("action", "replay"), ("id", &id), ("id", &order), ("destination", "vault")])
        .await;
    assert_eq!(done.header("location"), "/?did=replay.1.1", "{done:?}");
    wait_for(&mut desk, 5).await;
    assert_eq!(paths(&desk), ["events", "events", "vault", "vault", "vault"]);
    desk.close().await;
}
