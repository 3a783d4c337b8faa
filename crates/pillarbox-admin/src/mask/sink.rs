//! A destination whose errors and answers do not quote what is masked: so it reaches neither the log nor the tables, and
//! nobody behind them.

use std::sync::Arc;

use async_trait::async_trait;
use pillarbox::sink::Message;
use pillarbox::{SendError, Sink};

use super::Mask;

/// A sink whose errors and answers do not quote masked values. Otherwise it sends as the sink within it does.
pub struct Discreet {
    sink: Arc<dyn Sink>,
    mask: Mask,
}

impl Discreet {
    /// Wraps a sink; returns the sink itself when nothing is masked.
    pub fn around(sink: Arc<dyn Sink>, mask: &Mask) -> Arc<dyn Sink> {
        if mask.is_empty() { sink } else { Arc::new(Self { sink, mask: mask.clone() }) }
    }
}

#[async_trait]
impl Sink for Discreet {
    async fn send(&self, batch: &[Message]) -> Vec<Result<(), SendError>> {
        let mut answers = self.sink.send(batch).await;
        for (message, answer) in batch.iter().zip(&mut answers) {
            if let Err(error) = answer {
                let hidden = self.mask.hidden(&message.payload);
                hidden.scrub(&mut error.message);
                error.answer.iter_mut().for_each(|answer| hidden.scrub(answer));
            }
        }
        answers
    }

    async fn reach(&self) -> Result<(), SendError> {
        self.sink.reach().await
    }

    fn batch_limit(&self) -> usize {
        self.sink.batch_limit()
    }
}
