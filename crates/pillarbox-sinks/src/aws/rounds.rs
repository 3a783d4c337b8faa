//! Sends a batch in calls of at most ten messages.
//!
//! Entries of a call can fail one by one, so two messages of a run never share a call, and the second is sent when the first is
//! stored. A batch is sent in rounds: each round sends the next message of every run. Without runs there is one round.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Instant;

use futures_util::{FutureExt as _, StreamExt as _, stream};
use pillarbox::{Message, SendError, runs};

use super::failure::{explain, explain_fault, timed_out};
use super::{AwsSettings, BATCH, Entry, FIFO, Names, Service};

/// The most messages of a call.
const CALL: usize = 10;
/// The most calls of a batch in flight.
const CALLS: usize = BATCH / CALL;

/// A message of a round, with its place in the batch.
struct Slot<'a> {
    place: usize,
    entry: Entry<'a>,
}

/// The messages of one call, all for one target.
struct Call<'a> {
    target: Cow<'a, str>,
    slots: Vec<Slot<'a>>,
    bytes: usize,
}

pub(super) async fn send<S: Service>(
    service: &S,
    settings: &AwsSettings,
    batch: &[Message],
    deadline: Instant,
) -> Vec<Result<(), SendError>> {
    let behind = || Err(SendError::unavailable("not sent, because an earlier event of its aggregate was not stored"));
    let mut results: Vec<Result<(), SendError>> = batch.iter().map(|_| behind()).collect();
    let mut open = open(batch);
    while !open.is_empty() {
        let mut calls = Calls::new(S::NAMES.call_bytes);
        for place in open.iter().map(|run| run.start) {
            match prepare::<S>(settings, &batch[place]) {
                Ok((target, entry)) => calls.add(target, Slot { place, entry }),
                Err(error) => results[place] = Err(error),
            }
        }
        let mut sending = Vec::with_capacity(calls.all.len());
        for call in &calls.all {
            sending.push(send_call(service, settings, call, deadline).boxed());
        }
        let mut sent = stream::iter(sending).buffer_unordered(CALLS);
        while let Some(answers) = sent.next().await {
            answers.into_iter().for_each(|(place, result)| results[place] = result);
        }
        open.retain_mut(|run| {
            let is_stored = results[run.start].is_ok();
            run.start += 1;
            is_stored && run.start < run.end
        });
    }
    results
}

/// Returns the places of each run.
fn open(batch: &[Message]) -> Vec<Range<usize>> {
    let mut start = 0;
    let place = |run: &[Message]| {
        let place = start..start + run.len();
        start = place.end;
        place
    };
    runs(batch).map(place).collect()
}

fn prepare<'a, S: Service>(
    settings: &'a AwsSettings,
    message: &'a Message,
) -> Result<(Cow<'a, str>, Entry<'a>), SendError> {
    let target = settings.target.render(message)?;
    // A constant target was checked with the configuration.
    if settings.target.constant().is_none() {
        let refused = |reason| SendError::reject(format_args!("{} becomes {target:?}, which {reason}", S::NAMES.key));
        S::check(&target).map_err(refused)?;
    }
    let is_fifo = target.ends_with(FIFO);
    let entry = Entry::new(message, &settings.content, is_fifo, &S::NAMES)?;
    Ok((target, entry))
}

/// Calls while they are filled.
struct Calls<'a> {
    all: Vec<Call<'a>>,
    /// The call of each target that still has room.
    current: BTreeMap<Cow<'a, str>, usize>,
    bytes: usize,
}

impl<'a> Calls<'a> {
    fn new(bytes: usize) -> Self {
        Self { all: Vec::new(), current: BTreeMap::new(), bytes }
    }

    fn add(&mut self, target: Cow<'a, str>, slot: Slot<'a>) {
        let current = self.current.get(&target).and_then(|index| self.all.get_mut(*index));
        match current.filter(|call| call.slots.len() < CALL && call.bytes + slot.entry.bytes <= self.bytes) {
            Some(call) => {
                call.bytes += slot.entry.bytes;
                call.slots.push(slot);
            }
            None => {
                self.current.insert(target.clone(), self.all.len());
                self.all.push(Call { target, bytes: slot.entry.bytes, slots: vec![slot] });
            }
        }
    }
}

/// Sends one call. If one of its messages may be the reason why all of them were refused, the halves are sent by themselves.
async fn send_call<S: Service>(
    service: &S,
    settings: &AwsSettings,
    call: &Call<'_>,
    deadline: Instant,
) -> Vec<(usize, Result<(), SendError>)> {
    let (names, target) = (S::NAMES, &*call.target);
    let mut results = Vec::with_capacity(call.slots.len());
    let mut parts = vec![&call.slots[..]];
    while let Some(part) = parts.pop() {
        let entries: Vec<&Entry<'_>> = part.iter().map(|slot| &slot.entry).collect();
        let all = |error: SendError| part.iter().map(move |slot| (slot.place, Err(error.clone())));
        match tokio::time::timeout_at(deadline.into(), service.send(target, &entries)).await {
            Ok(Ok(answers)) => results.extend(judge(&names, target, part, answers)),
            Ok(Err(failure)) if part.len() > 1 && failure.may_be_one_message() => {
                let (left, right) = part.split_at(part.len() / 2);
                parts.extend([right, left]);
            }
            Ok(Err(failure)) => {
                results.extend(all(explain(&names, names.send, target, &settings.address::<S>(), &failure)));
            }
            Err(_) => results.extend(all(timed_out(&settings.address::<S>(), settings.timeout))),
        }
    }
    results
}

/// Returns the result of each message. A message that the response does not name was not confirmed.
fn judge(
    names: &Names,
    target: &str,
    part: &[Slot<'_>],
    answers: super::service::Answers,
) -> Vec<(usize, Result<(), SendError>)> {
    let unnamed =
        || Err(SendError::retry(format_args!("the response of {} has no result for the message", names.system)));
    let mut results: Vec<_> = part.iter().map(|slot| (slot.place, unnamed())).collect();
    for (number, answer) in answers {
        if let Some((_, result)) = results.get_mut(number) {
            *result = answer.map_err(|fault| explain_fault(names, names.send, target, &fault));
        }
    }
    results
}
