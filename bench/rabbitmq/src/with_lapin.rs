//! lapin: batches in flight at once, each on a channel of its own, as the sink sends them.

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions, QueuePurgeOptions};
use lapin::types::FieldTable;
use lapin::{Connection, ConnectionProperties};

use crate::Load;
use crate::messages::{BODY, properties};

/// Makes an empty durable queue.
pub async fn prepare(load: &Load) {
    let connection = Connection::connect(&load.url, ConnectionProperties::default()).await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    channel.queue_declare(load.queue.as_str().into(), durable, FieldTable::default()).await.unwrap();
    channel.queue_purge(load.queue.as_str().into(), QueuePurgeOptions::default()).await.unwrap();
}

pub async fn run(load: &Load, connections: usize) {
    let mut lanes = Vec::new();
    let mut open = Vec::new();
    for _ in 0..connections {
        open.push(Connection::connect(&load.url, ConnectionProperties::default()).await.unwrap());
    }
    for lane in 0..load.lanes {
        let channel = open[lane % connections].create_channel().await.unwrap();
        channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
        let load = load.clone();
        lanes.push(tokio::spawn(async move {
            let mut left = load.count / load.lanes;
            while left > 0 {
                let batch = left.min(load.batch);
                let mut confirms: FuturesUnordered<_> = (0..batch)
                    .map(|_| {
                        let (channel, load) = (&channel, &load);
                        async move {
                            let options = BasicPublishOptions { mandatory: true, immediate: false };
                            let properties = properties(&load.shape);
                            let sent = channel
                                .basic_publish("".into(), load.queue.as_str().into(), options, BODY, properties)
                                .await;
                            sent.unwrap().await.unwrap();
                        }
                    })
                    .collect();
                while confirms.next().await.is_some() {}
                left -= batch;
            }
        }));
    }
    for lane in lanes {
        lane.await.unwrap();
    }
}
