//! Spans of claim, send and settle, exported by OTLP over HTTP. A collector that is slow or gone loses spans, and slows
//! and stops nothing.

mod collector;
mod spans;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider};
use pillarbox::RelayBuilder;

use self::collector::Collector;
use self::spans::Spans;
use crate::config::source::SourceKind;
use crate::config::tracing::{Export, TracingSettings};
use crate::config::{ConfigError, Environment};

/// How long the collector may take for what is left when the relay has stopped.
const PATIENCE: Duration = Duration::from_secs(3);

/// The exporter, until the relay has stopped.
pub(crate) struct Otlp {
    provider: SdkTracerProvider,
    spans: Arc<Spans>,
}

impl Otlp {
    /// `None` when nothing is to be exported.
    pub(crate) fn start(
        settings: &TracingSettings,
        source: SourceKind,
        environment: &Environment,
    ) -> anyhow::Result<Option<Self>> {
        let Some(export) = settings.export(environment)? else { return Ok(None) };
        let exporter = exporter(export)?;
        let mut builder = SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource(settings));
        if let Some(share) = settings.sample {
            // What its producer keeps is kept, and what it does not is not.
            builder = builder.with_sampler(Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(share))));
        }
        let provider = builder.build();
        let spans = Arc::new(Spans::new(provider.tracer("pillarbox"), source));
        Ok(Some(Self { provider, spans }))
    }

    /// This relay's events are followed.
    pub(crate) fn follow(&self, builder: RelayBuilder) -> RelayBuilder {
        builder.tracer(Arc::clone(&self.spans) as Arc<dyn pillarbox::trace::Tracer>)
    }

    /// The relay has stopped: what is left is exported, if that does not take long.
    pub(crate) async fn finish(self) {
        let (ended, end) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || {
            // Nobody may be waiting for it.
            let _ = ended.send(self.provider.shutdown_with_timeout(PATIENCE));
        });
        match tokio::time::timeout(PATIENCE * 2, end).await {
            Ok(Ok(Ok(()))) => {}
            _ => tracing::warn!("not all spans could be exported before the end"),
        }
    }
}

fn exporter(export: Export) -> anyhow::Result<SpanExporter> {
    let url = export.http.url.clone();
    let collector =
        Collector::new(&export.http).map_err(|error| ConfigError::new(format!("tracing.endpoint: {error}")))?;
    let headers: HashMap<String, String> =
        export.headers.into_iter().map(|(name, value)| (name, value.expose().to_owned())).collect();
    SpanExporter::builder()
        .with_http()
        .with_http_client(collector)
        .with_endpoint(url)
        .with_protocol(Protocol::HttpBinary)
        .with_headers(headers)
        .build()
        .context("the exporter of spans cannot be made; check [tracing] and the variables OTEL_EXPORTER_OTLP_…")
}

fn resource(settings: &TracingSettings) -> Resource {
    let resource = Resource::builder().with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")));
    match &settings.service_name {
        Some(name) => resource.with_service_name(name.clone()).build(),
        None => resource.build(),
    }
}
