//! Publishes copies of one message to RabbitMQ with confirms, with a limited number in flight.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use lapin::options::{BasicGetOptions, BasicPublishOptions, ConfirmSelectOptions, QueueDeleteOptions};
use lapin::{Connection, ConnectionProperties};
use serde_json::Value;

/// Publishes persistent messages to a durable queue.
#[derive(Args)]
pub(crate) struct Amqp {
    #[arg(long)]
    broker: String,
    #[arg(long)]
    count: u64,
    /// The queue; deleted before and after.
    #[arg(long, default_value = "raw")]
    queue: String,
    /// The number of messages in flight, without their confirm.
    #[arg(long, default_value_t = 1000)]
    in_flight: usize,
    /// The approximate number of bytes of JSON in the task's argument.
    #[arg(long, default_value_t = 490)]
    payload: usize,
}

impl Amqp {
    pub(crate) async fn run(self) -> Result<Value> {
        let connection = Connection::connect(&self.broker, ConnectionProperties::default()).await?;
        let channel = connection.create_channel().await?;
        let queue = self.queue.as_str();
        channel.queue_delete(queue.into(), QueueDeleteOptions::default()).await?;
        super::send_one(&self.broker, queue, self.payload).await?;
        let got = channel.basic_get(queue.into(), BasicGetOptions { no_ack: true }).await?;
        let ours = got.context("our message is not in its queue")?.delivery;
        ensure!(*ours.properties.delivery_mode() == Some(2), "our message is not persistent");

        channel.confirm_select(ConfirmSelectOptions::default()).await?;
        let began = Instant::now();
        let mut confirms = FuturesUnordered::new();
        for _ in 0..self.count {
            let (exchange, key) = (ours.exchange.clone(), ours.routing_key.clone());
            let options = BasicPublishOptions::default();
            confirms.push(channel.basic_publish(exchange, key, options, &ours.data, ours.properties.clone()).await?);
            if confirms.len() >= self.in_flight {
                let confirmed = confirms.next().await.context("nothing is in flight")??;
                ensure!(confirmed.is_ack(), "the broker refused a message");
            }
        }
        while let Some(confirmed) = confirms.next().await {
            ensure!(confirmed?.is_ack(), "the broker refused a message");
        }
        let report = super::report(self.count, ours.data.len(), began)?;
        channel.queue_delete(queue.into(), QueueDeleteOptions::default()).await?;
        Ok(report)
    }
}
