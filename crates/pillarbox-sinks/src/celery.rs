//! Send to Celery: messages that unmodified Celery workers run, on RabbitMQ or on Redis.

mod broker;
mod settings;

pub use self::settings::{CeleryError, CeleryQueue, CeleryRoute, CelerySettings, QueueType};

use std::fmt;

use async_trait::async_trait;
use pillarbox::{Message, SendError, Sink};

use self::broker::Broker;

/// A broker of Celery.
pub struct CelerySink {
    broker: Broker,
}

impl CelerySink {
    /// A sink for one broker. It is connected to when there is something to send.
    ///
    /// # Errors
    /// Says which setting is wrong and what to do, without showing secrets.
    #[expect(clippy::needless_pass_by_value, reason = "as the other sinks")]
    pub fn new(settings: CelerySettings) -> Result<Self, CeleryError> {
        Ok(Self { broker: settings.checked()? })
    }
}

#[async_trait]
impl Sink for CelerySink {
    async fn send(&self, batch: &[Message]) -> Vec<Result<(), SendError>> {
        let error = SendError::unavailable(format!("{}: this client cannot send yet", self.broker.shown()));
        vec![Err(error); batch.len()]
    }
}

impl fmt::Debug for CelerySink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CelerySink").field("broker", &self.broker.shown()).finish_non_exhaustive()
    }
}
