//! Send: enqueues a batch, waits for the reports under the deadline, and returns a result for each message.
//!
//! A batch may need several rounds. A broker that refuses a request for its size does not say which message is too large,
//! so the messages of that request are sent again one by one. And a producer that keeps the order of runs stops at a refused
//! message, so the messages of the other runs are sent again by another producer.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pillarbox::{Message, SendError, runs};
use rdkafka::types::RDKafkaErrorCode as Code;

use super::producer::{Producer, Producers, Reports, Troubles};
use super::settings::KafkaSettings;
use super::{failure, names, producer};

/// The most rounds. Each of them settles at least one message.
const ROUNDS: usize = 2000;
/// How long no broker may be reachable before the batch is given up. A restart of the only broker is shorter; messages in
/// flight are then confirmed without duplicates.
const DOWN: Duration = Duration::from_secs(5);

/// A message as Kafka gets it.
pub(super) struct Outgoing<'a> {
    pub(super) topic: Cow<'a, str>,
    pub(super) key: Option<Cow<'a, str>>,
    pub(super) body: Cow<'a, [u8]>,
    pub(super) headers: Vec<(Cow<'a, str>, Cow<'a, str>)>,
}

impl<'a> Outgoing<'a> {
    fn new(settings: &'a KafkaSettings, message: &'a Message) -> Result<Self, SendError> {
        Ok(Self {
            topic: names::topic(&settings.topic, message)?,
            key: settings.key.as_ref().map(|key| key.render(message)).transpose()?,
            body: settings.content.body(message)?,
            headers: settings.content.headers(message, "ce_"),
        })
    }

    /// Returns a number for the topic and the key. Messages with the same number have the same partition.
    fn partition(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (&self.topic, &self.key).hash(&mut hasher);
        hasher.finish()
    }

    fn bytes(&self) -> usize {
        let headers: usize = self.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        self.body.len() + self.key.as_ref().map_or(0, |key| key.len()) + headers
    }
}

/// Sends a batch.
pub(super) async fn send(
    settings: &KafkaSettings,
    producers: &Producers,
    batch: &[Message],
    deadline: Instant,
) -> Vec<Result<(), SendError>> {
    if batch.iter().any(Message::follows) {
        producers.expect_runs();
    }
    let mut sending = Sending::new(settings, batch, deadline);
    let mut single: Option<Arc<Producer>> = None;
    for _ in 0..ROUNDS {
        let producer = match single.take().filter(|single| single.is_usable()) {
            Some(single) => Ok(single),
            None if sending.one_by_one => producers.one_by_one(),
            None => producers.get(),
        };
        if sending.one_by_one {
            single = producer.as_ref().ok().cloned();
        }
        match producer {
            Ok(producer) => sending.round(&producer).await,
            Err(error) => sending.give_up(&error),
        }
        if sending.is_settled() || Instant::now() >= deadline {
            break;
        }
    }
    sending.finish()
}

/// A batch on its way.
struct Sending<'a> {
    settings: &'a KafkaSettings,
    messages: Vec<Option<Outgoing<'a>>>,
    runs: Vec<Range<usize>>,
    results: Vec<Option<Result<(), SendError>>>,
    deadline: Instant,
    one_by_one: bool,
    /// The topics that the brokers were asked for, because the client knew of a problem with them.
    refreshed: BTreeSet<String>,
}

/// Why a round ended before all reports were in.
enum Stop {
    Refused(String),
    Down(String),
    Late(Option<String>),
}

impl<'a> Sending<'a> {
    fn new(settings: &'a KafkaSettings, batch: &'a [Message], deadline: Instant) -> Self {
        let (mut messages, mut results) = (Vec::with_capacity(batch.len()), Vec::with_capacity(batch.len()));
        for message in batch {
            match Outgoing::new(settings, message) {
                Ok(message) => {
                    messages.push(Some(message));
                    results.push(None);
                }
                Err(error) => {
                    messages.push(None);
                    results.push(Some(Err(error)));
                }
            }
        }
        let mut end = 0;
        let ranges = runs(batch).map(|run| {
            let start = end;
            end += run.len();
            start..end
        });
        let runs = ranges.collect();
        Self { settings, messages, runs, results, deadline, one_by_one: false, refreshed: BTreeSet::new() }
    }

