//! The keys of a destination of kind "http": the URL to POST to, and the options.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pillarbox::Sink;
use toml::Value;
use url::{Host, Url};

use super::request;
use super::settings::HttpSettings;
use super::signing_key::{self, SigningKey};
use crate::Secret;
use crate::config::shown::{Key, duration, hidden, table, text};
use crate::config::{ConfigError, SecretRef, Section, some_time};
use crate::content::Content;
use crate::http::HttpSink;
use crate::redact;
use crate::registry::{Build, EventParts, Kind, ShownRequest, SigningEntry, Target};

/// `kind = "http"`
#[derive(Debug, Clone, Copy)]
pub struct Http;

/// The shortest token that is not remarked on, in bytes. Signing secrets have the same limit.
const SHORTEST_TOKEN: usize = 24;

/// The ends of names that are used only in private networks.
const PRIVATE_ENDS: [&str; 5] = [".localhost", ".local", ".internal", ".home.arpa", ".lan"];

/// Returns the URL's host if it is a name that usually has a private address, such as a name without dots.
fn private_name(url: &str) -> Option<String> {
    let url = Url::parse(url).ok()?;
    let Some(Host::Domain(name)) = url.host() else { return None };
    let name = name.trim_end_matches('.').to_lowercase();
    let is_private = !name.contains('.') || PRIVATE_ENDS.iter().any(|end| name.ends_with(end));
    is_private.then_some(name)
}

/// An HTTP receiver, as it was configured. The secrets are looked up when the sink is built.
#[derive(Debug, Clone)]
struct HttpTarget {
    url: Option<SecretRef>,
    secrets: Vec<SecretRef>,
    bearer: Option<SecretRef>,
    headers: BTreeMap<String, SecretRef>,
    connect_timeout: Option<Duration>,
    allow_private: bool,
    content: Content,
}

impl HttpTarget {
    /// Returns remarks on secrets that may be guessed, or that sign twice.
    fn doubtful_secrets(&self, build: &Build<'_>) -> Vec<String> {
        let mut remarks = Vec::new();
        let mut seen: Vec<Secret> = Vec::new();
        for (position, given) in self.secrets.iter().enumerate() {
            let Ok(secret) = given.resolve(build.resolver()) else { continue };
            if signing_key::looks_made_up(&secret) {
                remarks.push(build.remark(format_args!(
                    "secrets[{position}] is not random and may be guessed: its key repeats a few bytes; make one with `pillarbox keys new`"
                )));
            }
            if seen.contains(&secret) {
                remarks.push(build.remark(format_args!(
                    "secrets[{position}] is there twice, so requests have the same signature twice; remove it"
                )));
            }
            seen.push(secret);
        }
        remarks
    }
}

impl Kind for Http {
    fn name(&self) -> &'static str {
        "http"
    }

    fn read(&self, section: &mut Section<'_>) -> Arc<dyn Target> {
        let default = HttpSettings::new("");
        Arc::new(HttpTarget {
            url: section.require("url", "write the URL to POST to, like \"https://receiver.example/events\""),
            secrets: section.take("secrets").unwrap_or_default(),
            bearer: section.take("bearer"),
            headers: section.take("headers").unwrap_or_default(),
            connect_timeout: section.take_checked("connect_timeout", some_time),
            allow_private: section.take("allow_private").unwrap_or(default.allow_private),
            content: Content::read(section),
        })
    }
}

impl Target for HttpTarget {
    fn shown(&self) -> Vec<Key> {
        let mut keys = Vec::new();
        keys.extend(self.address().map(|url| ("url", text(url))));
        keys.push(("secrets", Value::Array(self.secrets.iter().map(hidden).collect())));
        keys.extend(self.bearer.as_ref().map(|bearer| ("bearer", hidden(bearer))));
        keys.push(("headers", table(self.headers.iter().map(|(name, value)| (name.as_str(), hidden(value))))));
        keys.extend(self.connect_timeout.map(|timeout| ("connect_timeout", duration(timeout))));
        keys.push(("allow_private", Value::Boolean(self.allow_private)));
        keys.extend(self.content.shown());
        keys
    }

