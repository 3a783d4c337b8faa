//! Compares the messages of tasks and workflows with those that Celery itself makes of the same calls.
//! `tests/celery/expected.py` records them.

use std::time::Duration;

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::super::{chain, chord, group};
use super::*;
use crate::event::NewEvent;

fn task(name: &str, args: &[i32]) -> Task {
    let task = Task::new(if name.starts_with('a') { "add" } else { "tsum" });
    args.iter().fold(task, Task::arg).task_id(name)
}

fn moment(text: &str) -> DateTime<Utc> {
    text.parse().unwrap()
}

fn events(workflow: impl Into<Signature>) -> (Sent, Vec<NewEvent>) {
    let (sent, events) = workflow.into().into_events_at(moment("2029-01-01T00:00:00Z")).unwrap();
    (sent, events.into_iter().map(|event| event.prepare().unwrap()).collect())
}

/// Returns a message in the form of `expected.json`.
fn shown(event: &NewEvent) -> Value {
    let payload = RawValue::from_string(event.payload.clone()).unwrap();
    let message = Recorded::read(&payload).unwrap().unwrap();
    let mut headers: Map<String, Value> = serde_json::from_str(&json!(message.headers).to_string()).unwrap();
    assert_eq!(headers.remove("origin"), Some(json!("pillarbox")));
    let mut shown = json!({
        "body": serde_json::from_slice::<Value>(message.body.as_bytes()).unwrap(),
        "content_type": message.content_type,
        "content_encoding": message.content_encoding,
        "headers": headers,
        "correlation_id": message.properties.text("correlation_id"),
        // Celery writes 0 if none was given; here the relay decides.
        "priority": message.properties.read::<u8>("priority").unwrap_or_default(),
    });
    rename_new(&mut shown);
    shown
}

fn rename_new(value: &mut Value) {
    match value {
        Value::String(text) if Uuid::parse_str(text).is_ok() => *value = json!("new"),
        Value::Array(items) => items.iter_mut().for_each(rename_new),
        Value::Object(fields) => fields.values_mut().for_each(rename_new),
        _ => {}
    }
}

fn assert_as_celery(call: &str, workflow: impl Into<Signature>) -> Sent {
    let expected: Value = serde_json::from_str(include_str!("../../../tests/celery/expected.json")).unwrap();
    let (sent, events) = events(workflow);
    let messages: Vec<Value> = events.iter().map(shown).collect();
    assert_eq!(expected[call].as_array().expect("Celery was asked"), &messages, "{call}");
    sent
}

#[test]
fn a_task() {
    let sent = assert_as_celery("delay", Task::new("add").arg(1).arg(2).task_id("a"));
    assert_eq!(sent, Sent { id: "a".to_owned(), tasks: vec!["a".to_owned()] });
}

#[test]
fn a_task_with_all_its_options() {
    let link = Task::new("cb").arg(1).task_id("l").countdown(Duration::from_secs(5)).queue("z");
    let task = Task::new("add")
        .arg(1)
        .kwarg("y", json!([2.5, "é", null]))
        .task_id("a")
        .eta(moment("2030-01-01T00:00:00Z"))
        .expires_at(moment("2030-01-01T00:00:01.000005Z"))
        .priority(3)
        .time_limit(Duration::from_secs(10))
        .soft_time_limit(Duration::from_secs(5))
        .shadow("shown")
        .header("tenant", "acme")
        .ignore_result(true)
        .queue("q")
        .link(link)
        .link_error(Task::new("cb").kwarg("k", ()).immutable().task_id("e"))
        .root_id("r")
        .parent_id("p");
    assert_as_celery("options", task);
}

#[test]
fn stamps() {
    assert_as_celery("stamps", Task::new("add").arg(1).arg(2).task_id("a").stamp("my", "v").stamp("n", [1, 2]));
    let (_, events) = events(chain([task("a1", &[1, 2]), task("a2", &[3])]).stamp("my", "v"));
    let next = &shown(&events[0])["body"][2]["chain"][0]["options"];
    assert_eq!((&next["my"], &next["stamped_headers"]), (&json!("v"), &json!(["my"])));
}

#[test]
fn chains() {
    let last = task("a3", &[3, 4]).immutable();
    let sent = assert_as_celery(
        "chain",
        chain([task("a1", &[1, 2]), task("a2", &[3]).countdown(Duration::from_secs(3)), last]),
    );
    assert_eq!((sent.id.as_str(), sent.tasks.join(" ").as_str()), ("a3", "a1 a2 a3"));
    let nested = chain([chain([task("a1", &[1, 2])]), chain([task("a2", &[3])])]);
    assert_as_celery("chain with an errback", nested.on_error(Task::new("cb").immutable().task_id("e")));
}

