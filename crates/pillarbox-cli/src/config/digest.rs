//! The digest of the routes and destinations. Relays write it into `outbox_relay`, so that people see which relays route
//! differently. It contains no secrets, and is the same for the same file on every host and platform.

use std::fmt::Write;

use pillarbox::Unrouted;
use sha2::{Digest, Sha256};

use super::Settings;

impl Settings {
    /// Returns the digest: SHA-256 as 64 hexadecimal digits.
    pub(crate) fn digest(&self) -> String {
        // The lengths keep `["a, b"]` and `["a", "b"]` apart. The first line changes with the format of the text.
        let mut text = String::from("pillarbox 1\n");
        let mut add = |line: &[&str]| {
            for part in line {
                // Writing to a string cannot fail.
                let _ = write!(text, "{}:{part} ", part.len());
            }
            text.push('\n');
        };
        for route in &self.routes {
            let mut line = vec!["route", route.events.as_str(), route.aggregates.as_str()];
            line.extend(route.to.iter().map(String::as_str));
            add(&line);
            if let Some(condition) = &route.condition {
                add(&["where", condition.as_str()]);
            }
        }
        add(&["unrouted", if self.relay.unrouted == Unrouted::Discard { "discard" } else { "park" }]);
        // The order of schemas has a meaning, too. Their contents are not read here.
        for schema in &self.schemas {
            add(&["schema", schema.events.as_str(), &schema.file.display().to_string()]);
        }
        // The order of destinations has no meaning; the order of routes has.
        let mut destinations: Vec<_> = self.destinations.iter().collect();
        destinations.sort_by(|one, other| one.name.cmp(&other.name));
        for destination in destinations {
            let address = destination.shown_address().unwrap_or_default();
            add(&["destination", &destination.name, destination.kind(), &address]);
        }
        Sha256::digest(text).iter().fold(String::new(), |mut digest, byte| {
            let _ = write!(digest, "{byte:02x}");
            digest
        })
    }
}
