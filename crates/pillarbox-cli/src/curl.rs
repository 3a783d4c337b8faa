//! An event's request to an HTTP destination as a `curl` command, to paste and try. Secrets are left out, and masked values
//! stay masked. Pure.

use std::fmt::Write as _;

use pillarbox::store::EventDetail;
use pillarbox_sinks::DestinationSettings;
use pillarbox_sinks::registry::EventParts;

/// The longest body in the command. A longer one is read from a file.
const LONGEST_BODY: usize = 16 * 1024;

/// Returns the command for one destination; `None` if it does not use HTTP.
pub(crate) fn command(detail: &EventDetail, destination: &DestinationSettings) -> Option<String> {
    let event = &detail.event;
    let request = destination.shown_request(&EventParts {
        id: event.id,
        event_type: &event.event_type,
        aggregate_type: &event.aggregate_type,
        aggregate_id: &event.aggregate_id,
        created_at: event.created_at,
        headers: &detail.headers,
        payload: &detail.payload,
    })?;
    let mut command = format!("curl -X POST {}", quoted(&request.url));
    for (name, value) in &request.headers {
        let _ = write!(command, " \\\n  -H {}", quoted(&format!("{name}: {value}")));
    }
    for (name, variable) in &request.secret_headers {
        let _ = write!(command, " \\\n  -H \"{name}: {variable}\"");
    }
    let body = match request.body {
        // The page offers both as a download, under these names.
        None => format!("@{}.bin", event.id),
        Some(body) if body.len() > LONGEST_BODY => format!("@{}.json", event.id),
        Some(body) => quoted(&body),
    };
    let _ = write!(command, " \\\n  --data-binary {body}");
    if request.signed {
        command.push_str("\n# The webhook-signature is left out, because it needs the secret.");
    }
    Some(command)
}

/// Quotes text for a POSIX shell, so that nothing in it is expanded.
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
