//! An event's request to an HTTP destination as a `curl` command, to be pasted and tried: secrets are left out, and what is
//! masked stays masked. Pure.

use std::fmt::Write as _;

use pillarbox::store::EventDetail;
use pillarbox_sinks::http::sends_event_header;
use serde_json::json;

use crate::config::destination::DestinationSettings;
use crate::config::show::ShownRequest;

/// A longer body is read from a file, which shells and people can bear.
const LONGEST_BODY: usize = 16 * 1024;
/// As the sink for HTTP has it when nothing else is said.
const CLOUD_EVENTS_SOURCE: &str = "/pillarbox";

/// For one destination.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Command {
    pub(crate) destination: String,
    pub(crate) command: String,
}

/// `None` when the destination does not speak HTTP.
pub(super) fn command(detail: &EventDetail, destination: &DestinationSettings) -> Option<Command> {
    let request = destination.shown_request()?;
    let mut command = format!("curl -X POST {}", quoted(&request.url));
    for header in headers(detail, &request) {
        let _ = write!(command, " \\\n  -H {}", quoted(&header));
    }
    for (name, variable) in &request.secret_headers {
        let _ = write!(command, " \\\n  -H \"{name}: {variable}\"");
    }
    let body = body(detail, &request);
    if body.len() > LONGEST_BODY {
        let _ = write!(command, " \\\n  --data-binary @{}.json", detail.event.id);
    } else {
        let _ = write!(command, " \\\n  --data-binary {}", quoted(&body));
    }
    if request.signed {
        command.push_str("\n# Its webhook-signature is left out: it can be made only with the secret.");
    }
    Some(Command { destination: destination.name.clone(), command })
}

fn headers(detail: &EventDetail, request: &ShownRequest) -> Vec<String> {
    let event = &detail.event;
    let content_type = if request.cloud_events { "application/cloudevents+json" } else { "application/json" };
    let mut headers = vec![
        format!("content-type: {content_type}"),
        format!("webhook-id: {}", event.id),
        format!("pillarbox-event-type: {}", encoded(&event.event_type)),
        format!("pillarbox-aggregate-type: {}", encoded(&event.aggregate_type)),
        format!("pillarbox-aggregate-id: {}", encoded(&event.aggregate_id)),
    ];
    let configured = |name: &str| request.secret_headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name));
    for (name, value) in &detail.headers {
        // Control characters that could be sent are nothing for a terminal.
        if sends_event_header(name, value) && !configured(name) && !value.contains(char::is_control) {
            headers.push(format!("{name}: {value}"));
        }
    }
    headers
}

fn body(detail: &EventDetail, request: &ShownRequest) -> String {
    let (event, payload) = (&detail.event, detail.payload.get());
    if !request.cloud_events {
        return payload.to_owned();
    }
    let mut envelope = json!({
        "specversion": "1.0",
        "id": event.id,
        "source": CLOUD_EVENTS_SOURCE,
        "type": event.event_type,
        "subject": format!("{}/{}", event.aggregate_type, event.aggregate_id),
        "time": event.created_at,
        "datacontenttype": "application/json",
        "aggregatetype": event.aggregate_type,
        "aggregateid": event.aggregate_id,
    });
    for name in ["traceparent", "tracestate"] {
        if let Some(value) = detail.headers.get(name) {
            envelope[name] = json!(value);
        }
    }
    // The payload as it is: reading it could change the digits of its numbers.
    let text = envelope.to_string();
    format!("{},\"data\":{payload}}}", text.strip_suffix('}').unwrap_or(&text))
}

/// As the sink for HTTP writes names into headers.
fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_graphic() && byte != b'"' && byte != b'%';
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

/// For a shell of the POSIX kind: nothing in it is expanded.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn nothing_gets_out_of_the_quotes() {
        assert_eq!(quoted("a'b; rm -rf $HOME"), r"'a'\''b; rm -rf $HOME'");
    }
}
