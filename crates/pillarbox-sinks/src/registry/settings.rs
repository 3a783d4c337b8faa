//! `[destinations.NAME]`: the keys that all kinds have, and the target of one kind. Secrets are looked up only when the
//! sink is built.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pillarbox::delivery::{CHECK, UNROUTED};
use pillarbox::{Destination, RelaySettings, Sink};
use toml::Value;

use super::Registry;
use super::kind::{Build, EventParts, Kind, ShownRequest, SigningEntry, Target, TlsFiles};
use crate::config::shown::{Key, duration, number, text};
use crate::config::{ConfigError, Resolver, Section, positive, some_time};
use crate::discard;

const NAME_LIMIT: usize = 255;
const TIMEOUT: Duration = Duration::from_secs(10);

/// A destination, as the configuration describes it.
#[derive(Debug, Clone)]
pub struct DestinationSettings {
    /// The name that routes use.
    pub name: String,
    /// The timeout of a send.
    pub timeout: Duration,
    /// The number of sends at once.
    pub concurrency: usize,
    /// Events per second; `None` means no limit.
    pub rate: Option<f64>,
    /// Whether sending is paused. Events wait.
    pub paused: bool,
    files: TlsFiles,
    place: String,
    kind: &'static str,
    is_dry_run: bool,
    target: Arc<dyn Target>,
}

pub(super) fn read<'a>(
    registry: &Registry,
    name: String,
    mut section: Section<'a>,
    relay: &RelaySettings,
    resolver: &'a dyn Resolver,
) -> DestinationSettings {
    check_name(&name, &section);
    let kind = registry.choose(&mut section);
    if let Some(prefix) = kind.and_then(Kind::flags) {
        section.obey_flags(prefix, resolver);
    }
    let target = registry.read_target(&mut section, kind);
    let timeout = section.take_checked("timeout", some_time).unwrap_or(TIMEOUT);
    if !relay.leaves_time_for(timeout) {
        section.problem("timeout", outlives(timeout, relay.lease));
    }
    let usual = kind.and_then(Kind::concurrency).unwrap_or(relay.concurrency);
    let destination = DestinationSettings {
        timeout,
        rate: section.take_checked("rate", per_second),
        concurrency: section.take_checked("concurrency", positive).unwrap_or(usual),
        paused: section.take("paused").unwrap_or(false),
        files: read_files(&mut section),
        place: section.place().to_owned(),
        kind: kind.map_or(discard::KIND, Kind::name),
        is_dry_run: kind.is_some_and(Kind::is_dry_run),
        target,
        name,
    };
    section.finish();
    destination
}

/// Reads the files of certificates. A client's certificate and its key go together.
fn read_files(section: &mut Section<'_>) -> TlsFiles {
    let mut path = |key| section.take(key).map(|path: String| PathBuf::from(path));
    let (authorities, certificate, key) = (path("ca_file"), path("client_certificate_file"), path("client_key_file"));
    match (&certificate, &key) {
        (Some(_), None) => section.problem("client_key_file", "is missing; client_certificate_file needs its key"),
        (None, Some(_)) => {
            section.problem("client_certificate_file", "is missing; client_key_file is the key of a certificate");
        }
        _ => {}
    }
    TlsFiles { authorities, certificate, key }
}

fn check_name(name: &str, section: &Section<'_>) {
    if name == UNROUTED || name == CHECK {
        section.problem_here("has a reserved name; choose another");
    } else if name.is_empty() || name.chars().count() > NAME_LIMIT {
        section.problem_here(format_args!("must have a name of 1 to {NAME_LIMIT} characters"));
    }
}

fn per_second(rate: &f64) -> Result<(), String> {
    let sensible = rate.is_finite() && *rate > 0.0;
    let refusal = || format!("is {rate}, but must be events per second, more than 0; leave it out for no limit");
    sensible.then_some(()).ok_or_else(refusal)
}

