//! The relay's steps as OpenTelemetry spans, named and described by the messaging conventions.
//!
//! A send belongs to one message: its parent is the producer's span, and it has links to that span and to its claim. A
//! claim and a settle belong to many messages, which can only be linked.

use std::str::FromStr as _;
use std::time::{Duration, SystemTime};

use opentelemetry::trace::{
    Link, Span as _, SpanBuilder, SpanContext as Told, SpanId, SpanKind, Status, TraceContextExt as _, TraceFlags,
    TraceId, TraceState, Tracer as _,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::{SdkTracer, Span};
use pillarbox::store::Claim;
use pillarbox::trace::{SendSpan, Settled, SpanContext, Tracer};
use pillarbox::{Message, SendError, StoredEvent};

use crate::config::source::SourceKind;
use crate::observers::statsd::named;

/// The maximum number of links of a span, by OpenTelemetry's default.
const LINKS: usize = 128;

pub(super) struct Spans {
    tracer: SdkTracer,
    /// The table that events are claimed from.
    outbox: &'static str,
}

impl Spans {
    pub(super) fn new(tracer: SdkTracer, source: SourceKind) -> Self {
        let outbox = match source {
            SourceKind::OutboxEvent | SourceKind::Wal => "outbox_event",
            SourceKind::DjangoCeleryOutbox => "celery_outbox",
        };
        Self { tracer, outbox }
    }

    fn builder(&self, operation: &'static str, kind: &'static str, destination: &str) -> (SpanBuilder, Vec<KeyValue>) {
        let attributes = vec![
            KeyValue::new("messaging.system", "pillarbox"),
            KeyValue::new("messaging.operation.name", operation),
            KeyValue::new("messaging.operation.type", kind),
            KeyValue::new("messaging.destination.name", destination.to_owned()),
        ];
        (self.tracer.span_builder(format!("{operation} {destination}")), attributes)
    }
}

impl Tracer for Spans {
    fn claimed(&self, claim: &Claim, took: Duration) -> Option<SpanContext> {
        let (builder, mut attributes) = self.builder("claim", "receive", self.outbox);
        attributes.push(KeyValue::new("messaging.batch.message_count", count(claim.len())));
        let producers = claim.iter().filter_map(|claimed| producer(claimed.event()));
        let span = builder
            .with_kind(SpanKind::Client)
            .with_start_time(ago(took))
            .with_attributes(attributes)
            .with_links(producers.take(LINKS).map(Link::with_context).collect())
            .start_with_context(&self.tracer, &Context::new());
        Some(ours(span.span_context()))
    }

    fn sends(&self, message: &Message, destination: &str, claim: Option<SpanContext>) -> Box<dyn SendSpan> {
        let (builder, mut attributes) = self.builder("send", "send", destination);
        attributes.push(KeyValue::new("messaging.message.id", message.id.to_string()));
        attributes.push(KeyValue::new("pillarbox.event.type", message.event_type.clone()));
        attributes.push(KeyValue::new("pillarbox.attempt", i64::from(message.attempt())));
        let producer = producer(message);
        let claim = claim.map(|claim| theirs(claim, false, TraceState::default()));
        let links = producer.iter().chain(&claim).cloned().map(Link::with_context).collect();
        let parent = producer.map_or_else(Context::new, |span| Context::new().with_remote_span_context(span));
        let span = builder
            .with_kind(SpanKind::Producer)
            .with_attributes(attributes)
            .with_links(links)
            .start_with_context(&self.tracer, &parent);
        Box::new(Sending(span))
    }

    fn settled(&self, settled: &Settled<'_>) {
        let (builder, mut attributes) = self.builder("settle", "settle", self.outbox);
        attributes.push(KeyValue::new("messaging.batch.message_count", count(settled.settlements.len())));
        if let Some(lost) = settled.lost.filter(|lost| *lost > 0) {
            attributes.push(KeyValue::new("pillarbox.settle.lost", count(lost)));
        }
        let local = |span: &SpanContext| theirs(*span, false, TraceState::default());
        let links = settled.sends.iter().take(LINKS).map(|span| Link::with_context(local(span))).collect();
        let parent = settled.claim.as_ref().map(local);
        let parent = parent.map_or_else(Context::new, |span| Context::new().with_remote_span_context(span));
        let mut span = builder
            .with_kind(SpanKind::Client)
            .with_start_time(ago(settled.took))
            .with_attributes(attributes)
            .with_links(links)
            .start_with_context(&self.tracer, &parent);
        if settled.lost.is_none() {
            span.set_attribute(KeyValue::new("error.type", "stopped"));
            span.set_status(Status::error("the relay stopped before the settle"));
        }
    }
}

/// An attempt, until it has a result.
struct Sending(Span);

impl SendSpan for Sending {
    fn context(&self) -> SpanContext {
        ours(self.0.span_context())
    }

    fn end(mut self: Box<Self>, error: Option<&SendError>) {
        if let Some(error) = error {
            let status = error.status.map(|status| status.to_string());
            let kind = status.unwrap_or_else(|| named(error.kind).to_owned());
            self.0.set_attribute(KeyValue::new("error.type", kind));
            if let Some(status) = error.status {
                self.0.set_attribute(KeyValue::new("http.response.status_code", i64::from(status)));
            }
            self.0.set_status(Status::error(error.message.clone()));
        }
        self.0.end();
    }
}

/// Returns the span in which the event was emitted, if its headers have one.
fn producer(event: &StoredEvent) -> Option<Told> {
    let state = event.headers.get("tracestate").and_then(|text| TraceState::from_str(text).ok());
    Some(theirs(SpanContext::of_producer(event)?, true, state.unwrap_or_default()))
}

fn theirs(span: SpanContext, remote: bool, state: TraceState) -> Told {
    let (trace, id) =
        (TraceId::from_bytes(span.trace_id.to_be_bytes()), SpanId::from_bytes(span.span_id.to_be_bytes()));
    Told::new(trace, id, TraceFlags::new(span.flags), remote, state)
}

fn ours(span: &Told) -> SpanContext {
    SpanContext {
        trace_id: u128::from_be_bytes(span.trace_id().to_bytes()),
        span_id: u64::from_be_bytes(span.span_id().to_bytes()),
        flags: span.trace_flags().to_u8(),
    }
}

fn ago(took: Duration) -> SystemTime {
    let now = SystemTime::now();
    now.checked_sub(took).unwrap_or(now)
}

fn count(events: usize) -> i64 {
    i64::try_from(events).unwrap_or(i64::MAX)
}
