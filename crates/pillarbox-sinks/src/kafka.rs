//! Destinations of kind "kafka": each event is a message of a topic, with the aggregate's id as its key.
//!
//! `keys` reads the configuration, `settings` has the same for applications, `names` checks topics, `config` writes
//! librdkafka's properties, `producer` owns the client, `batch` sends a batch and waits for its reports, `failure` assigns
//! errors to their cause, `oauth` fetches tokens, `reach` checks brokers and topic. For the reasons see
//! docs/design/kafka.md.

mod batch;
mod config;
mod failure;
mod keys;
mod names;
mod oauth;
mod producer;
mod reach;
mod settings;

use std::fmt;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use pillarbox::{Message, SendError, Sink};

pub use self::keys::Kafka;
use self::producer::Producers;
pub use self::settings::{Compression, KafkaError, KafkaSettings, OauthClient, Sasl, ScramHash};

/// The most messages of one call. librdkafka splits them into requests by partition and size.
const BATCH: usize = 1000;

/// The client of one Kafka cluster: one idempotent producer, which connects when there is something to send.
pub struct KafkaSink {
    settings: KafkaSettings,
    producers: Producers,
}

impl KafkaSink {
    /// Checks the settings. Does not connect.
    ///
    /// # Errors
    /// Says which setting is wrong.
    pub fn new(settings: KafkaSettings) -> Result<Self, KafkaError> {
        settings.check()?;
        let producers = Producers::new(&settings)?;
        Ok(Self { settings, producers })
    }

    /// Returns when a send must have its results. The relay counts a batch that it drops as one failure. With an earlier
    /// deadline, each message has its own result.
    fn deadline(&self) -> Instant {
        let timeout = self.settings.timeout;
        Instant::now() + timeout - (timeout / 10).min(Duration::from_millis(500))
    }
}

#[async_trait]
impl Sink for KafkaSink {
    async fn send(&self, batch: &[Message]) -> Vec<Result<(), SendError>> {
        batch::send(&self.settings, &self.producers, batch, self.deadline()).await
    }

    async fn reach(&self) -> Result<(), SendError> {
        reach::reach(&self.settings, &self.producers, self.deadline()).await
    }

    fn batch_limit(&self) -> usize {
        BATCH
    }

    fn keeps_order(&self) -> bool {
        let KafkaSettings { topic, key, .. } = &self.settings;
        topic.is_fixed_per_aggregate() && key.as_ref().is_some_and(crate::Template::is_fixed_per_aggregate)
    }
}

impl fmt::Debug for KafkaSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaSink").field("settings", &self.settings).finish_non_exhaustive()
    }
}
