//! Exports spans of claim, send and settle by OTLP over HTTP. A collector that is slow or gone loses spans, but blocks
//! nothing.

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

/// The time to export the remaining spans after the relay has stopped.
const PATIENCE: Duration = Duration::from_secs(3);

/// The exporter.
pub(crate) struct Otlp {
    provider: SdkTracerProvider,
    spans: Arc<Spans>,
}

impl Otlp {
    /// Starts the exporter. Returns `None` if nothing is exported.
    pub(crate) fn start(
        settings: &TracingSettings,
        source: SourceKind,
        environment: &Environment,
    ) -> anyhow::Result<Option<Self>> {
        let Some(export) = settings.export(environment)? else { return Ok(None) };
        let exporter = exporter(export)?;
        let mut builder = SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource(settings));
        if let Some(share) = settings.sample {
            // The producer's decision to keep a trace or not is respected.
            builder = builder.with_sampler(Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(share))));
        }
        let provider = builder.build();
        let spans = Arc::new(Spans::new(provider.tracer("pillarbox"), source));
        Ok(Some(Self { provider, spans }))
    }

    /// Adds the tracer to this relay.
    pub(crate) fn follow(&self, builder: RelayBuilder) -> RelayBuilder {
        builder.tracer(Arc::clone(&self.spans) as Arc<dyn pillarbox::trace::Tracer>)
    }

    /// Exports the remaining spans after the relay has stopped, up to the timeout.
    pub(crate) async fn finish(self) {
        let (ended, end) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || {
            // The receiver may be gone.
            let _ = ended.send(self.provider.shutdown_with_timeout(PATIENCE));
        });
        match tokio::time::timeout(PATIENCE * 2, end).await {
            Ok(Ok(Ok(()))) => {}
            _ => tracing::warn!("exporting the last spans failed"),
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
        .context("creating the span exporter failed; check [tracing] and the variables OTEL_EXPORTER_OTLP_…")
}

fn resource(settings: &TracingSettings) -> Resource {
    let resource = Resource::builder().with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")));
    match &settings.service_name {
        Some(name) => resource.with_service_name(name.clone()).build(),
        None => resource.build(),
    }
}
