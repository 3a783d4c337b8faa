//! Sends the rest of a run in one round trip, as a fast batch of JetStream (server 2.14, `allow_batched` on the stream).
//!
//! The server numbers the messages of the batch. With the gap mode `fail` it ends the batch at the first message that is missing
//! or that it refuses, stores nothing behind it, and says how many it has stored. Messages that it has stored before are skipped.

use async_nats::Message as Reply;
use async_nats::StatusCode;
use futures_util::StreamExt as _;
use pillarbox::{Message, SendError};
use serde::Deserialize;

use super::failure;
use super::parcel::Parcel;
use super::publish::Publishing;

/// How many messages the server may store before it reports. A batch is smaller, so its reports can be ignored.
const FLOW: usize = 1000;

/// The operations of a fast batch.
const START: u8 = 0;
const APPEND: u8 = 1;
const COMMIT: u8 = 2;

/// A response of the server to a batch: a report, a gap, an error, or the confirm.
#[derive(Deserialize)]
struct Response {
    #[serde(rename = "type")]
    kind: Option<String>,
    error: Option<serde_json::Value>,
    count: Option<usize>,
}

/// Sends messages of one run, and returns how many of them are stored, from the first on. Zero means that the caller sends them
/// one by one.
///
/// # Errors
/// When it is not known how many are stored.
pub(super) async fn send(publishing: &Publishing<'_>, rest: &[Message]) -> Result<usize, SendError> {
    let Publishing { link, parcels, deadline } = publishing;
    let packed: Vec<Parcel> =
        rest.iter().map_while(|message| parcels.pack(message, link.client.max_payload()).ok()).collect();
    if packed.len() < 2 {
        return Ok(0);
    }
    let count = packed.len();
    let inbox = link.client.new_inbox();
    let mut replies = link.client.subscribe(format!("{inbox}.>")).await.map_err(|_| failure::lost())?;
    for (number, Parcel { subject, headers, body }) in (1..).zip(packed) {
        let operation = match number {
            1 => START,
            _ if number == count => COMMIT,
            _ => APPEND,
        };
        let reply = format!("{inbox}.{FLOW}.fail.{number}.{operation}.$FI");
        let sent = link.client.publish_with_reply_and_headers(subject, reply, headers, body).await;
        sent.map_err(|_| failure::lost())?;
    }
    loop {
        let reply = tokio::time::timeout_at((*deadline).into(), replies.next()).await;
        let reply = reply.map_err(|_| SendError::timeout("no confirm from the stream in time"))?;
        let reply = reply.ok_or_else(failure::lost)?;
        link.hears();
        if let Some(stored) = stored(&reply) {
            return Ok(stored.min(count));
        }
    }
}

/// Returns how many messages are stored, if the response ends the batch.
fn stored(reply: &Reply) -> Option<usize> {
    if reply.status == Some(StatusCode::NO_RESPONDERS) {
        return Some(0);
    }
    match serde_json::from_slice(&reply.payload) {
        // Reports, gaps and errors of a message precede the confirm.
        Ok(Response { kind: Some(_), .. }) => None,
        Ok(Response { error: None, count: Some(count), .. }) => Some(count),
        // The server refused a message before it belonged to the batch. Sent again one by one, those that are stored are
        // duplicates.
        _ => Some(0),
    }
}
