//! The keys of a destination of kind "http": where to POST to, and how.

use std::collections::BTreeMap;
use std::time::Duration;

use pillarbox_sinks::http::HttpSettings;

use super::super::secret::SecretRef;
use super::super::section::Section;
use super::super::value::some_time;

pub(in crate::config) const FORMATS: [(&str, Format); 2] =
    [("payload", Format::Payload), ("cloudevents", Format::CloudEvents)];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Payload,
    CloudEvents,
}

/// As it was written; the secrets are looked up when something is to be sent.
#[derive(Debug, Clone)]
pub(crate) struct HttpKeys {
    pub(crate) url: Option<SecretRef>,
    pub(crate) secrets: Vec<SecretRef>,
    pub(crate) bearer: Option<SecretRef>,
    pub(crate) headers: BTreeMap<String, SecretRef>,
    pub(crate) connect_timeout: Option<Duration>,
    pub(crate) allow_private: bool,
    pub(crate) format: Format,
}

pub(super) fn lower(section: &mut Section<'_>) -> HttpKeys {
    let default = HttpSettings::new("");
    HttpKeys {
        url: section.take("url"),
        secrets: section.take("secrets").unwrap_or_default(),
        bearer: section.take("bearer"),
        headers: section.take("headers").unwrap_or_default(),
        connect_timeout: section.take_checked("connect_timeout", some_time),
        allow_private: section.take("allow_private").unwrap_or(default.allow_private),
        format: section.choose("format", &FORMATS).unwrap_or(Format::Payload),
    }
}
