//! amqprs: one channel per lane, confirms counted by a callback.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use amqprs::callbacks::{ChannelCallback, DefaultConnectionCallback};
use amqprs::channel::{BasicPublishArguments, Channel, ConfirmSelectArguments};
use amqprs::connection::{Connection, OpenConnectionArguments};
use amqprs::{Ack, BasicProperties, Cancel, CloseChannel, FieldTable, FieldValue, Nack, Return};
use tokio::sync::Notify;

use crate::Load;
use crate::messages::{BODY, headers};

#[derive(Default)]
struct Count {
    confirmed: AtomicUsize,
    changed: Notify,
}

struct Confirms(Arc<Count>);

#[async_trait::async_trait]
impl ChannelCallback for Confirms {
    async fn close(&mut self, _: &Channel, close: CloseChannel) -> Result<(), amqprs::error::Error> {
        panic!("{close}")
    }
    async fn cancel(&mut self, _: &Channel, _: Cancel) -> Result<(), amqprs::error::Error> {
        Ok(())
    }
    async fn flow(&mut self, _: &Channel, active: bool) -> Result<bool, amqprs::error::Error> {
        Ok(active)
    }
    async fn publish_ack(&mut self, _: &Channel, ack: Ack) {
        self.0.confirmed.store(ack.delivery_tag() as usize, Ordering::SeqCst);
        self.0.changed.notify_one();
    }
    async fn publish_nack(&mut self, _: &Channel, _: Nack) {
        panic!("nack")
    }
    async fn publish_return(&mut self, _: &Channel, _: Return, _: BasicProperties, _: Vec<u8>) {
        panic!("return")
    }
}

fn properties(shape: &str) -> BasicProperties {
    let mut table = FieldTable::new();
    for (name, value) in headers(shape) {
        let value = value.map_or(FieldValue::V, |text| FieldValue::S(text.try_into().unwrap()));
        table.insert(name.try_into().unwrap(), value);
    }
    let mut properties = BasicProperties::default();
    properties
        .with_content_type("application/json")
        .with_content_encoding("utf-8")
        .with_headers(table)
        .with_delivery_mode(2)
        .with_correlation_id("0198a7f6-7d0c-7c7e-b7a4-0c4b6c1e5a10");
    properties
}

pub async fn run(load: &Load) {
    let address = load.url.split('@').nth(1).unwrap().split('/').next().unwrap();
    let (host, port) = address.split_once(':').unwrap();
    let arguments = OpenConnectionArguments::new(host, port.parse().unwrap(), "guest", "guest");
    let connection = Connection::open(&arguments).await.unwrap();
    connection.register_callback(DefaultConnectionCallback).await.unwrap();
    let mut lanes = Vec::new();
    for _ in 0..load.lanes {
        let channel = connection.open_channel(None).await.unwrap();
        let count = Arc::new(Count::default());
        channel.register_callback(Confirms(Arc::clone(&count))).await.unwrap();
        channel.confirm_select(ConfirmSelectArguments::default()).await.unwrap();
        let load = load.clone();
        lanes.push(tokio::spawn(async move {
            let (all, mut sent) = (load.count / load.lanes, 0);
            while sent < all {
                let batch = (all - sent).min(load.batch);
                for _ in 0..batch {
                    let mut to = BasicPublishArguments::new("", &load.queue);
                    to.mandatory(true);
                    channel.basic_publish(properties(&load.shape), BODY.to_vec(), to).await.unwrap();
                }
                sent += batch;
                while count.confirmed.load(Ordering::SeqCst) < sent {
                    count.changed.notified().await;
                }
            }
            channel.close().await.unwrap();
        }));
    }
    for lane in lanes {
        lane.await.unwrap();
    }
    connection.close().await.unwrap();
}
