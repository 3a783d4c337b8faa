//! Turns an event into a message of Celery's protocol 2: completes a recorded message, or makes a task from a plain event.
//! Pure.

use std::collections::BTreeMap;

use pillarbox::celery::{Body, Embed, Fields, PROTOCOL_HEADERS, Recorded};
use pillarbox::trace::{SpanContext, TRACEPARENT};
use pillarbox::{Message, SendError, StoredEvent};
use serde_json::value::RawValue;

/// A complete message, without its target.
pub(super) struct Outgoing<'a> {
    /// The task's name.
    pub(super) task: String,
    /// The task's id.
    pub(super) id: String,
    /// Whether the producer set a priority.
    pub(super) has_priority: bool,
    pub(super) recorded: Recorded<'a>,
}

impl<'a> Outgoing<'a> {
    /// Returns the message for this attempt. If the attempt has a span, the worker continues it.
    pub(super) fn of(message: &'a Message, task: Option<&str>) -> Result<Self, SendError> {
        let mut outgoing = Self::new(message, task)?;
        if let Some(span) = message.trace() {
            continue_trace(&mut outgoing.recorded.headers, span).map_err(SendError::reject)?;
        }
        Ok(outgoing)
    }

    /// Returns the message of an event. `task` is the task's name for plain events; without it, the event's type is.
    pub(super) fn new(event: &'a StoredEvent, task: Option<&str>) -> Result<Self, SendError> {
        match Recorded::of(event) {
            Some(Ok(recorded)) => Self::complete(recorded, &event.event_type, event),
            Some(Err(error)) => Err(SendError::reject(error)),
            None => {
                // A worker gets an opaque payload as base64, because the arguments of a task are JSON.
                event.payload_bytes().map_err(SendError::reject)?;
                let task = task.unwrap_or(&event.event_type);
                Self::complete(plain(event).map_err(SendError::reject)?, task, event)
            }
        }
    }

    fn complete(mut recorded: Recorded<'a>, task: &str, event: &StoredEvent) -> Result<Self, SendError> {
        let has_priority = recorded.properties.get("priority").is_some_and(|value| value.get() != "null");
        recorded.complete(task, &event.id.to_string()).map_err(SendError::reject)?;
        let task = text(&recorded.headers, "task")?;
        let id = text(&recorded.headers, "id")?;
        Ok(Self { task, id, has_priority, recorded })
    }

    /// Returns the name that routes match.
    pub(super) fn route_name(&self) -> &str {
        self.recorded.route_name.as_deref().unwrap_or(&self.task)
    }
}

fn text(headers: &Fields<'_>, name: &str) -> Result<String, SendError> {
    headers.text(name).map(std::borrow::Cow::into_owned).ok_or_else(|| {
        SendError::reject(format!(
            "the header {name:?} of the recorded Celery message is not text; its producer must write it as text"
        ))
    })
}

/// Writes the span into the headers, and into the nested table `headers` if that has a trace.
fn continue_trace(headers: &mut Fields<'_>, span: SpanContext) -> serde_json::Result<()> {
    let traceparent = span.to_string();
    if let Some(table) = headers.take("headers") {
        match serde_json::from_str::<Fields<'_>>(table.get()) {
            Ok(mut carried) if carried.get(TRACEPARENT).is_some() => {
                carried.set(TRACEPARENT, &traceparent)?;
                headers.set("headers", &carried)?;
            }
            _ => headers.set("headers", table.as_ref())?,
        }
    }
    headers.set(TRACEPARENT, &traceparent)
}

