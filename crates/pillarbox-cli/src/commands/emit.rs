//! `pillarbox emit`: emits one event in a transaction of its own. Applications emit in theirs.

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::Context;
use chrono::{DateTime, Utc};
use clap::Args;
use pillarbox::{EmitError, Emitted, Event, StoreError};
use serde_json::value::RawValue;

use super::{Misuse, Session};
use crate::store::{Missing, Opened};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The type of the aggregate: Order
    aggregate_type: String,
    /// The id of the aggregate: 42
    aggregate_id: String,
    /// The type of the event: order.placed
    event_type: String,
    /// JSON for the receivers; `-` reads it from standard input
    #[arg(default_value = "{}")]
    payload: String,
    /// Read the payload from a file; `-` is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "payload")]
    payload_file: Option<PathBuf>,
    /// The file holds bytes of this content type, which receivers get as they are: application/x-protobuf
    #[arg(long, value_name = "TYPE", requires = "payload_file")]
    content_type: Option<String>,
    /// The idempotency key, unique per event type; by default AGGREGATE_TYPE:AGGREGATE_ID
    #[arg(long, conflicts_with = "repeatable")]
    key: Option<String>,
    /// The event may happen again to the same aggregate: the key is the event's own id
    #[arg(long)]
    repeatable: bool,
    /// If an event with this key exists, print it instead of failing
    #[arg(long, conflicts_with = "repeatable")]
    once: bool,
    /// A header that travels with the event; may be given several times
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = name_and_value)]
    headers: Vec<(String, String)>,
    /// The number of failed attempts after which the event becomes a dead letter; 0 means no limit
    #[arg(long, value_name = "N")]
    max_attempts: Option<u32>,
    /// The earliest time of delivery: 2026-03-01T08:00:00Z
    #[arg(long, value_name = "RFC3339")]
    deliver_at: Option<DateTime<Utc>>,
}

pub(super) fn name_and_value(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write it as NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

pub(crate) async fn run(arguments: Arguments, session: &Session) -> anyhow::Result<()> {
    session.own("tasks are emitted by the application, through its OutboxCelery")?;
    let once = arguments.once;
    let event = arguments.into_event()?;
    let opened = Opened::unchecked(&session.settings.database, Missing::Create(session.output)).await?;
    let emitted = if once { opened.inspect().emit_once(event).await } else { opened.inspect().emit(event).await };
    match emitted {
        Ok(emitted) => answer(session, &emitted),
        Err(StoreError::Emit(EmitError::Duplicate { event_type, idempotency_key })) => anyhow::bail!(
            "an event {event_type:?} with the idempotency key {idempotency_key:?} exists already; if it may happen \
             more than once, add --repeatable or another --key; to ignore duplicates, add --once"
        ),
        Err(error) => Err(error.into()),
    }
}

impl Arguments {
    fn into_event(self) -> anyhow::Result<Event> {
        let event = Event::new(self.aggregate_type, self.aggregate_id, self.event_type);
        let mut event = match (self.payload_file, self.content_type) {
            (Some(file), Some(content_type)) => event.payload_bytes(content_type, read_file(&file)?),
            (Some(file), None) => event.payload(parse_payload(&String::from_utf8_lossy(&read_file(&file)?))?),
            (None, _) => event.payload(read_payload(&self.payload)?),
        };
        if let Some(key) = self.key {
            event = event.idempotency_key(key);
        }
        if self.repeatable {
            event = event.repeatable();
        }
        for (name, value) in self.headers {
            event = event.header(name, value);
        }
        if let Some(attempts) = self.max_attempts {
            event = event.max_attempts(attempts);
        }
        if let Some(moment) = self.deliver_at {
            event = event.deliver_at(moment);
        }
        Ok(event)
    }
}

/// Reads the payload; `-` is standard input.
pub(super) fn read_payload(given: &str) -> anyhow::Result<Box<RawValue>> {
    if given != "-" {
        return parse_payload(given);
    }
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).context("reading the payload from standard input failed")?;
    parse_payload(&text)
}

/// Reads a whole file; `-` is standard input.
pub(super) fn read_file(file: &Path) -> anyhow::Result<Vec<u8>> {
    if file == Path::new("-") {
        let mut bytes = Vec::new();
        std::io::stdin().read_to_end(&mut bytes).context("reading standard input failed")?;
        return Ok(bytes);
    }
    std::fs::read(file).with_context(|| format!("{} cannot be read", file.display()))
}

/// Checks the payload. It is kept as text, so that long numbers keep their digits.
fn parse_payload(text: &str) -> anyhow::Result<Box<RawValue>> {
    RawValue::from_string(text.trim().to_owned()).map_err(|error| {
        Misuse(format!("the payload is not JSON: {error}; write text as a JSON string: '\"text\"'")).into()
    })
}

fn answer(session: &Session, emitted: &Emitted) -> anyhow::Result<()> {
    let Emitted { id, event_type, status, .. } = emitted;
    let text = || match emitted.is_new {
        true => format!("emitted {event_type} {id}"),
        false => format!("exists already: {event_type} {id} ({status})"),
    };
    Ok(session.output.answer(emitted, text)?)
}
