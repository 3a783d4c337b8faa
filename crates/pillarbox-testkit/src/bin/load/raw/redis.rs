//! Pushes copies of one message to Redis, in pipelines on one connection.

use std::time::Instant;

use anyhow::Result;
use clap::Args;
use serde_json::Value;

/// Pushes messages.
#[derive(Args)]
pub(crate) struct Redis {
    #[arg(long)]
    broker: String,
    #[arg(long)]
    count: u64,
    /// The queue; deleted before and after.
    #[arg(long, default_value = "raw")]
    queue: String,
    /// The number of LPUSH commands per pipeline.
    #[arg(long, default_value_t = 100)]
    pipeline: u64,
    /// The approximate number of bytes of JSON in the task's argument.
    #[arg(long, default_value_t = 490)]
    payload: usize,
}

impl Redis {
    pub(crate) async fn run(self) -> Result<Value> {
        let mut connection = redis::Client::open(self.broker.as_str())?.get_multiplexed_async_connection().await?;
        let queue = self.queue.as_str();
        let () = redis::cmd("DEL").arg(queue).query_async(&mut connection).await?;
        super::send_one(&self.broker, queue, self.payload).await?;
        let ours: Vec<u8> = redis::cmd("RPOP").arg(queue).query_async(&mut connection).await?;

        let began = Instant::now();
        let mut left = self.count;
        while left > 0 {
            let many = left.min(self.pipeline);
            let mut pipeline = redis::Pipeline::with_capacity(many as usize);
            for _ in 0..many {
                pipeline.cmd("LPUSH").arg(queue).arg(&ours);
            }
            let _: Vec<u64> = pipeline.query_async(&mut connection).await?;
            left -= many;
        }
        let report = super::report(self.count, ours.len(), began)?;
        let () = redis::cmd("DEL").arg(queue).query_async(&mut connection).await?;
        Ok(report)
    }
}
