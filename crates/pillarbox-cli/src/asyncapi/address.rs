//! Servers and addresses of channels, from the addresses that the pages show.

use pillarbox_sinks::DestinationSettings;
use serde_json::{Map, Value, json};

/// The host of a server whose address is a secret. It can be nobody's.
const HIDDEN: &str = "hidden.invalid";
/// The keys that name the place of a message at its server, by kind.
const PLACES: [&str; 6] = ["topic", "subject", "routing_key", "stream", "queue_url", "topic_arn"];

/// Where a destination is.
pub(super) struct Address {
    protocol: String,
    host: String,
    /// The address of the channel; null if the configuration does not say.
    pub(super) channel: Value,
    pub(super) parameters: Map<String, Value>,
}

impl Address {
    pub(super) fn of(destination: &DestinationSettings) -> Self {
        let kind = destination.kind();
        let shown = destination.shown_address().unwrap_or_default();
        let first = shown.split(',').next().unwrap_or_default();
        let (scheme, rest) = first.split_once("://").unwrap_or((protocol(kind), first));
        let (host, path) = rest.split_once('/').map_or((rest, None), |(host, path)| (host, Some(path)));
        let host = host.rsplit('@').next().unwrap_or_default();
        let is_host = !host.is_empty() && !host.contains(['*', ' ', '{']);
        let keys = destination.shown();
        let place =
            PLACES.iter().find_map(|place| keys.iter().find(|(key, _)| key == place)?.1.as_str().map(str::to_owned));
        let path = path.map(|path| format!("/{}", path.split(['?', '#']).next().unwrap_or_default()));
        let (channel, parameters) = parameters(place.or(path).filter(|_| kind != super::CELERY));
        Self {
            protocol: scheme.to_owned(),
            host: if is_host { host.to_owned() } else { HIDDEN.to_owned() },
            channel,
            parameters,
        }
    }

    pub(super) fn server(&self) -> Value {
        let mut server = json!({ "host": self.host, "protocol": self.protocol });
        if self.host == HIDDEN {
            server["description"] = "The address is a secret of the configuration.".into();
        }
        server
    }
}

fn protocol(kind: &str) -> &str {
    match kind {
        "http" => "https",
        super::CELERY => "amqp",
        other => other,
    }
}

/// Returns the address with the fields of events as parameters. Their names have no dots.
fn parameters(place: Option<String>) -> (Value, Map<String, Value>) {
    // Doubled braces are plain ones, which an address cannot have.
    let Some(place) = place.filter(|place| !place.contains("{{") && !place.contains("}}")) else {
        return (Value::Null, Map::new());
    };
    let (mut address, mut parameters, mut rest) = (String::new(), Map::new(), place.as_str());
    while let Some((before, (field, after))) =
        rest.split_once('{').and_then(|(b, rest)| Some((b, rest.split_once('}')?)))
    {
        let name = field.replace('.', "-");
        address.push_str(&format!("{before}{{{name}}}"));
        parameters.insert(name, json!({ "description": format!("{field} of the event") }));
        rest = after;
    }
    address.push_str(rest);
    (address.into(), parameters)
}