fn outlives(timeout: Duration, lease: Duration) -> String {
    let (timeout, lease) = (humantime::format_duration(timeout), humantime::format_duration(lease));
    format!(
        "is {timeout}, but must be less than relay.lease ({lease}) by a tenth or more, or events could be sent \
         twice; lower it or raise the lease"
    )
}

impl DestinationSettings {
    /// Returns the name of its kind.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// Returns whether the destination only marks events as delivered.
    #[must_use]
    pub fn is_dry_run(&self) -> bool {
        self.is_dry_run
    }

    /// Returns the target that the keys of its kind describe.
    #[must_use]
    pub fn target(&self) -> &dyn Target {
        self.target.as_ref()
    }

    /// Returns every key with its value, secrets as `***`.
    #[must_use]
    pub fn shown(&self) -> Vec<Key> {
        let mut keys = vec![("kind", text(self.kind))];
        keys.extend(self.target.shown());
        let TlsFiles { authorities, certificate, key } = &self.files;
        let files = [("ca_file", authorities), ("client_certificate_file", certificate), ("client_key_file", key)];
        let shown =
            |(key, path): (_, &Option<PathBuf>)| path.as_ref().map(|path| (key, text(path.display().to_string())));
        keys.extend(files.into_iter().filter_map(shown));
        keys.push(("timeout", duration(self.timeout)));
        keys.push(("concurrency", number(self.concurrency)));
        keys.extend(self.rate.map(|rate| ("rate", Value::Float(rate))));
        keys.push(("paused", Value::Boolean(self.paused)));
        keys
    }

    /// Returns its address for people, without logins and paths.
    #[must_use]
    pub fn shown_address(&self) -> Option<String> {
        self.target.address()
    }

    /// Returns the HTTP request that this event is sent as, without secrets. `None` when it is not sent over HTTP.
    #[must_use]
    pub fn shown_request(&self, event: &EventParts<'_>) -> Option<ShownRequest> {
        self.target.request(event)
    }

    /// Looks up the secrets and builds the destination of a relay.
    ///
    /// # Errors
    /// Says which key is wrong and what to do, without showing secrets.
    pub fn build(&self, resolver: &dyn Resolver) -> Result<Destination, ConfigError> {
        Ok(self.destination(self.sink(resolver)?))
    }

    /// As [`DestinationSettings::build`], for an application that wraps the sink.
    ///
    /// # Errors
    /// As [`DestinationSettings::build`].
    pub fn sink(&self, resolver: &dyn Resolver) -> Result<Arc<dyn Sink>, ConfigError> {
        self.target.sink(&self.inputs(resolver))
    }

    /// Returns a remark for each setting that is allowed and probably a mistake, without secrets.
    #[must_use]
    pub fn remarks(&self, resolver: &dyn Resolver) -> Vec<String> {
        self.target.remarks(&self.inputs(resolver))
    }

    /// Returns the keys that sign its messages, in their order, without secrets. `None` if its kind signs nothing.
    #[must_use]
    pub fn signing_keys(&self, resolver: &dyn Resolver) -> Option<Vec<SigningEntry>> {
        self.target.signing_keys(&self.inputs(resolver))
    }

    /// Returns the reason why a [test event](pillarbox::sink::test_event) cannot be sent to it, in a sentence that begins with its
    /// name. `None` if it can.
    #[must_use]
    pub fn untestable(&self) -> Option<&'static str> {
        self.target.untestable()
    }

    fn inputs<'a>(&'a self, resolver: &'a dyn Resolver) -> Build<'a> {
        Build { place: &self.place, timeout: self.timeout, files: &self.files, resolver }
    }

    /// Returns the destination of a relay, with this sink and the limits of the configuration.
    #[must_use]
    pub fn destination(&self, sink: Arc<dyn Sink>) -> Destination {
        Destination::shared(self.name.clone(), sink)
            .timeout(self.timeout)
            .concurrency(self.concurrency)
            .rate(self.rate)
            .paused(self.paused)
    }
}
