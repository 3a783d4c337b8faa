//! Pillarbox's own sinks: "celery" for the Celery message, "amqp" for the others.

use std::sync::Arc;

use pillarbox::{Message, Sink, StoredEvent};
use pillarbox_sinks::Template;
use pillarbox_sinks::amqp::{AmqpSettings, AmqpSink};
use pillarbox_sinks::celery::{CelerySettings, CelerySink};
use serde_json::json;

use crate::Load;
use crate::messages::{BODY, headers};

pub async fn run(load: &Load, url: &str) {
    let sink: Arc<dyn Sink> = match load.shape.as_str() {
        "celery" => Arc::new(CelerySink::new(CelerySettings::new(url)).unwrap()),
        _ => Arc::new(AmqpSink::new(AmqpSettings::new(url, Template::fixed(load.queue.clone()))).unwrap()),
    };
    let body = std::str::from_utf8(BODY).unwrap();
    let event = match load.shape.as_str() {
        "celery" => {
            let headers: serde_json::Map<_, _> =
                headers("celery").into_iter().map(|(name, value)| (name.to_owned(), json!(value))).collect();
            let payload = json!({
                "celery": 1, "body": body, "headers": headers, "exchange": "", "routing_key": load.queue,
                "queue": load.queue,
            });
            StoredEvent::task_for_tests("orders.process", &payload.to_string())
        }
        _ => StoredEvent::for_tests("order.placed", body),
    };
    let event = Arc::new(event);
    let lanes = (0..load.lanes).map(|_| {
        let (sink, load, event) = (Arc::clone(&sink), load.clone(), Arc::clone(&event));
        tokio::spawn(async move {
            let mut left = load.count / load.lanes;
            while left > 0 {
                let batch: Vec<_> = (0..left.min(load.batch)).map(|_| Message::new(Arc::clone(&event), 1)).collect();
                for result in sink.send(&batch).await {
                    result.unwrap();
                }
                left -= batch.len();
            }
        })
    });
    for lane in lanes.collect::<Vec<_>>() {
        lane.await.unwrap();
    }
}