    fn address(&self) -> Option<String> {
        self.url.as_ref().map(|url| url.shown_url(redact::address))
    }

    fn sink(&self, build: &Build<'_>) -> Result<Arc<dyn Sink>, ConfigError> {
        let url = build.optional_secret("url", self.url.as_ref())?;
        let mut secrets = Vec::with_capacity(self.secrets.len());
        for (position, given) in self.secrets.iter().enumerate() {
            secrets.push(build.secret(&format!("secrets[{position}]"), given)?);
        }
        let mut headers = BTreeMap::new();
        for (name, given) in &self.headers {
            headers.insert(name.clone(), build.secret(&format!("headers.{name}"), given)?);
        }
        let settings = HttpSettings {
            secrets,
            headers,
            bearer: build.optional_secret("bearer", self.bearer.as_ref())?,
            content: self.content.clone(),
            timeout: build.timeout(),
            connect_timeout: self.connect_timeout,
            allow_private: self.allow_private,
            tls: build.tls()?,
            ..HttpSettings::new(url.as_ref().map_or("", Secret::expose))
        };
        Ok(Arc::new(HttpSink::new(settings).map_err(|error| build.problem(error))?))
    }

    fn remarks(&self, build: &Build<'_>) -> Vec<String> {
        // A secret that cannot be found is an error of the sink.
        let found = |key, given: Option<&SecretRef>| build.optional_secret(key, given).ok().flatten();
        let mut remarks = Vec::new();
        if let Some(name) = found("url", self.url.as_ref()).and_then(|url| private_name(url.expose()))
            && !self.allow_private
        {
            remarks.push(build.remark(format_args!(
                "url names {name}, which is usually a private address, and requests to private addresses are refused; set \
                 allow_private = true for a receiver on this host or in a private network"
            )));
        }
        remarks.extend(self.doubtful_secrets(build));
        let bearer = found("bearer", self.bearer.as_ref()).map_or(SHORTEST_TOKEN, |token| token.expose().len());
        if bearer < SHORTEST_TOKEN {
            remarks.push(build.remark(format_args!(
                "bearer has {bearer} bytes and may be guessed; use a random token of at least {SHORTEST_TOKEN} bytes"
            )));
        }
        remarks
    }

    fn signing_keys(&self, build: &Build<'_>) -> Option<Vec<SigningEntry>> {
        let entry = |(position, given): (usize, &SecretRef)| {
            let secret = given.resolve(build.resolver()).map_err(|what| format!("secrets[{position}] {what}"));
            let read = |secret: Secret| SigningKey::read(&secret, position).map_err(|error| error.to_string());
            SigningEntry { written: given.written(), key: secret.and_then(read).map(|key| key.shown()) }
        };
        Some(self.secrets.iter().enumerate().map(entry).collect())
    }

    fn request(&self, event: &EventParts<'_>) -> Option<ShownRequest> {
        let bearer =
            self.bearer.as_ref().map(|token| ("authorization".to_owned(), format!("Bearer {}", token.in_shell())));
        let headers = self.headers.iter().map(|(name, value)| (name.clone(), value.in_shell()));
        let secret_headers: Vec<_> = bearer.into_iter().chain(headers).collect();
        let (headers, body) = request::shown(event, &self.content, &secret_headers)?;
        let url = self.address().unwrap_or_default();
        Some(ShownRequest { url, headers, secret_headers, body, signed: !self.secrets.is_empty() })
    }
}

#[cfg(test)]
mod tests {
    use super::private_name;

    #[test]
    fn names_of_private_networks_are_recognised() {
        for (url, name) in [
            ("http://localhost:8080/events", "localhost"),
            ("http://LOCALHOST./", "localhost"),
            ("https://receiver/events", "receiver"),
            ("https://shop.localhost/", "shop.localhost"),
            ("http://billing.shop.svc.cluster.local/", "billing.shop.svc.cluster.local"),
        ] {
            assert_eq!(private_name(url).as_deref(), Some(name), "{url}");
        }
        for url in ["https://receiver.example/", "https://localhost.example/", "http://10.1.2.3/", "http://[::1]/", "?"]
        {
            assert_eq!(private_name(url), None, "{url}");
        }
    }
}
