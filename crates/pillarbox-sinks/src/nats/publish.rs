//! Publishes a batch run by run. Runs are in flight at the same time; inside a run, a message waits until the one before it is
//! stored. A batch without order has runs of one message, so all of it is in flight at once.

use std::collections::{HashMap, HashSet};
use std::future::IntoFuture as _;
use std::time::Instant;

use async_nats::Subject;
use async_nats::client::RequestErrorKind;
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::publish::PublishAck;
use futures_util::future::join_all;
use pillarbox::{Message, SendError, SendErrorKind, runs};

use super::failure::{self, Failure};
use super::link::Link;
use super::parcel::{Parcel, Parcels};
use super::{fast, streams};

/// The shortest rest of a run that is sent as a fast batch. A shorter one costs no more round trips by itself.
const FAST: usize = 3;
/// The most subjects without a listener that are looked up for one batch.
const LOOK_UPS: usize = 16;

/// One batch on its way.
pub(super) struct Publishing<'a> {
    pub(super) link: &'a Link,
    pub(super) parcels: &'a Parcels,
    pub(super) deadline: Instant,
}

/// Publishes a batch to streams, and waits until they have confirmed.
pub(super) async fn confirmed(
    link: &Link,
    parcels: &Parcels,
    batch: &[Message],
    deadline: Instant,
) -> Vec<Result<(), SendError>> {
    let started = Instant::now();
    let publishing = Publishing { link, parcels, deadline };
    let outcomes = join_all(runs(batch).map(|run| publishing.run(run))).await.concat();
    let results = explained(&publishing, batch, outcomes).await;
    let is_timeout =
        |result: &Result<(), SendError>| result.as_ref().is_err_and(|it| it.kind == SendErrorKind::Timeout);
    if results.iter().any(is_timeout) && link.is_silent_since(started) {
        link.forget();
    }
    results
}

impl Publishing<'_> {
    /// Publishes the messages of a run in order, up to the first failure.
    async fn run(&self, run: &[Message]) -> Vec<Result<(), Failure>> {
        let mut results = Vec::with_capacity(run.len());
        let mut may_be_fast = true;
        while let [next, rest @ ..] = &run[results.len()..] {
            match self.one(next).await {
                Ok(ack) => {
                    results.push(Ok(()));
                    // A duplicate is the sign of a repeated run. It is repeated message by message.
                    if may_be_fast && rest.len() >= FAST && !ack.duplicate && streams::takes_fast(self.link, &ack).await
                    {
                        may_be_fast = false;
                        match fast::send(self, rest).await {
                            Ok(stored) => results.extend(vec![Ok(()); stored]),
                            Err(error) => results.push(Err(error.into())),
                        }
                    }
                }
                Err(failure) => results.push(Err(failure)),
            }
            if results.last().is_some_and(Result::is_err) {
                break;
            }
        }
        let behind = SendError::retry("not sent: an earlier event of its aggregate was not stored");
        results.resize(run.len(), Err(behind.into()));
        results
    }

    /// Publishes one message, and waits until the stream has stored it.
    async fn one(&self, message: &Message) -> Result<PublishAck, Failure> {
        let parcel = self.parcels.pack(message, self.link.client.max_payload())?;
        if Instant::now() >= self.deadline {
            return Err(SendError::unavailable("not sent: the stream confirmed too few messages in time").into());
        }
        let acked = tokio::time::timeout_at(self.deadline.into(), self.acked(parcel)).await;
        acked.unwrap_or_else(|_| Err(SendError::timeout("no confirm from the stream in time").into()))
    }

    async fn acked(&self, Parcel { subject, headers, body }: Parcel) -> Result<PublishAck, Failure> {
        let size = body.len();
        let mut complaints = self.link.complaints();
        let publish = PublishMessage::build().payload(body).headers(headers);
        let sent = self.link.jetstream.send_publish(subject.clone(), publish).await;
        let mut waiting = match sent {
            Ok(ack) => ack.into_future(),
            Err(error) => return Err(failure::of(&error, &subject, size)),
        };
        loop {
            tokio::select! {
                biased;
                acked = &mut waiting => {
                    let ack = acked.map_err(|error| failure::of(&error, &subject, size))?;
                    self.link.hears();
                    return Ok(ack);
                }
                // The server complains of a missing permission and does not respond.
                Ok(()) = complaints.changed() => {
                    if let Some(denied) = failure::denied(&complaints.borrow_and_update(), &subject) {
                        return Err(denied.into());
                    }
                }
            }
        }
    }
}

