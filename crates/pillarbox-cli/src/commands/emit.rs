//! `pillarbox emit`: emits one event in a transaction of its own. Applications emit in theirs.

use std::io::Read;

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
        let payload = read_payload(self.payload)?;
        let mut event = Event::new(self.aggregate_type, self.aggregate_id, self.event_type).payload(payload);
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

/// Reads the payload. It is kept as text, so that long numbers keep their digits.
fn read_payload(given: String) -> anyhow::Result<Box<RawValue>> {
    let text = if given == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).context("reading the payload from standard input failed")?;
        text
    } else {
        given
    };
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
