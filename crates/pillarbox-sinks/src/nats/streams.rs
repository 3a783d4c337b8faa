//! Asks JetStream about streams: whether one stores a subject, what it allows, and how long it remembers message ids.

use std::time::Duration;

use async_nats::jetstream;
use async_nats::jetstream::context::{GetStreamByNameErrorKind, GetStreamErrorKind, RequestErrorKind};
use async_nats::jetstream::publish::PublishAck;
use async_nats::jetstream::stream::Config;
use pillarbox::SendError;

use super::link::{Link, lock};
use super::parcel::Parcels;

/// The time for a question during a send. Without an answer, the stream counts as unavailable.
const PATIENCE: Duration = Duration::from_secs(2);

/// What a stream allows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Traits {
    fast: bool,
}

/// Returns whether the stream of a confirmed message takes fast batches. The answer is kept as long as the connection.
///
/// A stream with one replica is left out: when its disk fails for one message of a batch, the server goes on with the next.
pub(super) async fn takes_fast(link: &Link, ack: &PublishAck) -> bool {
    let known = lock(&link.streams).get(&ack.stream).copied();
    if let Some(traits) = known {
        return traits.fast;
    }
    // Without the permission to ask, the stream does not take them.
    let config = tokio::time::timeout(PATIENCE, config(link, &ack.stream)).await;
    let fast =
        config.is_ok_and(|config| config.is_ok_and(|config| config.allow_batch_publish && config.num_replicas > 1));
    lock(&link.streams).insert(ack.stream.clone(), Traits { fast });
    fast
}

/// Returns why nobody listens on a subject.
pub(super) async fn why_nobody_listens(link: &Link, parcels: &Parcels, subject: &str) -> SendError {
    match tokio::time::timeout(PATIENCE, name(link, subject)).await {
        Ok(Ok(Some(stream))) => SendError::unavailable(format_args!("the stream {stream} has no leader at the moment")),
        Ok(Ok(None)) => no_stream(parcels, subject),
        Ok(Err(error)) => error,
        Err(_) => SendError::unavailable(format_args!(
            "nobody listens on the subject {subject:?}, and JetStream does not say why: no response within {PATIENCE:?}"
        )),
    }
}

fn no_stream(parcels: &Parcels, subject: &str) -> SendError {
    let expected = parcels.stream.as_ref().map(|stream| format!(" (expected: {stream})")).unwrap_or_default();
    SendError::retry(format_args!(
        "no stream stores the subject {subject:?}{expected}; create one, or set confirm = false if nobody needs to confirm"
    ))
}

/// Returns the name of the stream that stores a subject, if there is one.
async fn name(link: &Link, subject: &str) -> Result<Option<String>, SendError> {
    match link.jetstream.stream_by_subject(subject).await {
        Ok(name) => Ok(Some(name)),
        Err(error) => match error.kind() {
            GetStreamByNameErrorKind::NotFound => Ok(None),
            GetStreamByNameErrorKind::JetStream(refusal) => Err(unavailable(&refusal)),
            _ => Err(silent(&error)),
        },
    }
}

async fn config(link: &Link, stream: &str) -> Result<Config, SendError> {
    match link.jetstream.get_stream(stream).await {
        Ok(found) => Ok(found.cached_info().config.clone()),
        Err(error) => Err(match error.kind() {
            GetStreamErrorKind::JetStream(refusal) if refusal.code() == 404 => {
                SendError::retry(format_args!("the stream {stream} does not exist; create it, or correct stream"))
            }
            GetStreamErrorKind::JetStream(refusal) => unavailable(&refusal),
            _ => silent(&error),
        }),
    }
}

fn unavailable(refusal: &jetstream::Error) -> SendError {
    SendError::unavailable(format_args!("JetStream is unavailable: {refusal}"))
}

/// Returns the error of a question that JetStream did not answer.
fn silent(error: &(dyn std::error::Error + 'static)) -> SendError {
    let mut source = Some(error);
    while let Some(error) = source {
        let request = error.downcast_ref::<jetstream::context::RequestError>();
        if request.is_some_and(|error| error.kind() == RequestErrorKind::NoResponders) {
            return SendError::unavailable(
                "JetStream does not respond: it is not enabled for this account, or its servers are down",
            );
        }
        source = error.source();
    }
    SendError::unavailable(format_args!("JetStream does not respond: {error}"))
}

/// Checks that the stream exists that stores the messages, as far as the settings name it.
pub(super) async fn check(link: &Link, parcels: &Parcels) -> Result<(), SendError> {
    let Some(stream) = stream(link, parcels).await? else {
        // The subjects depend on the events. JetStream must respond at least.
        return link.jetstream.query_account().await.map(drop).map_err(|error| silent(&error));
    };
    let config = config(link, &stream).await?;
    if config.no_ack {
        return Err(SendError::retry(format_args!("the stream {stream} confirms nothing (no_ack); let it confirm")));
    }
    Ok(())
}

/// Returns the stream that stores the messages, if the settings name it or all messages have one subject.
async fn stream(link: &Link, parcels: &Parcels) -> Result<Option<String>, SendError> {
    let Some(subject) = parcels.subject.constant() else { return Ok(parcels.stream.clone()) };
    let found = name(link, subject).await?;
    match (&parcels.stream, found) {
        (Some(expected), Some(found)) if *expected != found => Err(SendError::retry(format_args!(
            "the stream {found} stores the subject {subject:?}, and not {expected}; correct stream or subject"
        ))),
        (_, Some(found)) => Ok(Some(found)),
        (_, None) => Err(no_stream(parcels, subject)),
    }
}

/// Compares how long the stream remembers message ids with the time after which an event may be sent again.
pub(super) async fn advise(link: &Link, parcels: &Parcels, lease: Duration, timeout: Duration) -> Vec<String> {
    let Ok(Some(stream)) = stream(link, parcels).await else { return Vec::new() };
    let Ok(config) = config(link, &stream).await else { return Vec::new() };
    let (window, needed) = (config.duplicate_window, lease + timeout);
    if window >= needed {
        return Vec::new();
    }
    let shown = |duration| humantime::format_duration(duration);
    vec![format!(
        "the stream {stream} remembers message ids for {} (duplicate window), but events of a relay that died are sent again after \
         up to {} (relay.lease and timeout): they can arrive twice; set the stream's duplicate window to {} or more, or lower relay.lease",
        shown(window),
        shown(needed),
        shown(needed)
    )]
}
