//! Publishes to Amazon SNS: `PublishBatch` with at most ten messages, and a result for each of them.
//!
//! The shared part of SQS and SNS is in [`crate::aws`].

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use aws_config::SdkConfig;
use aws_sdk_sns::Client;
use aws_sdk_sns::types::{MessageAttributeValue, PublishBatchRequestEntry};
use pillarbox::{Message, SendError, Sink};

pub use crate::aws::{AwsCredentials, AwsError, AwsSettings};
use crate::aws::{AwsSink, BATCH, Entry, Failure, Fault, Names, Service, check_name, keys, service};
use crate::config::Section;
use crate::registry::{Kind, Target};

/// The most bytes of a message. A topic takes 256 KiB unless its attribute `MaximumMessageSize` is set, up to this.
const MESSAGE_BYTES: usize = 1024 * 1024;
/// The most bytes of all messages of a call, which every topic takes.
const CALL_BYTES: usize = 256 * 1024;
/// The longest name of a topic, with `.fifo`.
const NAME: usize = 256;

/// `kind = "sns"`
#[derive(Debug, Clone, Copy)]
pub struct Sns;

impl Kind for Sns {
    fn name(&self) -> &'static str {
        "sns"
    }

    fn read(&self, section: &mut Section<'_>) -> Arc<dyn Target> {
        let advice = "write it like \"arn:aws:sns:eu-west-1:123456789012:orders\"";
        keys::read::<Topics>(section, advice, |settings| Ok(Arc::new(SnsSink::new(settings)?)))
    }

    fn concurrency(&self) -> Option<usize> {
        Some(keys::CONCURRENCY)
    }
}

/// A topic of SNS, or several in one region if the ARN has fields of the event. The results are those of
/// [`SqsSink`](crate::sqs::SqsSink).
///
/// With a FIFO topic, the group is the aggregate and the deduplication id is the event's id. Sending is safe to cancel.
pub struct SnsSink(AwsSink<Topics>);

impl SnsSink {
    /// Returns a sink with its own connection pool. Nothing is sent yet, and no credentials are looked up.
    ///
    /// # Errors
    /// Says which setting is wrong and what to do, without showing secrets.
    pub fn new(settings: AwsSettings) -> Result<Self, AwsError> {
        AwsSink::new(settings).map(Self)
    }
}

impl fmt::Debug for SnsSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SnsSink").finish_non_exhaustive()
    }
}

#[async_trait]
impl Sink for SnsSink {
    async fn send(&self, batch: &[Message]) -> Vec<Result<(), SendError>> {
        self.0.send(batch).await
    }

    async fn reach(&self) -> Result<(), SendError> {
        self.0.reach().await
    }

    async fn advise(&self, lease: Duration) -> Vec<String> {
        self.0.advise(lease)
    }

    fn batch_limit(&self) -> usize {
        BATCH
    }

    fn keeps_order(&self) -> bool {
        self.0.keeps_order()
    }
}

struct Topics {
    client: Client,
}

impl Service for Topics {
    const NAMES: Names = Names {
        system: "SNS",
        target: "topic",
        key: "topic_arn",
        send: "sns:Publish",
        look_up: "sns:GetTopicAttributes",
        message_bytes: MESSAGE_BYTES,
        call_bytes: CALL_BYTES,
    };

    fn new(config: &SdkConfig, endpoint: Option<&str>) -> Self {
        let mut config = aws_sdk_sns::config::Builder::from(config);
        if let Some(endpoint) = endpoint {
            config = config.endpoint_url(endpoint);
        }
        Self { client: Client::from_conf(config.build()) }
    }

    fn check(arn: &str) -> Result<(), String> {
        let parts: Vec<&str> = arn.split(':').collect();
        match parts.as_slice() {
            ["arn", _, "sns", region, account, name] if !region.is_empty() && !account.is_empty() => {
                check_name(name, NAME)
            }
            _ => Err("is not the ARN of a topic".to_owned()),
        }
    }

    fn region(arn: &str) -> Option<&str> {
        arn.split(':').nth(3).filter(|region| !region.is_empty())
    }

    async fn send(&self, arn: &str, entries: &[&Entry<'_>]) -> Result<service::Answers, Failure> {
        let mut call = self.client.publish_batch().topic_arn(arn);
        for (number, entry) in entries.iter().enumerate() {
            call = call.publish_batch_request_entries(request(number, entry)?);
        }
        let output = call.send().await?;
        let number = |id: Option<&str>| id.and_then(|id| id.parse().ok()).unwrap_or(usize::MAX);
        let failed = output.failed().iter().map(|entry| {
            let message = entry.message().unwrap_or_default().to_owned();
            let is_senders = Some(entry.sender_fault());
            let fault = Fault { code: entry.code().to_owned(), message, is_senders, ..Fault::default() };
            (number(Some(entry.id())), Err(fault))
        });
        Ok(output.successful().iter().map(|entry| (number(entry.id()), Ok(()))).chain(failed).collect())
    }

    async fn look_up(&self, arn: &str) -> Result<(), Failure> {
        Ok(self.client.get_topic_attributes().topic_arn(arn).send().await.map(drop)?)
    }

    async fn list(&self) -> Result<(), Failure> {
        Ok(self.client.list_topics().send().await.map(drop)?)
    }
}

fn request(number: usize, entry: &Entry<'_>) -> Result<PublishBatchRequestEntry, Failure> {
    let incomplete = |error: aws_sdk_sns::error::BuildError| Failure::Connection(error.to_string());
    let mut request = PublishBatchRequestEntry::builder().id(number.to_string()).message(&*entry.body);
    for (name, value) in &entry.attributes {
        let value = MessageAttributeValue::builder().data_type(Entry::TYPE).string_value(&**value);
        request = request.message_attributes(&**name, value.build().map_err(incomplete)?);
    }
    if let Some(fifo) = &entry.fifo {
        request = request.message_group_id(&fifo.group).message_deduplication_id(&fifo.deduplication);
    }
    request.build().map_err(incomplete)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_arn_has_six_parts_and_a_possible_name() {
        for arn in ["arn:aws:sns:eu-west-1:123456789012:orders.fifo", "arn:aws-cn:sns:cn-north-1:1:a-b_c"] {
            assert_eq!(Topics::check(arn), Ok(()), "{arn}");
        }
        for (arn, part) in [
            ("orders", "not the ARN of a topic"),
            ("https://sns.eu-west-1.amazonaws.com", "not the ARN of a topic"),
            ("arn:aws:sqs:eu-west-1:1:orders", "not the ARN of a topic"),
            ("arn:aws:sns::1:orders", "not the ARN of a topic"),
            ("arn:aws:sns:eu-west-1:1:orders:6b0e71bd", "not the ARN of a topic"),
            ("arn:aws:sns:eu-west-1:1:", "1 to 256 characters"),
            ("arn:aws:sns:eu-west-1:1:order placed", "only letters"),
        ] {
            let reason = Topics::check(arn).unwrap_err();
            assert!(reason.contains(part), "{arn}: {reason}");
        }
        assert_eq!(Topics::region("arn:aws:sns:eu-west-1:1:orders"), Some("eu-west-1"));
    }
}
