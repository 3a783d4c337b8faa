//! A sink whose errors and responses do not quote masked values, so that these reach neither the log nor the tables.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pillarbox::sink::{Message, Receipt};
use pillarbox::{SendError, Sink};

use super::{MASKED, Mask};

/// A sink whose errors and responses do not quote masked values. Otherwise it behaves like the wrapped sink.
pub struct Discreet {
    sink: Arc<dyn Sink>,
    mask: Mask,
}

impl Discreet {
    /// Wraps a sink. Returns the sink itself if nothing is masked.
    pub fn around(sink: Arc<dyn Sink>, mask: &Mask) -> Arc<dyn Sink> {
        if mask.is_empty() { sink } else { Arc::new(Self { sink, mask: mask.clone() }) }
    }
}

#[async_trait]
impl Sink for Discreet {
    async fn send(&self, batch: &[Message]) -> Vec<Result<(), SendError>> {
        self.send_for_receipts(batch).await.into_iter().map(|answer| answer.map(drop)).collect()
    }

    async fn send_for_receipts(&self, batch: &[Message]) -> Vec<Result<Receipt, SendError>> {
        let mut answers = self.sink.send_for_receipts(batch).await;
        for (message, answer) in batch.iter().zip(&mut answers) {
            if let Err(error) = answer {
                let hidden = self.mask.hidden(&message.payload);
                hidden.scrub(&mut error.message);
                error.answer.iter_mut().for_each(|answer| hidden.scrub(answer));
                if message.is_opaque() {
                    // The response may quote the bytes in any form.
                    error.answer.iter_mut().for_each(|answer| MASKED.clone_into(answer));
                }
            }
        }
        answers
    }

    async fn reach(&self) -> Result<(), SendError> {
        self.sink.reach().await
    }

    async fn advise(&self, lease: Duration) -> Vec<String> {
        self.sink.advise(lease).await
    }

    fn batch_limit(&self) -> usize {
        self.sink.batch_limit()
    }

    fn keeps_order(&self) -> bool {
        self.sink.keeps_order()
    }
}