    /// Sends the messages without a result, and sets the results that are final.
    async fn round(&mut self, producer: &Arc<Producer>) {
        let started = Instant::now();
        let reports = Reports::new(self.messages.len());
        let unreported = Unreported { producer, reports: &reports };
        let (sent, stale) = self.enqueue(producer, &reports);
        let stop = wait(producer, &reports, started, self.deadline).await;
        // The messages that were not sent yet must not be sent later: the relay sends them again.
        drop(unreported);
        self.judge(producer, &sent, &reports.outcomes(), stop);
        self.refresh(producer, stale).await;
    }

    /// Enqueues each run up to the first message that cannot be enqueued. Returns the messages that were, and the topics
    /// that the client knows as missing or forbidden, which may have changed since.
    fn enqueue(&mut self, producer: &Producer, reports: &Arc<Reports>) -> (Vec<usize>, BTreeSet<String>) {
        let (mut sent, mut stale) = (Vec::with_capacity(self.messages.len()), BTreeSet::new());
        let Some(_enqueueing) = producer.begin() else { return (sent, stale) };
        for run in &self.runs {
            for place in run.clone() {
                match (&self.results[place], &self.messages[place]) {
                    (Some(Ok(())), _) => {}
                    (None, Some(message)) => match producer.enqueue(message, reports, place) {
                        Ok(()) => {
                            sent.push(place);
                            // A broker accepts any first sequence number of a producer that is new to a partition: the next
                            // message of the run waits until this one is stored. From then on, gaps are refused.
                            let is_last = place + 1 == run.end;
                            if !is_last && (self.one_by_one || !producer.has_stored(message.partition())) {
                                break;
                            }
                        }
                        Err(code) => {
                            let is_stale = is_about_topic(code) && !self.refreshed.contains(&*message.topic);
                            if is_stale {
                                stale.insert(message.topic.clone().into_owned());
                            } else {
                                self.results[place] = refusal(code, message, self.settings, producer).map(Err);
                            }
                            break;
                        }
                    },
                    _ => break,
                }
            }
        }
        (sent, stale)
    }

    fn judge(
        &mut self,
        producer: &Producer,
        sent: &[usize],
        outcomes: &[Option<Result<(), Code>>],
        stop: Option<Stop>,
    ) {
        let failed = producer.failed();
        let stopped = stop.map(|stop| match stop {
            Stop::Refused(reason) => failure::refused(&reason),
            Stop::Down(reason) => failure::down(&reason),
            Stop::Late(reason) => failure::late(reason.as_deref()),
        });
        let was_one_by_one = self.one_by_one;
        if outcomes.iter().flatten().any(|outcome| outcome.is_err_and(is_about_producer)) {
            producer.forget();
        }
        for &place in sent {
            let Some(message) = &self.messages[place] else { continue };
            if outcomes[place] == Some(Ok(())) {
                producer.stored(message.partition());
            }
            self.results[place] = match (outcomes[place], &stopped, &failed) {
                (Some(Ok(())), _, _) => Some(Ok(())),
                (Some(Err(code)), _, _) if is_about_size(code) && !was_one_by_one => {
                    self.one_by_one = true;
                    None
                }
                (Some(Err(code)), _, _) if !is_collateral(code) => {
                    Some(Err(failure::of(code, &message.topic, message.bytes())))
                }
                (_, Some(stopped), _) => Some(Err(stopped.clone())),
                // Another batch purged the queue. The next round sends the message.
                (Some(Err(Code::PurgeQueue)), None, None) => None,
                // The message behind a refused one, which the next round sends.
                (_, None, Some((Code::GaplessGuarantee, _))) => None,
                (_, None, Some((code, reason))) => Some(Err(failure::fatal(*code, reason))),
                (Some(Err(code)), None, None) => Some(Err(failure::of(code, &message.topic, message.bytes()))),
                (None, None, None) => Some(Err(failure::late(None))),
            };
        }
        if let Some(stopped) = stopped {
            self.give_up(&stopped);
        }
    }

