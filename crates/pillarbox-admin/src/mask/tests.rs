//! Tests of masked values, and of values that stay unchanged.

use std::sync::Arc;

use async_trait::async_trait;
use pillarbox::sink::Message;
use pillarbox::{SendError, Sink, StoredEvent};
use serde_json::value::RawValue;

use super::*;

fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).unwrap()
}

fn mask(paths: &[&str]) -> Mask {
    Mask::parse(paths).unwrap()
}

fn masked(paths: &[&str], payload: &str) -> String {
    mask(paths).apply(&raw(payload)).payload.get().to_owned()
}

fn scrubbed(paths: &[&str], payload: &str, text: &str) -> String {
    let mut text = text.to_owned();
    mask(paths).hidden(&raw(payload)).scrub(&mut text);
    text
}

#[test]
fn paths_find_names_items_and_whatever_is_below() {
    let order = r#"{"card":{"number":"4111","holder":"Ann"},"items":[{"price":1,"sku":"a"},{"price":2}],"token":"t"}"#;
    assert_eq!(
        masked(&["$.card.number", "$.items[*].price", "$..token"], order),
        r#"{"card":{"number":"•••","holder":"Ann"},"items":[{"price":"•••","sku":"a"},{"price":"•••"}],"token":"•••"}"#
    );
    assert_eq!(
        masked(&["$['card']", "$.items[1]"], r#"{"card":[1],"items":[1,2]}"#),
        r#"{"card":"•••","items":[1,"•••"]}"#
    );
    assert_eq!(masked(&["$.a['b c'].d"], r#"{"a":{"b c":{"d":1}}}"#), r#"{"a":{"b c":{"d":"•••"}}}"#);
    assert_eq!(masked(&["$"], "[1]"), r#""•••""#);
    assert_eq!(masked(&["$.a", "$.a.b"], r#"{"a":{"b":1}}"#), r#"{"a":"•••"}"#);
}

#[test]
fn what_is_not_masked_stays_as_it_is_written() {
    let payload = "{ \"total\": 1.10, \"n\": 10000000000000000000000, \"t\": \"\\u00e9\" }";
    assert_eq!(masked(&["$.missing"], payload), payload);
    assert_eq!(
        masked(&["$.x"], r#"{"x":1,"total": {"v": 1.10},"n":10000000000000000000000,"t":"\u00e9"}"#),
        r#"{"x":"•••","total":{"v": 1.10},"n":10000000000000000000000,"t":"\u00e9"}"#
    );
    assert_eq!(masked(&[], payload), payload);
}

#[test]
fn what_cannot_be_told_apart_is_masked_as_a_whole() {
    let twice = r#"{"card":{"number":"4111111111"},"card":5}"#;
    assert_eq!(masked(&["$.card.number"], twice), r#""•••""#);
    assert_eq!(scrubbed(&["$.card.number"], twice, "no 4111111111"), "no •••");
    let deep = format!("{}\"secret\"{}", "[".repeat(500), "]".repeat(500));
    assert_eq!(masked(&["$.card"], &deep), r#""•••""#);
    assert_eq!(scrubbed(&["$.card"], &deep, "a secret"), "a •••");
    assert_eq!(masked(&["$.card"], "{\"n\":1e999}"), r#""•••""#);
    assert_eq!(masked(&[], &deep), deep);
}

#[test]
fn texts_about_an_event_do_not_quote_what_is_masked() {
    let payload = r#"{"card":{"number":"4111 1111","cvc":123,"name":"An \"A\" B"},"id":"4111"}"#;
    let scrub = |text: &str| scrubbed(&["$.card"], payload, text);
    assert_eq!(scrub("the number 4111 1111 is refused"), "the number ••• is refused");
    assert_eq!(scrub("4111 11114111 1111"), "••••••");
    assert_eq!(scrub(r#"{"name":"An \"A\" B"} an "a" b"#), r#"{"name":"•••"} •••"#);
    assert_eq!(scrub("cvc 123, not 1234 and order 91230"), "cvc •••, not 1234 and order 91230");
    assert_eq!(scrub("cut off: 4111 1"), "cut off: •••");
    assert_eq!(scrub("nothing of it: 411, id"), "nothing of it: 411, id");
    assert_eq!(scrub(""), "");
    assert_eq!(scrubbed(&["$.none"], payload, "4111 1111"), "4111 1111");
}

#[test]
fn a_wrong_path_says_what_and_where() {
    let refusal = |path: &str| Mask::parse(&["$.fine", path]).unwrap_err().to_string();
    for path in ["card.number", "$.card[", "$.items[*", "", "$.", "$..", "$[name]"] {
        let refusal = refusal(path);
        assert!(refusal.starts_with(&format!("{path:?}, which is not a JSON path: ")), "{refusal}");
        assert!(refusal.contains("; write it like"), "{refusal}");
    }
    assert!(refusal("card.number").contains(": it does not begin with $;"));
    assert!(refusal("$.card[").contains(r#": "[" is not valid;"#));
    assert!(refusal("$.items[*").contains(": in long-hand segment, expected closing ']', at its end;"));
}

struct Gossip;

#[async_trait]
impl Sink for Gossip {
    async fn send(&self, batch: &[Message]) -> Vec<Result<(), SendError>> {
        let gossip = |message: &Message| {
            let payload = message.payload.get();
            Err(SendError::retry(format!("refused {payload}")).answered(422, format!("no {payload}")))
        };
        batch.iter().map(gossip).collect()
    }

    fn batch_limit(&self) -> usize {
        7
    }
}

#[tokio::test]
async fn a_destination_that_quotes_the_payload_is_not_repeated() {
    let sink = Discreet::around(Arc::new(Gossip), &mask(&["$.card"]));
    let event = StoredEvent::for_tests("order.placed", r#"{"card":"4111111111","total":5}"#);
    let answers = sink.send(&[Message::new(Arc::new(event), 1)]).await;
    let error = answers[0].as_ref().unwrap_err();
    assert_eq!(error.message, r#"refused {"card":"•••","total":5}"#);
    assert_eq!(error.answer.as_deref(), Some(r#"no {"card":"•••","total":5}"#));
    assert_eq!((error.status, sink.batch_limit()), (Some(422), 7));
}

#[test]
fn a_path_that_would_mask_nothing_is_refused() {
    let card = r#"{"items":[{"kind":"card","number":"4111"}]}"#;
    assert!(!masked(&["$.items[?match(@.kind, 'card|iban')].number"], card).contains("4111"));
    let refusal = Mask::parse(&["$.items[?match(@.kind, 'card[')].number"]).unwrap_err().to_string();
    assert!(refusal.contains("which would mask nothing: \"card[\" is not a regular expression"), "{refusal}");
}
