//! Sends to Amazon SQS: `SendMessageBatch` with at most ten messages, and a result for each of them.
//!
//! The shared part of SQS and SNS is in [`crate::aws`].

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use aws_config::SdkConfig;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::{MessageAttributeValue, QueueAttributeName, SendMessageBatchRequestEntry};
use pillarbox::{Message, SendError, Sink};
use url::Url;

pub use crate::aws::{AwsCredentials, AwsError, AwsSettings};
use crate::aws::{AwsSink, BATCH, Entry, Failure, Fault, Names, Service, check_name, keys, service};
use crate::config::Section;
use crate::registry::{Kind, Target};

/// The most bytes of a message, and of all messages of a call. It was 256 KiB until 2025.
const BYTES: usize = 1024 * 1024;
/// The longest name of a queue, with `.fifo`.
const NAME: usize = 80;

/// `kind = "sqs"`
#[derive(Debug, Clone, Copy)]
pub struct Sqs;

impl Kind for Sqs {
    fn name(&self) -> &'static str {
        "sqs"
    }

    fn read(&self, section: &mut Section<'_>) -> Arc<dyn Target> {
        let advice = "write it like \"https://sqs.eu-west-1.amazonaws.com/123456789012/orders\"";
        keys::read::<Queues>(section, advice, |settings| Ok(Arc::new(SqsSink::new(settings)?)))
    }

    fn concurrency(&self) -> Option<usize> {
        Some(keys::CONCURRENCY)
    }
}

/// A queue of SQS, or several in one region if the URL has fields of the event.
///
/// | response | result |
/// |---|---|
/// | the entry is among the successful | delivered |
/// | too large, a character that SQS does not take, an impossible URL | `Reject` |
/// | no such queue, no permission, a key that cannot be used, any other refusal | `Retry` |
/// | no connection, refused or missing credentials, throttling, an error of SQS | `Unavailable` |
/// | no response in time | `Timeout` |
///
/// With a FIFO queue, the group is the aggregate and the deduplication id is the event's id. Sending is safe to cancel.
pub struct SqsSink(AwsSink<Queues>);

impl SqsSink {
    /// Returns a sink with its own connection pool. Nothing is sent yet, and no credentials are looked up.
    ///
    /// # Errors
    /// Says which setting is wrong and what to do, without showing secrets.
    pub fn new(settings: AwsSettings) -> Result<Self, AwsError> {
        AwsSink::new(settings).map(Self)
    }
}

impl fmt::Debug for SqsSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqsSink").finish_non_exhaustive()
    }
}

#[async_trait]
impl Sink for SqsSink {
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

struct Queues {
    client: Client,
}

impl Service for Queues {
    const NAMES: Names = Names {
        system: "SQS",
        target: "queue",
        key: "queue_url",
        send: "sqs:SendMessage",
        look_up: "sqs:GetQueueAttributes",
        message_bytes: BYTES,
        call_bytes: BYTES,
    };

    fn new(config: &SdkConfig, endpoint: Option<&str>) -> Self {
        let mut config = aws_sdk_sqs::config::Builder::from(config);
        if let Some(endpoint) = endpoint {
            config = config.endpoint_url(endpoint);
        }
        Self { client: Client::from_conf(config.build()) }
    }

    fn check(url: &str) -> Result<(), String> {
        let parsed = Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        let Some(parsed) = parsed else { return Err("is not a URL".to_owned()) };
        if parsed.query().is_some() || parsed.fragment().is_some() || !parsed.username().is_empty() {
            return Err("has more than host, account and queue".to_owned());
        }
        // The path as it was written: `Url` has escaped it.
        let path = url.split_once("://").and_then(|(_, rest)| rest.split_once('/')).map_or("", |(_, path)| path);
        check_name(path.rsplit('/').next().unwrap_or_default(), NAME)
    }

    fn region(url: &str) -> Option<&str> {
        let (_, rest) = url.split_once("://sqs.")?;
        rest.split_once(".amazonaws.com").map(|(region, _)| region)
    }

    async fn send(&self, url: &str, entries: &[&Entry<'_>]) -> Result<service::Answers, Failure> {
        let mut call = self.client.send_message_batch().queue_url(url);
        for (number, entry) in entries.iter().enumerate() {
            call = call.entries(request(number, entry)?);
        }
        let output = call.send().await?;
        let number = |id: &str| id.parse().unwrap_or(usize::MAX);
        let failed = output.failed.into_iter().map(|entry| {
            let message = entry.message.unwrap_or_default();
            let fault = Fault { code: entry.code, message, is_senders: Some(entry.sender_fault), ..Fault::default() };
            (number(&entry.id), Err(fault))
        });
        Ok(output.successful.iter().map(|entry| (number(&entry.id), Ok(()))).chain(failed).collect())
    }

    async fn look_up(&self, url: &str) -> Result<(), Failure> {
        let call = self.client.get_queue_attributes().queue_url(url).attribute_names(QueueAttributeName::QueueArn);
        Ok(call.send().await.map(drop)?)
    }

    async fn list(&self) -> Result<(), Failure> {
        Ok(self.client.list_queues().max_results(1).send().await.map(drop)?)
    }
}

fn request(number: usize, entry: &Entry<'_>) -> Result<SendMessageBatchRequestEntry, Failure> {
    let incomplete = |error: aws_sdk_sqs::error::BuildError| Failure::Connection(error.to_string());
    let mut request = SendMessageBatchRequestEntry::builder().id(number.to_string()).message_body(&*entry.body);
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
    fn a_queue_url_has_a_host_and_a_possible_name() {
        for url in ["https://sqs.eu-west-1.amazonaws.com/123456789012/orders.fifo", "http://127.0.0.1:4566/000/a-b_c"] {
            assert_eq!(Queues::check(url), Ok(()), "{url}");
        }
        for (url, part) in [
            ("orders", "not a URL"),
            ("arn:aws:sqs:eu-west-1:1:orders", "not a URL"),
            ("https://sqs.example", "1 to 80 characters"),
            ("https://sqs.example/1/", "1 to 80 characters"),
            ("https://sqs.example/1/.fifo", "1 to 80 characters"),
            ("https://sqs.example/1/order placed", "only letters"),
            ("https://sqs.example/1/order.placed", "only letters"),
            ("https://sqs.example/1/orders?x=1", "more than host"),
        ] {
            let reason = Queues::check(url).unwrap_err();
            assert!(reason.contains(part), "{url}: {reason}");
        }
        assert!(Queues::check(&format!("https://sqs.example/1/{}", "x".repeat(81))).is_err());
    }

    #[test]
    fn the_url_names_the_region() {
        assert_eq!(Queues::region("https://sqs.eu-west-1.amazonaws.com/1/orders"), Some("eu-west-1"));
        assert_eq!(Queues::region("https://sqs.cn-north-1.amazonaws.com.cn/1/orders"), Some("cn-north-1"));
        assert_eq!(Queues::region("http://127.0.0.1:4566/1/orders"), None);
    }
}
