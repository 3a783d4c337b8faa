//! `[metrics]`: where metrics are served or sent, and their names.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use pillarbox_sinks::config::{Section, some_time};

use super::source::SourceKind;

const EVERY: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct MetricsSettings {
    /// The address of `/metrics`, `/healthz` and `/readyz`; `None` serves nothing.
    pub(crate) listen: Option<SocketAddr>,
    /// `HOST:PORT` of a DogStatsD server; `None` sends nothing.
    pub(crate) statsd: Option<String>,
    pub(crate) prefix: String,
    pub(crate) tags: BTreeMap<String, String>,
    /// The interval at which waiting events are counted.
    pub(crate) every: Duration,
}

pub(super) fn lower(mut section: Section<'_>, source: SourceKind) -> MetricsSettings {
    let settings = MetricsSettings {
        listen: section.take("listen"),
        statsd: section.take_checked("statsd", host_and_port),
        prefix: section.take_checked("prefix", plain).unwrap_or_else(|| source.usual_prefix().to_owned()),
        tags: section.take("tags").unwrap_or_default(),
        every: section.take_checked("every", some_time).unwrap_or(EVERY),
    };
    section.finish();
    settings
}

fn host_and_port(text: &String) -> Result<(), String> {
    let split = text.rsplit_once(':').filter(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
    let refusal = || format!("is {text:?}, but must be a host and a port, like \"127.0.0.1:9125\"");
    split.map(drop).ok_or_else(refusal)
}

fn plain(text: &String) -> Result<(), String> {
    let is_plain = text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'));
    let refusal = || format!("is {text:?}, but must be letters, digits, underscores and dots");
    is_plain.then_some(()).ok_or_else(refusal)
}