#[test]
fn groups() {
    let sent = assert_as_celery("group", group([task("a1", &[1, 2]), task("a2", &[3, 3])]));
    assert!(Uuid::parse_str(&sent.id).is_ok(), "a group has an id of its own");
    assert_eq!(sent.tasks, ["a1", "a2"]);
    let inner = chain([task("a1", &[1, 2]), task("a2", &[3])]);
    assert_as_celery("chains in a group", group([inner, task("a3", &[3, 3]).into()]));
}

#[test]
fn the_members_of_a_group_in_a_group_are_its_own() {
    let inner = group([task("a2", &[3, 3]), task("a3", &[3, 3])]);
    let (sent, events) = events(group([task("a1", &[1, 2]).into(), inner]));
    assert_eq!(sent.tasks, ["a1", "a2", "a3"]);
    // Celery starts at 0 again in the inner group, unless it is in a chord.
    let indices: Vec<Value> = events.iter().map(|event| shown(event)["headers"]["group_index"].clone()).collect();
    assert_eq!(indices, [0, 1, 2]);
}

#[test]
fn groups_in_chains() {
    let first = || Signature::from(task("a1", &[1, 2]));
    let pair = || group([task("a2", &[3]), task("a3", &[4])]);
    let sent = assert_as_celery("group at the end of a chain", chain([first(), pair()]));
    assert!(Uuid::parse_str(&sent.id).is_ok());
    let sent =
        assert_as_celery("group in a chain", chain([first(), pair(), task("s1", &[]).into(), task("a4", &[1]).into()]));
    assert_eq!((sent.id.as_str(), sent.tasks.join(" ").as_str()), ("a4", "a1 a2 a3 s1 a4"));
    let sums = group([task("s1", &[]), task("s2", &[])]);
    assert_as_celery("two groups in a chain", chain([first(), pair(), sums, task("s3", &[]).into()]));
    let body = chain([task("s1", &[]), task("a4", &[1])]);
    let inner = chord([task("a2", &[3]), task("a3", &[4])], body);
    assert_as_celery("chord in a chain", chain([first(), inner]));
    let one = chain([first(), group([task("a2", &[3])]), task("a3", &[4]).into()]);
    assert_as_celery("group of one in a chain", one);
}

fn signature(task: &str, args: &Value, options: &Value) -> Value {
    json!({
        "task": task, "args": args, "kwargs": {}, "options": options, "subtask_type": null, "immutable": false
    })
}

