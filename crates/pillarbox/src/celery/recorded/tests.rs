use super::*;

fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap()
}

fn refusal(text: &str) -> String {
    Recorded::read(&raw(text)).expect("a Celery message").unwrap_err().to_string()
}

#[test]
fn a_payload_without_the_key_is_no_celery_message() {
    for text in ["{}", "[]", "null", r#""celery""#, r#"["celery"]"#, r#"{"body": "x", "headers": {}}"#] {
        assert!(Recorded::read(&raw(text)).is_none(), "{text}");
    }
}

#[test]
fn the_least_that_a_producer_writes_has_the_defaults() {
    let payload = raw(r#" {"celery": 1, "body": "[[], {}, {}]", "headers": {"task": "t", "id": "a1"}}"#.trim());
    let message = Recorded::read(&payload).unwrap().unwrap();
    assert_eq!(message.body.as_bytes(), b"[[], {}, {}]");
    assert!(matches!(message.body, Body::Text(Cow::Borrowed(_))));
    assert_eq!((&*message.content_type, &*message.content_encoding), ("application/json", "utf-8"));
    assert_eq!(message.headers.text("id").unwrap(), "a1");
    assert!(message.properties.is_empty() && message.declare.is_empty() && !message.delayed);
    assert_eq!((message.exchange, message.routing_key, message.queue), (None, None, None));
}

#[test]
fn everything_survives_being_written_and_read() {
    let written = concat!(
        r#"{"celery":1,"body":"[[1e400, \"\\u0000\", 123456789012345678901], {}, {}]","#,
        r#""content_type":"application/x","content_encoding":"binary","#,
        r#""headers":{"big":123456789012345678901,"id":"a1","seen":{"$time":"2026-01-01T00:00:00+00:00"}},"#,
        r#""properties":{"priority":3},"exchange":"","routing_key":"orders","queue":"orders","#,
        r#""route_name":"orders.process","declare":[{"queue":"orders","durable":true,"arguments":{"x-queue-type":"quorum"},"#,
        r#""exchange":"orders","exchange_type":"topic","routing_key":"orders.#"}],"delayed":true}"#
    );
    let payload = raw(written);
    let message = Recorded::read(&payload).unwrap().unwrap();
    assert_eq!(message.body.as_bytes(), br#"[[1e400, "\u0000", 123456789012345678901], {}, {}]"#);
    assert_eq!(message.declare[0].arguments["x-queue-type"], "quorum");
    assert_eq!(serde_json::to_string(&message.into_owned()).unwrap(), written);
}

#[test]
fn a_body_that_is_not_text_is_base64() {
    let payload = raw(r#"{"celery": 1, "body": {"base64": "gAX/"}, "headers": {}}"#);
    let message = Recorded::read(&payload).unwrap().unwrap();
    assert_eq!(message.body, Body::Binary(vec![0x80, 0x05, 0xff]));
    assert_eq!(serde_json::to_string(&message).unwrap(), r#"{"celery":1,"body":{"base64":"gAX/"},"headers":{}}"#);
    assert!(refusal(r#"{"celery": 1, "body": {"base64": "?"}, "headers": {}}"#).contains("\"body\" of the recorded"));
}

#[test]
fn another_version_is_refused_with_what_to_do() {
    let refused = refusal(r#"{"celery": 2, "body": {}}"#);
    assert!(refused.starts_with("the Celery message is recorded in version 2, but this program supports version 1"));
    assert!(refused.contains("upgrade the relay"));
    assert!(refusal(r#"{"celery": "stalks", "carrots": 3}"#).contains("recorded in version \"stalks\""));
}

#[test]
fn what_could_not_be_recorded_says_why() {
    let why = "args is \"a\", not a list";
    let payload = Recorded::refused(why);
    assert_eq!(Recorded::read(&payload).unwrap().unwrap_err().to_string(), why);
}

#[test]
fn what_is_missing_or_wrong_is_named() {
    assert!(refusal(r#"{"celery": 1, "headers": {}}"#).contains("has no \"body\""));
    assert!(refusal(r#"{"celery": 1, "body": "", "headers": null}"#).contains("has no \"headers\""));
    assert!(refusal(r#"{"celery": 1, "body": "", "headers": []}"#).contains("\"headers\" of the recorded"));
    assert!(refusal(r#"{"celery": 1, "body": [], "headers": {}}"#).contains("is not text or {\"base64\": \"…\"}"));
    assert!(refusal(r#"{"celery": 1, "body": "", "headers": {}, "queue": 3}"#).contains("\"queue\" of the"));
    let unknown = refusal(r#"{"celery": 1, "body": "", "headers": {}, "routingkey": "x"}"#);
    assert!(unknown.contains("an unknown key \"routingkey\"; the keys are: celery, body"), "{unknown}");
    let declared = r#"{"celery": 1, "body": "", "headers": {}, "declare": [{"name": "q"}]}"#;
    assert!(refusal(declared).contains("\"declare\" of the recorded Celery message is not a list of queues"));
}
