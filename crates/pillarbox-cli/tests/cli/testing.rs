//! Test events: from the terminal, the API and the pages. They arrive signed and marked, and are stored nowhere.

use pillarbox_testkit::receiver::{Answer, Receiver};
use serde_json::json;

use crate::delivering::to_receiver;
use crate::home::Home;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

#[tokio::test(flavor = "multi_thread")]
async fn a_test_event_arrives_signed_and_marked_and_is_stored_nowhere() {
    let receiver = Receiver::start().await;
    receiver.answer_with(|_| Answer::status(204));
    let home = to_receiver(&receiver, &format!("secrets = [\"{SECRET}\"]\npaused = true"));
    home.run(&["migrate"]).succeeded();
    let tested = home.json(&["destinations", "test", "runner"]);
    assert_eq!(
        (&tested["delivered"], &tested["status_code"], &tested["error"]),
        (&json!(true), &json!(204), &json!(null))
    );
    let request = &receiver.received()[0];
    assert_eq!(request.id.map(|id| id.to_string()).as_deref(), tested["id"].as_str());
    for (name, value) in [
        ("pillarbox-test", "true"),
        ("pillarbox-event-type", "pillarbox.test"),
        ("pillarbox-aggregate-type", "pillarbox"),
    ] {
        assert_eq!(request.headers[name], value);
    }
    assert!(request.headers["webhook-signature"].to_str().unwrap().starts_with("v1,"));
    let payload: serde_json::Value = serde_json::from_slice(&request.body).unwrap();
    assert_eq!((&payload["test"], &payload["destination"]), (&json!(true), &json!("runner")));

    let shown = home.run(&["destinations", "test", "runner"]).succeeded();
    assert!(
        shown.out.starts_with("runner: the test event 70696c6c-7465-8") && shown.out.contains("status 204"),
        "{shown:?}"
    );
    assert_eq!(home.json(&["events", "list"])["events"], json!([]));
    assert_eq!(shown.err, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_receiver_refuses_is_told_with_what_to_do() {
    let receiver = Receiver::start().await;
    receiver.answer_with(|_| Answer::status(401).body("webhook-signature is not valid"));
    let home = to_receiver(&receiver, "");
    // There is no outbox yet, and the destination can be tested all the same.
    let done = home.run(&["destinations", "test", "runner"]);
    assert_eq!(done.code, 1, "{done:?}");
    for part in
        ["was not delivered", "401 Unauthorized (retry)", "webhook-signature is not valid", "See the receiver's log"]
    {
        assert!(done.out.contains(part), "{part} in {done:?}");
    }
    assert!(done.err.contains("the test is not in the audit"), "{done:?}");
    let done = home.run(&["destinations", "test", "runner", "--json"]);
    assert_eq!(done.code, 1);
    assert_eq!((&done.json()["error_kind"], &done.json()["status_code"]), (&json!("retry"), &json!(401)));

    drop(receiver);
    let done = home.run(&["destinations", "test", "runner", "--json"]);
    assert_eq!((done.code, &done.json()["error_kind"]), (1, &json!("unavailable")), "{done:?}");
}

#[test]
fn a_destination_that_takes_no_test_is_refused_with_the_reason() {
    let home = Home::with_config(
        "[destinations.jobs]\nkind = \"celery\"\nbroker = \"redis://127.0.0.1:1/0\"\n\
         [destinations.nowhere]\nkind = \"discard\"\n\
         [destinations.inside]\nkind = \"http\"\nurl = \"http://localhost:1/\"\nsecrets = [\"env:UNSET\"]\n\
         [destinations.guarded]\nkind = \"http\"\nurl = \"http://localhost:1/\"\n",
    );
    for (name, code, told) in [
        ("jobs", 2, "no test event was sent: jobs is a Celery broker"),
        ("nowhere", 2, "no test event was sent: nowhere discards events"),
        ("insde", 2, "there is no destination \"insde\" in the configuration; did you mean inside?"),
        ("inside", 2, "destinations.inside.secrets[0] is env:UNSET"),
    ] {
        let done = home.run(&["destinations", "test", name]);
        assert!(done.code == code && done.err.contains(told), "{done:?}");
    }
    // A private address is refused as it is for every event.
    let done = home.run(&["destinations", "test", "guarded"]);
    assert!(done.code == 1 && done.out.contains("allow_private"), "{done:?}");
}