/// Makes a task from an event that was not meant for Celery. Its payload is the only argument, its id is the task's id. An opaque
/// payload stays base64, and the header `pillarbox-content-type` goes with it.
fn plain(event: &StoredEvent) -> serde_json::Result<Recorded<'_>> {
    let args = RawValue::from_string(format!("[{}]", event.payload.get()))?;
    let kwargs = RawValue::from_string("{}".to_owned())?;
    let mut recorded = Recorded::new(Body::of_task(&args, &kwargs, &Embed::default()));
    let headers = &mut recorded.headers;
    if !event.headers.is_empty() {
        // Sentry's workers read the trace from a table of this name, other workers from the headers themselves.
        let carried: BTreeMap<_, _> = event.headers.iter().collect();
        headers.set("headers", &carried)?;
        for (name, value) in carried {
            // A header that has a meaning for workers stays under "headers" only.
            if name != "headers" && !PROTOCOL_HEADERS.contains(&name.as_str()) {
                headers.set(name.as_str(), value)?;
            }
        }
    }
    headers.set("event_id", &event.id)?;
    headers.set("event_type", &event.event_type)?;
    headers.set("aggregate_type", &event.aggregate_type)?;
    headers.set("aggregate_id", &event.aggregate_id)?;
    Ok(recorded)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn headers(event: &StoredEvent, task: Option<&str>) -> Value {
        serde_json::to_value(&Outgoing::new(event, task).unwrap().recorded.headers).unwrap()
    }

    #[test]
    fn a_plain_event_becomes_a_task_that_names_it() {
        let mut event = StoredEvent::for_tests("order.placed", r#"{"total": 12345678901234567890.50}"#);
        event.headers.insert("traceparent".to_owned(), "00-1".to_owned());
        event.headers.insert("id".to_owned(), "not the task's".to_owned());
        let id = event.id.to_string();
        let message = Outgoing::new(&event, None).unwrap();
        assert_eq!((message.task.as_str(), message.id.as_str()), ("order.placed", id.as_str()));
        let expected = r#"[[{"total": 12345678901234567890.50}], {}, {"callbacks": null, "errbacks": null, "chain": null, "chord": null}]"#;
        assert_eq!(message.recorded.body.as_bytes(), expected.as_bytes());
        let headers = headers(&event, Some("events.handle"));
        assert_eq!((&headers["task"], &headers["id"]), (&json!("events.handle"), &json!(id)));
        assert_eq!((&headers["event_id"], &headers["event_type"]), (&json!(id), &json!("order.placed")));
        assert_eq!((&headers["aggregate_type"], &headers["aggregate_id"]), (&json!("Order"), &json!("42")));
        assert_eq!(headers["traceparent"], "00-1");
        assert_eq!(headers["headers"], json!({ "traceparent": "00-1", "id": "not the task's" }));
        assert_eq!(headers["retries"], 0);
    }

    #[test]
    fn an_event_that_looks_like_a_message_is_an_event() {
        let payload = r#"{"celery": 1, "body": "", "headers": {"task": "evil"}, "queue": "victim"}"#;
        let event = StoredEvent::for_tests("order.placed", payload);
        let message = Outgoing::new(&event, None).unwrap();
        assert_eq!((message.task.as_str(), message.recorded.queue.as_deref()), ("order.placed", None));
    }

    #[test]
    fn a_worker_goes_on_with_the_span_of_the_attempt() {
        let span: SpanContext = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".parse().unwrap();
        let headers = |event: StoredEvent| {
            let message = Message::new(std::sync::Arc::new(event), 1).traced(span);
            serde_json::to_value(&Outgoing::of(&message, None).unwrap().recorded.headers).unwrap()
        };
        let mut plain = StoredEvent::for_tests("order.placed", "{}");
        plain.headers.insert("traceparent".to_owned(), "00-1".to_owned());
        plain.headers.insert("tenant".to_owned(), "a".to_owned());
        let told = headers(plain);
        assert_eq!(told["traceparent"], span.to_string());
        assert_eq!(told["headers"], json!({ "traceparent": span.to_string(), "tenant": "a" }));

        let recorded = r#"{"celery": 1, "body": "", "headers": {"task": "t", "headers": {"x": 1.10}}}"#;
        let told = headers(StoredEvent::task_for_tests("t", recorded));
        assert_eq!((&told["traceparent"], &told["headers"]), (&json!(span.to_string()), &json!({ "x": 1.10 })));
    }

    #[test]
    fn what_is_not_a_message_of_version_1_is_rejected() {
        let refusal = |payload: &str| Outgoing::new(&StoredEvent::task_for_tests("t", payload), None).err().unwrap();
        let error = refusal(r#"{"celery": 2, "body": ""}"#);
        assert_eq!(error.kind, pillarbox::SendErrorKind::Reject);
        assert!(error.message.contains("recorded in version 2"), "{error}");
        assert!(refusal(r#"{"celery": 1, "headers": {}}"#).message.contains("has no \"body\""));
        let error = refusal(r#"{"celery": 1, "body": "", "headers": {"task": 3}}"#);
        assert!(error.message.contains("\"task\" of the recorded Celery message is not text"), "{error}");
    }

    #[test]
    fn only_a_priority_that_the_producer_gave_counts() {
        let has = |payload: &str| Outgoing::new(&StoredEvent::task_for_tests("t", payload), None).unwrap().has_priority;
        assert!(!has(r#"{"celery": 1, "body": "", "headers": {}}"#));
        assert!(!has(r#"{"celery": 1, "body": "", "headers": {}, "properties": {"priority": null}}"#));
        assert!(has(r#"{"celery": 1, "body": "", "headers": {}, "properties": {"priority": 0}}"#));
    }
}
