//! What is masked comes out nowhere: not by a receiver that repeats it, the terminal, the log or the tables.

use pillarbox_testkit::receiver::{Answer, Receiver};

use crate::delivering::to_receiver;
use crate::home::Home;

const CARD: &str = "4111111111111111";
const PAYLOAD: &str =
    r#"{"card":{"number":"4111111111111111","holder":"Ann"},"total":1.10,"lines":[{"token":"tok-773311"}]}"#;

#[tokio::test(flavor = "multi_thread")]
async fn what_is_masked_is_neither_shown_nor_kept_in_errors() {
    let receiver = Receiver::start().await;
    receiver.answer_with(|request| {
        Answer::status(410).body(format!("refused: {}", String::from_utf8_lossy(&request.body)))
    });
    let mut home = to_receiver(&receiver, "[admin]\nlisten = \"off\"\nmask = [\"$.card.number\", \"$..token\"]");
    home.set("RUST_LOG", "trace");
    let id = home.emit("1", &[PAYLOAD, "--header", "x-card=4111111111111111", "--header", "authorization=hunter2"]);
    let swept = home.run(&["sweep"]).succeeded();
    assert!(swept.err.contains("event failed for good; it is a dead letter"), "{swept:?}");
    let got = &receiver.received()[0];
    assert!(String::from_utf8_lossy(&got.body).contains(CARD), "receivers get it as it is");

    home.set("RUST_LOG", "warn");
    let shown = home.json(&["events", "show", &id]);
    assert_eq!(shown["payload"]["card"]["number"], "•••");
    assert_eq!(shown["payload"]["card"]["holder"], "Ann");
    assert_eq!(shown["payload"]["lines"][0]["token"], "•••");
    assert_eq!((&shown["headers"]["x-card"], &shown["headers"]["authorization"]), (&"•••".into(), &"•••".into()));
    let answer = shown["failed_attempts"][0]["answer"].as_str().unwrap();
    assert!(answer.starts_with("refused: {\"card\"") && answer.contains("\"number\":\"•••\""), "{answer}");
    let text = home.run(&["events", "show", &id]).succeeded().out;
    assert!(text.contains("\"total\": 1.10"), "{text}");
    let listed = home.run(&["events", "list", "--json"]).succeeded().out;
    for (what, text) in [("log", swept.err), ("json", shown.to_string()), ("text", text), ("list", listed)] {
        for hidden in [CARD, "tok-773311", "hunter2"] {
            assert!(!text.contains(hidden), "{what}: {text}");
        }
    }

    // What is kept of the attempt does not have it either, for whoever looks without a mask.
    home.write("pillarbox.toml", "");
    let unmasked = home.json(&["events", "show", &id]);
    assert_eq!(unmasked["payload"]["card"]["number"], CARD);
    assert_eq!(unmasked["failed_attempts"][0]["answer"], shown["failed_attempts"][0]["answer"]);
}

#[test]
fn a_path_that_cannot_be_followed_is_refused_with_what_is_wrong_where() {
    let home = Home::with_config("[admin]\nmask = [\"$.fine\", \"$.card[\"]\n");
    let refused = home.run(&["check-config"]);
    assert_eq!(refused.code, 2);
    assert!(
        refused.err.contains("admin.mask has \"$.card[\", which is not a JSON path: ")
            && refused.err.contains("\"[\" is not valid; write it like \"$.card.number\""),
        "{refused:?}"
    );
}
