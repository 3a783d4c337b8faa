//! Spans: a receiver of OTLP decodes what the program exports, and a receiver of events sees which span it is told.

use std::time::{Duration, Instant};

use lapin::types::AMQPValue;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::{Span, Status, status::StatusCode};
use pillarbox_testkit::process::Program;
use pillarbox_testkit::receiver::{Answer, Receiver};
use pillarbox_testkit::redis::Redis;
use pillarbox_testkit::{rabbitmq, wait_until};
use prost::Message as _;
use serde_json::Value;

use crate::celery::{in_rabbitmq, in_redis};
use crate::delivering::{PATIENCE, to_receiver};
use crate::home::{DISCARD, Home};
use crate::listening::start;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PRODUCER: &str = "b7ad6b7169203331";
const SOON: &str = "[relay.retry]\nbase = \"20ms\"\njitter = 0.0\n";

/// Everything that was exported so far.
fn exported(collector: &Receiver) -> Vec<ExportTraceServiceRequest> {
    let requests = collector.received();
    assert!(requests.iter().all(|request| request.path == "/v1/traces"), "{requests:?}");
    requests.iter().map(|request| ExportTraceServiceRequest::decode(request.body.clone()).unwrap()).collect()
}

fn spans(collector: &Receiver) -> Vec<Span> {
    let all = exported(collector).into_iter().flat_map(|export| export.resource_spans);
    all.flat_map(|resource| resource.scope_spans).flat_map(|scope| scope.spans).collect()
}

fn of_kind(spans: &[Span], verb: &str) -> Vec<Span> {
    spans.iter().filter(|span| span.name.split(' ').next() == Some(verb)).cloned().collect()
}

