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