    /// Asks the brokers for topics that the client knows as missing or forbidden.
    async fn refresh(&mut self, producer: &Arc<Producer>, stale: BTreeSet<String>) {
        for topic in stale {
            let (producer, deadline) = (Arc::clone(producer), self.deadline);
            let asked = topic.clone();
            let asking = tokio::task::spawn_blocking(move || drop(producer.metadata(Some(&asked), deadline)));
            let _ = tokio::time::timeout_at(deadline.into(), asking).await;
            self.refreshed.insert(topic);
        }
    }

    /// Returns whether no message can be sent: each run is delivered, or has a message that failed.
    fn is_settled(&self) -> bool {
        self.runs.iter().all(|run| {
            let first = run.clone().find(|&place| self.results[place] != Some(Ok(())));
            first.is_none_or(|place| self.results[place].is_some())
        })
    }

    /// Fails every message without a result.
    fn give_up(&mut self, error: &SendError) {
        for result in self.results.iter_mut().filter(|result| result.is_none()) {
            *result = Some(Err(error.clone()));
        }
    }

    fn finish(mut self) -> Vec<Result<(), SendError>> {
        if !self.is_settled() {
            self.give_up(&failure::late(None));
        }
        let held = || SendError::retry("not sent, because an earlier event of the aggregate failed");
        self.results.into_iter().map(|result| result.unwrap_or_else(|| Err(held()))).collect()
    }
}

/// Purges the queue when the round ends, or is cancelled, before all reports are in.
struct Unreported<'a> {
    producer: &'a Producer,
    reports: &'a Reports,
}

impl Drop for Unreported<'_> {
    fn drop(&mut self) {
        if self.reports.open() > 0 {
            self.producer.purge();
        }
    }
}

/// Waits for the reports. Returns why not all of them came.
async fn wait(producer: &Producer, reports: &Reports, started: Instant, deadline: Instant) -> Option<Stop> {
    let mut troubles = producer.troubles();
    while reports.open() > 0 {
        let Troubles { refused, down, last } = troubles.borrow_and_update().clone();
        if let Some((_, reason)) = refused.filter(|(at, _)| *at >= started) {
            return Some(Stop::Refused(reason));
        }
        let patience = down.as_ref().map(|(since, _)| (*since).max(started) + DOWN);
        let until = patience.map_or(deadline, |patience| patience.min(deadline));
        tokio::select! {
            () = reports.all_in.notified() => {}
            _ = troubles.changed() => {}
            () = tokio::time::sleep_until(until.into()) => {
                return Some(match down {
                    Some((_, reason)) => Stop::Down(reason),
                    None => Stop::Late(last),
                });
            }
        }
    }
    None
}

fn is_about_topic(code: Code) -> bool {
    matches!(
        code,
        Code::UnknownTopic | Code::UnknownTopicOrPartition | Code::UnknownPartition | Code::TopicAuthorizationFailed
    )
}

fn is_about_size(code: Code) -> bool {
    matches!(code, Code::MessageSizeTooLarge | Code::InvalidMessageSize | Code::MessageBatchTooLarge)
}

/// Returns whether the brokers do not know the producer, or know it with another state. The client cannot repair that.
fn is_about_producer(code: Code) -> bool {
    matches!(
        code,
        Code::ProducerFenced
            | Code::InvalidProducerEpoch
            | Code::InvalidProducerIdMapping
            | Code::UnknownProducerId
            | Code::OutOfOrderSequenceNumber
    )
}

/// Returns whether the message failed because of something else: a purge, or a producer that stopped.
fn is_collateral(code: Code) -> bool {
    matches!(
        code,
        Code::PurgeQueue
            | Code::PurgeInflight
            | Code::Fatal
            | Code::GaplessGuarantee
            | Code::OutOfOrderSequenceNumber
            | Code::DestroyBroker
            | Code::Retry
    )
}

/// Returns the error of a message that the client does not enqueue. `None` means that the next round may.
fn refusal(code: Code, message: &Outgoing<'_>, settings: &KafkaSettings, producer: &Producer) -> Option<SendError> {
    match code {
        code if is_about_size(code) => Some(failure::too_large(message.bytes(), settings.max_message_size)),
        Code::Fatal => producer::fatal(producer),
        code => Some(failure::of(code, &message.topic, message.bytes())),
    }
}
