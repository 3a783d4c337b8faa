//! Checks that brokers respond, that they accept the credentials, and that a constant topic exists. Sends nothing.

use std::time::Instant;

use pillarbox::SendError;
use rdkafka::error::KafkaError as ClientError;
use rdkafka::metadata::Metadata;
use rdkafka::types::RDKafkaErrorCode as Code;

use super::failure;
use super::producer::Producers;
use super::settings::KafkaSettings;

pub(super) async fn reach(settings: &KafkaSettings, producers: &Producers, deadline: Instant) -> Result<(), SendError> {
    let producer = producers.get()?;
    let started = Instant::now();
    let mut troubles = producer.troubles();
    let topic = settings.topic.constant().map(str::to_owned);
    let mut asking = tokio::task::spawn_blocking({
        let (producer, topic) = (producer.clone(), topic.clone());
        move || judge(producer.metadata(topic.as_deref(), deadline), topic.as_deref())
    });
    loop {
        // The request waits until a connection is accepted. A refusal is known earlier.
        let refused = troubles.borrow_and_update().refused.clone();
        if let Some((_, reason)) = refused.filter(|(at, _)| *at >= started) {
            return Err(failure::refused(&reason));
        }
        tokio::select! {
            asked = &mut asking => {
                let last = troubles.borrow().last.clone();
                let asked = asked.map_err(|error| SendError::unavailable(format!("the check failed: {error}")))?;
                return asked.map_err(|error| error.unwrap_or_else(|code| match last {
                    Some(reason) => failure::down(&reason),
                    None => failure::of(code, topic.as_deref().unwrap_or_default(), 0),
                }));
            }
            _ = troubles.changed() => {}
        }
    }
}

/// Returns the problem of the topic, or the code of a request that failed.
fn judge(asked: Result<Metadata, ClientError>, topic: Option<&str>) -> Result<(), Result<SendError, Code>> {
    let metadata = asked.map_err(|error| Err(error.rdkafka_error_code().unwrap_or(Code::Fail)))?;
    let Some(topic) = topic else { return Ok(()) };
    let Some(found) = metadata.topics().iter().find(|found| found.name() == topic) else {
        return Err(Ok(failure::of(Code::UnknownTopic, topic, 0)));
    };
    if let Some(code) = found.error() {
        return Err(Ok(failure::of(code.into(), topic, 0)));
    }
    let leaderless = found.partitions().iter().filter(|partition| partition.leader() < 0).count();
    if leaderless > 0 {
        return Err(Ok(SendError::unavailable(format!(
            "topic {topic:?} has {leaderless} partitions without a leader"
        ))));
    }
    Ok(())
}