/// Finds out why nobody listened on a subject: whether there is no stream for it, or the stream has no leader.
async fn explained(
    Publishing { link, parcels, deadline }: &Publishing<'_>,
    batch: &[Message],
    outcomes: Vec<Result<(), Failure>>,
) -> Vec<Result<(), SendError>> {
    let unheard = batch.iter().zip(&outcomes).filter(|(_, outcome)| matches!(outcome, Err(Failure::NoResponders)));
    let subjects: HashSet<_> = unheard.filter_map(|(message, _)| parcels.subject.render(message).ok()).collect();
    let reasons = join_all(subjects.into_iter().take(LOOK_UPS).map(|subject| async {
        let asked = streams::why_nobody_listens(link, parcels, &subject);
        let reason = tokio::time::timeout_at((*deadline).into(), asked).await;
        reason.ok().map(|reason| (subject, reason))
    }));
    let subjects: HashMap<_, _> = reasons.await.into_iter().flatten().collect();
    let explain = |message: &Message| {
        let subject = parcels.subject.render(message).unwrap_or_default();
        let unknown = || SendError::unavailable(format_args!("nobody listens on the subject {subject:?}"));
        subjects.get(&*subject).cloned().unwrap_or_else(unknown)
    };
    let results = batch.iter().zip(outcomes).map(|(message, outcome)| match outcome {
        Ok(()) => Ok(()),
        Err(Failure::Error(error)) => Err(error),
        Err(Failure::NoResponders) => Err(explain(message)),
    });
    results.collect()
}

/// Publishes a batch to plain subjects, and waits until the server has read it. Nobody confirms.
pub(super) async fn unconfirmed(
    link: &Link,
    parcels: &Parcels,
    batch: &[Message],
    deadline: Instant,
) -> Vec<Result<(), SendError>> {
    let mut results = Vec::with_capacity(batch.len());
    let mut subjects = Vec::with_capacity(batch.len());
    let publishing = async {
        for message in batch {
            let failed_before = message.follows() && matches!(results.last(), Some(Err(_)));
            let packed = match failed_before {
                true => Err(SendError::retry("not sent: an earlier event of its aggregate was not sent")),
                false => parcels.pack(message, link.client.max_payload()),
            };
            let sent = match packed {
                Ok(Parcel { subject, headers, body }) => {
                    let sent = link.client.publish_with_headers(subject.clone(), headers, body).await;
                    subjects.push(subject);
                    sent.map_err(|_| failure::lost())
                }
                Err(error) => {
                    subjects.push(Subject::from_static(""));
                    Err(error)
                }
            };
            results.push(sent);
        }
        read_by_server(link).await
    };
    let read = match tokio::time::timeout_at(deadline.into(), publishing).await {
        Ok(read) => read,
        Err(_) => {
            link.forget();
            Err(SendError::timeout("the server has not read the messages in time"))
        }
    };
    results.resize(batch.len(), Ok(()));
    subjects.resize(batch.len(), Subject::from_static(""));
    let complaints = link.complaints();
    let complaints = complaints.borrow();
    for (result, subject) in results.iter_mut().zip(&subjects).filter(|(result, _)| result.is_ok()) {
        let denied = failure::denied(&complaints, subject).map_or(Ok(()), Err);
        *result = read.clone().and(denied);
    }
    results
}

/// Waits until the server has read everything that was sent before: it responds to a request that nobody listens to, or says
/// that it is not allowed.
async fn read_by_server(link: &Link) -> Result<(), SendError> {
    let nobody = link.client.new_inbox();
    let mut complaints = link.complaints();
    let request = link.client.request(nobody.clone(), bytes::Bytes::new());
    tokio::pin!(request);
    loop {
        tokio::select! {
            response = &mut request => return match response {
                Ok(_) => Ok(()),
                Err(error) if error.kind() == RequestErrorKind::NoResponders => Ok(()),
                Err(error) if error.kind() == RequestErrorKind::TimedOut => {
                    Err(SendError::timeout("the server has not read the messages in time"))
                }
                Err(_) => Err(failure::lost()),
            },
            Ok(()) = complaints.changed() => {
                if failure::denied(&complaints.borrow_and_update(), &nobody).is_some() {
                    return Ok(());
                }
            }
        }
    }
}