#[test]
fn a_chord_is_started_by_a_worker() {
    let header = || [task("a1", &[1, 2]).queue("sums"), task("a2", &[3, 4])];
    let as_chord = chain([chord(header(), task("s1", &[])), task("a3", &[1]).into()]);
    let as_chain = chain([group(header()), task("s1", &[]).into(), task("a3", &[1]).into()]);
    let with_chain = chord(header(), chain([task("s1", &[]), task("a3", &[1])]));
    for workflow in [as_chord, as_chain, with_chain] {
        let (sent, events) = events(workflow);
        assert_eq!((sent.id.as_str(), sent.tasks.join(" ").as_str()), ("a3", "a1 a2 s1 a3"));
        let [event] = &events[..] else { panic!("one message starts it") };
        assert_eq!(event.event_type, "add", "it is routed as the header");
        let message = shown(event);
        assert_eq!((&message["headers"]["task"], &message["headers"]["ignore_result"]), (&json!(CHORD), &json!(true)));
        let rest = signature("add", &json!([1]), &json!({ "task_id": "a3" }));
        let expected = json!([[], {
            "header": [
                signature("add", &json!([1, 2]), &json!({ "task_id": "a1", "queue": "sums" })),
                signature("add", &json!([3, 4]), &json!({ "task_id": "a2" })),
            ],
            "body": signature("tsum", &json!([]), &json!({ "task_id": "s1", "chain": [rest] })),
        }, { "callbacks": null, "errbacks": null, "chain": null, "chord": null }]);
        assert_eq!(message["body"], expected);
        assert!(event.payload.contains(r#""queue":"sums","route_name":"add""#));
    }
}

#[test]
fn the_row_is_as_every_producer_writes_it() {
    let (sent, events) = events(Task::new("orders.process").arg(42));
    let event = &events[0];
    assert_eq!((event.aggregate_type.as_str(), event.event_type.as_str()), ("celery", "orders.process"));
    assert_eq!((&event.aggregate_id, &event.idempotency_key), (&sent.id, &event.id.to_string()));
    assert_eq!(event.deliver_at, None);
    assert_eq!(shown(event)["headers"]["argsrepr"], "(42,)");
    let long = Task::new("t").task_id("x".repeat(150)).into_event().unwrap();
    assert_eq!((long.0.len(), long.1.prepare().unwrap().aggregate_id.len()), (150, 100));
}

#[test]
fn a_held_task_is_due_before_its_eta() {
    let due = |task: Task| events(task.hold_until_eta(Duration::from_secs(60))).1[0].deliver_at;
    assert_eq!(due(Task::new("t").countdown(Duration::from_secs(3600))), Some(moment("2029-01-01T00:59:00Z")));
    assert_eq!(due(Task::new("t").eta(moment("2029-01-02T00:00:00Z"))), Some(moment("2029-01-01T23:59:00Z")));
    assert_eq!(due(Task::new("t").countdown(Duration::from_secs(30))), None, "it is due already");
    assert_eq!(due(Task::new("t")), None);
    let (_, events) = events(Task::new("t").countdown(Duration::from_millis(1500)).expires(Duration::from_secs(3)));
    let headers = &shown(&events[0])["headers"];
    assert_eq!(headers["eta"], "2029-01-01T00:00:01.500000+00:00");
    assert_eq!(headers["expires"], "2029-01-01T00:00:03+00:00");
}

#[test]
fn numbers_reach_the_body_as_they_were_given() {
    let big = RawValue::from_string("[123456789012345678901234567890, 1.10]".to_owned()).unwrap();
    let (_, event) = Task::new("t").arg(big).into_event().unwrap();
    assert!(event.prepare().unwrap().payload.contains("[[[123456789012345678901234567890, 1.10]], {}, "));
}

#[test]
fn what_no_worker_could_run_is_refused() {
    let refusal = |workflow: Signature| workflow.into_events().unwrap_err().to_string();
    assert_eq!(
        refusal(Task::new("").into()),
        r#"the Celery task "" cannot be sent: its name is empty; set the name that the worker has registered"#
    );
    let long = refusal(Task::new("t".repeat(256)).into());
    assert!(long.ends_with("its name has 256 characters, the limit is 255; shorten it"), "{long}");
    assert!(refusal(Task::new("t").header("id", 1).into()).contains(r#"the header "id" is reserved by Celery"#));
    assert!(
        refusal(Task::new("t").stamp("queue", 1).into())
            .contains(r#"the stamp "queue" has the name of a Celery option"#)
    );
    assert!(refusal(Task::new("t").task_id("").into()).contains("its id is empty"));
    assert!(refusal(Task::new("t").countdown(Duration::MAX).into()).contains("its countdown is out of range"));
    let by_pair = std::collections::BTreeMap::from([((1, 2), "tuples are no JSON keys")]);
    let unwritten = refusal(Task::new("t").arg(1).arg(&by_pair).into());
    assert!(unwritten.contains("argument 2 cannot be written as JSON: key must be a string"), "{unwritten}");
    let linked = refusal(Task::new("t").link(Task::new("other").kwarg("k", &by_pair)).into());
    assert!(linked.contains(r#"the task "other": argument "k" cannot be written"#), "{linked}");
    let none: [Task; 0] = [];
    assert!(refusal(chain(none.clone())).contains("has no tasks; give it at least one"));
    assert!(refusal(group(none.clone())).contains("has no tasks; give it at least one"));
    assert!(refusal(chord(none.clone(), Task::new("t"))).contains("has no tasks; give it at least one"));
    assert!(refusal(chain([Task::new("t").into(), group(none)])).contains("the group has no tasks"));
    let too_large = Task::new("t").arg("x".repeat(crate::event::PAYLOAD_LIMIT)).into_event().unwrap().1;
    assert!(too_large.prepare().unwrap_err().to_string().contains("the limit is 1048576"));
}

#[test]
fn only_a_priority_that_was_given_stands_before_what_routes_say() {
    let properties = |task: Task| {
        let payload: Value = serde_json::from_str(&events(task).1[0].payload).unwrap();
        payload["properties"].clone()
    };
    assert_eq!(properties(Task::new("add")).get("priority"), None);
    assert_eq!(properties(Task::new("add").priority(0))["priority"], 0);
}