fn attribute(span: &Span, key: &str) -> Option<String> {
    let found = span.attributes.iter().find(|attribute| attribute.key == key)?.value.clone()?.value?;
    Some(match found {
        Any::StringValue(text) => text,
        Any::IntValue(number) => number.to_string(),
        other => format!("{other:?}"),
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Which trace and which span.
fn place(span: &Span) -> (String, String) {
    (hex(&span.trace_id), hex(&span.span_id))
}

fn links(span: &Span) -> Vec<(String, String)> {
    span.links.iter().map(|link| (hex(&link.trace_id), hex(&link.span_id))).collect()
}

/// What a receiver of events was told: the trace, the span, and whether it is recorded.
fn told(receiver: &Receiver, id: &str) -> Vec<(String, String, String)> {
    let of_event = |request: &pillarbox_testkit::receiver::Received| request.id.is_some_and(|it| it.to_string() == id);
    let parse = |text: &str| {
        let [_, trace, span, flags] = text.split('-').collect::<Vec<_>>()[..] else { panic!("{text}") };
        (trace.to_owned(), span.to_owned(), flags.to_owned())
    };
    let requests = receiver.received();
    requests.iter().filter(|it| of_event(it)).map(|it| parse(it.headers["traceparent"].to_str().unwrap())).collect()
}

fn traced(receiver: &Receiver, collector: &Receiver, more: &str) -> Home {
    let mut home = to_receiver(
        receiver,
        &format!(
            "[tracing]\nendpoint = \"{}\"\nheaders = {{ x-token = \"env:TOKEN\" }}\n{more}",
            collector.url("/").trim_end_matches('/')
        ),
    );
    home.set("TOKEN", "hunter2");
    home
}

fn parent(flags: &str) -> String {
    format!("traceparent=00-{TRACE}-{PRODUCER}-{flags}")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collectors_answer_is_not_read_without_end() {
    let (receiver, collector) = (Receiver::start().await, Receiver::start().await);
    collector.answer_with(|_| Answer::ok().body("x".repeat(8 << 20)));
    let mut home = traced(&receiver, &collector, SOON);
    home.set("OTEL_BSP_SCHEDULE_DELAY", "100");
    let mut relay = start(&home, &["relay"]).await;
    home.emit("1", &[]);
    receiver.wait_for(1, PATIENCE).await.unwrap();
    let told = relay.wait_for_line("exporting spans failed", PATIENCE).await.unwrap();
    assert!(told.contains("the response has more than 65536 bytes"), "{told}");
    assert!(relay.terminate(PATIENCE).await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn spans_of_claim_send_and_settle_are_exported_with_the_right_parents() {
    let (receiver, collector) = (Receiver::start().await, Receiver::start().await);
    receiver.answer_with(|request| {
        let first = request.headers["pillarbox-attempt"] == "1";
        let bad = request.body.starts_with(b"\"bad");
        if first && bad { Answer::status(500).body("no") } else { Answer::ok() }
    });
    let mut home = traced(&receiver, &collector, SOON);
    home.set("OTEL_SERVICE_NAME", "shop-relay");
    let mut relay = start(&home, &["relay", "--log-format", "json"]).await;
    let id = home.emit("1", &["\"bad\"", "--header", &parent("01"), "--header", "tracestate=vendor=one"]);
    receiver.wait_for(2, PATIENCE).await.unwrap();
    wait_until("it is delivered", PATIENCE, async || home.state(&id) == "delivered").await;
    assert!(relay.terminate(PATIENCE).await.unwrap().success());

    let all = spans(&collector);
    let (claims, sends, settles) = (of_kind(&all, "claim"), of_kind(&all, "send"), of_kind(&all, "settle"));
    assert_eq!((claims.len(), sends.len(), settles.len(), all.len()), (2, 2, 2, 6), "{all:#?}");

    // A send belongs to the producer's trace, and the receiver is told the send.
    let here: Vec<_> = told(&receiver, &id).into_iter().map(|(trace, span, _)| (trace, span)).collect();
    assert_eq!(sends.iter().map(place).collect::<Vec<_>>(), here);
    for (send, (claim, settle)) in sends.iter().zip(claims.iter().zip(&settles)) {
        assert_eq!((place(send).0.as_str(), hex(&send.parent_span_id).as_str()), (TRACE, PRODUCER));
        assert_eq!(
            (send.kind(), send.trace_state.as_str(), send.name.as_str()),
            (SpanKind::Producer, "vendor=one", "send runner")
        );
        assert_eq!(links(send), [(TRACE.to_owned(), PRODUCER.to_owned()), place(claim)]);
        // A claim is of many, so it is only linked; what it found is settled below it.
        assert_eq!((claim.kind(), claim.parent_span_id.as_slice()), (SpanKind::Client, &[][..]));
        assert_eq!(links(claim), [(TRACE.to_owned(), PRODUCER.to_owned())]);
        assert_eq!((settle.kind(), &settle.parent_span_id), (SpanKind::Client, &claim.span_id));
        assert_eq!((&settle.trace_id, links(settle)), (&claim.trace_id, vec![place(send)]));
        for (span, name) in [(send, "runner"), (claim, "outbox_event"), (settle, "outbox_event")] {
            assert_eq!(attribute(span, "messaging.system").as_deref(), Some("pillarbox"));
            assert_eq!(attribute(span, "messaging.destination.name").as_deref(), Some(name));
        }
        assert_eq!(attribute(claim, "messaging.batch.message_count").as_deref(), Some("1"));
        assert_eq!(attribute(settle, "messaging.batch.message_count").as_deref(), Some("1"));
        assert_eq!(attribute(send, "messaging.message.id").as_deref(), Some(id.as_str()));
        assert_eq!(attribute(send, "pillarbox.event.type").as_deref(), Some("order.placed"));
        assert!(send.start_time_unix_nano >= claim.start_time_unix_nano);
        assert!(send.end_time_unix_nano >= send.start_time_unix_nano);
    }
    let [first, second] = &sends[..] else { panic!() };
    let status = |span: &Span| span.status.as_ref().map_or(StatusCode::Unset, Status::code);
    assert_eq!((status(first), status(second)), (StatusCode::Error, StatusCode::Unset));
    assert_eq!(attribute(first, "error.type").as_deref(), Some("500"));
    assert_eq!((attribute(first, "pillarbox.attempt"), attribute(second, "error.type")), (Some("1".to_owned()), None));
    assert_eq!(attribute(second, "pillarbox.attempt").as_deref(), Some("2"));

    let resource = exported(&collector)[0].resource_spans[0].resource.clone().unwrap();
    let service = resource.attributes.iter().find(|attribute| attribute.key == "service.name").unwrap();
    assert_eq!(service.value.clone().unwrap().value, Some(Any::StringValue("shop-relay".to_owned())));
    assert!(collector.received().iter().all(|export| export.headers["x-token"] == "hunter2"));
    assert!(relay.lines().iter().all(|line| !line.contains("hunter2")));

    // The log says the same: one line for each batch, and the trace of what failed.
    let lines = relay.lines();
    let lines = lines.iter().filter(|line| line.starts_with('{'));
    let lines: Vec<Value> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
    let called = |name: &str| lines.iter().filter(|line| line["event"] == name).collect::<Vec<_>>();
    let batches = called("pillarbox_batch_processed");
    let outcome = |line: &Value| [line["events"].as_u64(), line["delivered"].as_u64(), line["retried"].as_u64()];
    assert_eq!(
        batches.iter().map(|line| outcome(line)).collect::<Vec<_>>(),
        [[Some(1), Some(0), Some(1)], [Some(1), Some(1), Some(0)]]
    );
    let [failed] = called("pillarbox_send_failed")[..] else { panic!("{lines:?}") };
    assert_eq!(failed["level"], "WARN");
    for (field, value) in
        [("id", id.as_str()), ("event_type", "order.placed"), ("destination", "runner"), ("trace_id", TRACE)]
    {
        assert_eq!(failed[field], value, "{failed}");
    }
    assert_eq!(failed["attempt"], 1);
    assert_eq!((called("pillarbox_relay_started").len(), called("pillarbox_relay_shutdown").len()), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_its_producer_does_not_trace_begins_a_trace_and_what_it_does_not_keep_is_not_kept() {
    let (receiver, collector) = (Receiver::start().await, Receiver::start().await);
    let mut home = to_receiver(&receiver, "");
    home.set("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url("/"));
    let ids = [
        home.emit("1", &[]),
        home.emit("2", &["--header", &parent("00")]),
        home.emit("3", &["--header", "traceparent=no"]),
    ];
    home.run(&["sweep"]).succeeded();
    let all = spans(&collector);
    let sends = of_kind(&all, "send");
    let [untraced, unkept, unreadable] = ids.each_ref().map(|id| told(&receiver, id)[0].clone());
    assert_eq!((sends.len(), of_kind(&all, "claim").len()), (2, 1), "{all:#?}");
    assert!(sends.iter().all(|send| send.parent_span_id.is_empty()));
    for (trace, span, flags) in [untraced, unreadable] {
        assert!(sends.iter().any(|send| place(send) == (trace.clone(), span.clone())) && flags == "01");
    }
    assert_eq!((unkept.0.as_str(), unkept.2.as_str()), (TRACE, "00"));
    assert_ne!(unkept.1, PRODUCER);

    // Nothing of what begins here is kept, and what its producer keeps is.
    home.set("PILLARBOX_TRACING_SAMPLE", "0.0");
    home.emit("4", &[]);
    home.emit("5", &["--header", &parent("01")]);
    home.run(&["sweep"]).succeeded();
    let later = &spans(&collector)[all.len()..];
    assert_eq!(later.iter().map(|span| hex(&span.parent_span_id)).collect::<Vec<_>>(), [PRODUCER]);

    home.set("OTEL_SDK_DISABLED", "true");
    let id = home.emit("6", &["--header", &parent("01")]);
    home.run(&["sweep"]).succeeded();
    assert_eq!(told(&receiver, &id), [(TRACE.to_owned(), PRODUCER.to_owned(), "01".to_owned())]);
    assert_eq!(spans(&collector).len(), all.len() + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_behind_brokers_are_told_the_span_of_the_send() {
    let (collector, redis) = (Receiver::start().await, Redis::start().await);
    let queue = format!("traced-{}", uuid::Uuid::new_v4());
    let amqp = format!("{}/%2f", rabbitmq::shared_url().trim_end_matches('/'));
    let broker = |name: &str, url: &str| {
        format!(
            "[destinations.{name}]\nkind = \"celery\"\nbroker = \"{url}\"\ndefault_queue = \"{queue}\"\ndeclare = true\n"
        )
    };
    let (redis_broker, amqp_broker) = (broker("redis", &redis.url()), broker("rabbitmq", &amqp));
    let mut home =
        Home::with_config(&format!("{redis_broker}{amqp_broker}[[routes]]\nto = [\"redis\", \"rabbitmq\"]\n"));
    home.set("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url("/"));
    let id = home.emit("1", &["--header", &parent("01")]);
    home.run(&["sweep"]).succeeded();
    assert_eq!(home.state(&id), "delivered");

    let sends = of_kind(&spans(&collector), "send");
    let sent_to = |name: &str| {
        let send = sends.iter().find(|send| send.name == format!("send {name}")).unwrap();
        assert_eq!((hex(&send.trace_id).as_str(), hex(&send.parent_span_id).as_str()), (TRACE, PRODUCER));
        format!("00-{TRACE}-{}-01", hex(&send.span_id))
    };
    let message = in_redis(&redis, &queue).await.remove(0);
    assert_eq!(message["headers"]["traceparent"], sent_to("redis"), "{message}");
    let message = in_rabbitmq(&queue).await.remove(0);
    let headers = message.delivery.properties.headers().as_ref().unwrap().inner();
    assert_eq!(headers.get("traceparent"), Some(&AMQPValue::LongString(sent_to("rabbitmq").into())), "{headers:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_relay_exports_and_logs_nothing() {
    let collector = Receiver::start().await;
    let mut home =
        Home::with_config(&format!("[relay]\npoll_interval = \"10ms\"\nliveness_file = \"alive\"\n{DISCARD}"));
    home.set("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", &collector.url("/v1/traces"));
    home.set("OTEL_BSP_SCHEDULE_DELAY", "20");
    let mut relay = start(&home, &["relay"]).await;
    let alive = || home.path("alive").metadata().and_then(|file| file.modified()).ok();
    wait_until("it has turned", PATIENCE, async || alive().is_some()).await;
    let (first, lines) = (alive(), relay.lines().len());
    wait_until("it has turned for a second", PATIENCE, async || alive() > first).await;
    assert_eq!(relay.lines().len(), lines, "{:?}", relay.lines());
    assert!(relay.terminate(PATIENCE).await.unwrap().success());
    assert_eq!(collector.count(), 0);
}

/// The relay delivers and ends in time beside this collector.
async fn does_not_matter(collector: &str, answers: &str) {
    let receiver = Receiver::start().await;
    let mut home = to_receiver(
        &receiver,
        &format!("[tracing]\nendpoint = \"{collector}\"\nheaders = {{ x-token = \"hunter2\" }}\n"),
    );
    home.set("OTEL_BSP_SCHEDULE_DELAY", "20");
    let mut relay: Program = start(&home, &["relay"]).await;
    for number in 1..=5 {
        home.emit(&number.to_string(), &[]);
    }
    receiver.wait_for(5, PATIENCE).await.unwrap();
    if !answers.is_empty() {
        relay.wait_for_line("exporting spans failed", PATIENCE).await.unwrap();
    }
    let stopping = Instant::now();
    assert!(relay.terminate(PATIENCE).await.unwrap().success());
    assert!(stopping.elapsed() < Duration::from_secs(15), "it took {:?}", stopping.elapsed());
    let lines = relay.lines();
    let complaints: Vec<_> = lines.iter().filter(|line| line.contains("exporting spans failed")).collect();
    assert!(complaints.len() <= 1 && complaints.iter().all(|line| line.contains(answers)), "{lines:?}");
    assert!(lines.iter().all(|line| !line.contains("hunter2") && !line.contains(collector)), "{lines:?}");
    assert!(lines.iter().any(|line| line.contains("relay stopped")), "{lines:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_gone_refuses_or_hangs_does_not_matter() {
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (refusing, hanging) = (Receiver::start().await, Receiver::start().await);
    refusing.answer_with(|_| Answer::status(401));
    hanging.answer_with(|_| Answer::Hang);
    let base = |collector: &Receiver| collector.url("/").trim_end_matches('/').to_owned();
    let (gone, refusing, hanging) = (format!("http://{gone}"), base(&refusing), base(&hanging));
    tokio::join!(does_not_matter(&gone, "refused"), does_not_matter(&refusing, "401"), does_not_matter(&hanging, ""),);
}

#[test]
fn what_is_wrong_is_said_before_anything_runs() {
    let home = Home::with_config(
        "[tracing]\nendpoint = \"127.0.0.1:4318\"\nsample = 2.0\nservice = \"x\"\n[log]\nformat = \"xml\"\n",
    );
    let refused = home.run(&["check-config"]);
    assert_eq!(refused.code, 2);
    for part in ["tracing.endpoint must be the URL", "tracing.sample is 2", "service_name", "log.format is \"xml\""] {
        assert!(refused.err.contains(part), "{part}: {}", refused.err);
    }
    let home =
        Home::with_config("[tracing]\nendpoint = \"https://collector.example\"\nheaders = { x = \"env:MISSING\" }\n");
    home.run(&["migrate"]).succeeded();
    let refused = home.run(&["sweep"]);
    assert!(refused.code == 2 && refused.err.contains("tracing.headers.x is env:MISSING"), "{refused:?}");

    let mut home = Home::with_config("[log]\nformat = \"json\"\n[tracing]\nendpoint = \"http://127.0.0.1:4318\"\n");
    home.set("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
    home.set("PILLARBOX_METRICS_PREFX", "x");
    let checked = home.run(&["check-config"]).succeeded();
    assert!(checked.err.contains("http/protobuf") && checked.err.contains("{\"timestamp\""), "{checked:?}");
    assert!(!home.run(&["check-config", "--log-format", "text"]).err.contains("{\"timestamp\""));
}
