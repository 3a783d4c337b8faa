//! `[tracing]`: where the spans of claim, send and settle are exported, and how many. The standard variables of
//! OpenTelemetry win over the file, and `PILLARBOX_TRACING_…` wins over them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use pillarbox_sinks::Secret;
use pillarbox_sinks::Tls;
use pillarbox_sinks::config::{ConfigError, Resolver, SecretRef, Section};
use pillarbox_sinks::http::HttpSettings;

use super::environment::Environment;

/// The path that OpenTelemetry's exporters add to a collector's address.
const PATH: &str = "/v1/traces";
pub(super) const SERVICE: &str = "pillarbox";

#[derive(Debug, Clone)]
pub(crate) struct TracingSettings {
    /// The collector; `None` exports nothing.
    pub(crate) endpoint: Option<Endpoint>,
    pub(crate) headers: BTreeMap<String, SecretRef>,
    pub(crate) ca_file: Option<PathBuf>,
    /// The service's name; `None` leaves it to OpenTelemetry's own variables.
    pub(crate) service_name: Option<String>,
    /// The protocol of the variables, if it is not supported.
    pub(crate) unspoken: Option<String>,
    /// The share of traces begun here that is kept; `None` leaves it to OpenTelemetry's own variables.
    pub(crate) sample: Option<f64>,
}

/// A collector of spans.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    /// `http://127.0.0.1:4318`
    pub(crate) url: SecretRef,
    /// Whether the URL includes the path: `http://127.0.0.1:4318/v1/traces`.
    is_whole: bool,
}

/// The settings of the export, with secrets.
pub(crate) struct Export {
    /// The URL with its path, the timeouts and the trusted authorities.
    pub(crate) http: HttpSettings,
    pub(crate) headers: BTreeMap<String, Secret>,
}

pub(super) fn lower(mut section: Section<'_>, environment: &Environment) -> TracingSettings {
    let standard = |key: &str, names: &[&'static str]| {
        let ours = environment.get(&format!("PILLARBOX_TRACING_{key}")).is_some();
        names.iter().find_map(|name| environment.get(name)).filter(|text| !ours && !text.is_empty())
    };
    let written = section.take_checked("endpoint", is_http).map(|url| Endpoint { url, is_whole: false });
    let by_variable = |name, is_whole| {
        standard("ENDPOINT", &[name]).map(|url| Endpoint { url: SecretRef::Plain(url.into()), is_whole })
    };
    let endpoint = by_variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", true)
        .or_else(|| by_variable("OTEL_EXPORTER_OTLP_ENDPOINT", false))
        .or(written);
    let protocol = standard("", &["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"]);
    let is_off = environment.get("OTEL_SDK_DISABLED").is_some_and(|text| text.eq_ignore_ascii_case("true"))
        || environment.get("OTEL_TRACES_EXPORTER") == Some("none");
    let named = standard("SERVICE_NAME", &["OTEL_SERVICE_NAME"]).is_some()
        || standard("SERVICE_NAME", &["OTEL_RESOURCE_ATTRIBUTES"]).is_some_and(|text| text.contains("service.name="));
    let sampled = standard("SAMPLE", &["OTEL_TRACES_SAMPLER"]).is_some();
    let service_name: Option<String> = section.take_checked("service_name", |name: &String| match name.as_str() {
        "" => Err("is empty; write the service name of the spans".to_owned()),
        _ => Ok(()),
    });
    let sample = section.take_checked("sample", share);
    let settings = TracingSettings {
        endpoint: endpoint.filter(|_| !is_off),
        headers: section.take("headers").unwrap_or_default(),
        ca_file: section.take("ca_file").map(|path: String| PathBuf::from(path)),
        service_name: (!named).then(|| service_name.unwrap_or_else(|| SERVICE.to_owned())),
        unspoken: protocol.filter(|name| *name != "http/protobuf").map(str::to_owned),
        sample: (!sampled).then_some(sample.unwrap_or(1.0)),
    };
    section.finish();
    settings
}

fn is_http(endpoint: &SecretRef) -> Result<(), String> {
    match endpoint {
        SecretRef::Plain(url) if !["http://", "https://"].iter().any(|scheme| url.expose().starts_with(scheme)) => {
            Err("must be the URL of a collector that accepts OTLP over HTTP, like \"http://127.0.0.1:4318\"".to_owned())
        }
        _ => Ok(()),
    }
}

fn share(sample: &f64) -> Result<(), String> {
    match sample {
        0.0..=1.0 => Ok(()),
        _ => Err(format!("is {sample}, but must be a share from 0.0 to 1.0: 0.1 keeps a tenth of the traces")),
    }
}

impl TracingSettings {
    /// Returns the settings with the secrets looked up; `None` if nothing is exported.
    pub(crate) fn export(&self, environment: &Environment) -> Result<Option<Export>, ConfigError> {
        let problem = |what: String| ConfigError::new(format!("tracing.{what}"));
        let Some(endpoint) = &self.endpoint else { return Ok(None) };
        let given = endpoint.url.resolve(environment).map_err(|what| problem(format!("endpoint {what}")))?;
        let url = if endpoint.is_whole { given.expose().to_owned() } else { whole(given.expose()) };
        let mut headers = BTreeMap::new();
        for (name, given) in &self.headers {
            let secret = given.resolve(environment).map_err(|what| problem(format!("headers.{name} {what}")))?;
            headers.insert(name.clone(), secret);
        }
        let read = |path: &PathBuf| {
            let read = environment.read(path);
            read.map_err(|error| problem(format!("ca_file is {}, which cannot be read: {error}", path.display())))
        };
        let tls = Tls { authorities: self.ca_file.as_ref().map(read).transpose()?, identity: None };
        let http = HttpSettings { allow_private: true, tls, ..HttpSettings::new(url) };
        Ok(Some(Export { http, headers }))
    }
}

/// Returns the address of a collector with the path for spans.
fn whole(collector: &str) -> String {
    let collector = collector.trim_end_matches('/');
    if collector.ends_with(PATH) { collector.to_owned() } else { format!("{collector}{PATH}") }
}
