//! Events whose kind does not tell their destinations, because a condition on the payload decides. Their payloads are read, a few
//! at a time.

use std::collections::{HashMap, HashSet};

use serde_json::value::RawValue;
use uuid::Uuid;

use super::{Call, Database, Row, Through, Transaction};
use crate::error::DriverError;
use crate::event::{Headers, read_headers};
use crate::route::{OfKind, Subject};
use crate::store::inspect::EventView;
use crate::store::list::ToDestination;

/// The number of payloads that are in memory at once.
const AT_ONCE: usize = 64;

/// The parts of an event by which it is routed.
struct Routed {
    id: Uuid,
    event_type: String,
    aggregate_type: String,
    payload: Box<RawValue>,
    headers: Headers,
    /// Whether a delivery or an attempt names the destination.
    named: bool,
}

impl Routed {
    fn read(row: &impl Row) -> Result<Self, DriverError> {
        Ok(Self {
            id: row.id("id")?,
            event_type: row.text("event_type")?,
            aggregate_type: row.text("aggregate_type")?,
            payload: payload(&row.text("payload")?)?,
            headers: read_headers(row.maybe_text("headers")?.as_deref()),
            named: row.flag("named")?,
        })
    }

    fn subject(&self) -> Subject<'_> {
        Subject {
            event_type: &self.event_type,
            aggregate_type: &self.aggregate_type,
            payload: &self.payload,
            headers: &self.headers,
        }
    }
}

/// Reads a payload. Text that is not JSON, which only another program can have written, becomes a string.
pub(super) fn payload(text: &str) -> Result<Box<RawValue>, DriverError> {
    match serde_json::from_str::<&RawValue>(text) {
        Ok(payload) => Ok(payload.to_owned()),
        Err(_) => Ok(serde_json::value::to_raw_value(text)?),
    }
}

/// An event of a list that may belong to a destination.
pub(super) struct Listed<'a> {
    pub(super) id: Uuid,
    pub(super) event_type: &'a str,
    pub(super) aggregate_type: &'a str,
    /// Where it is parked or has failed.
    pub(super) stands: Option<&'a str>,
}

impl<'a> From<&'a EventView> for Listed<'a> {
    fn from(event: &'a EventView) -> Self {
        let stands = event.parked_on.as_deref().or(event.failed_on.as_deref());
        Self { id: event.id, event_type: &event.event_type, aggregate_type: &event.aggregate_type, stands }
    }
}

/// Returns those of these events that a condition on the payload keeps from the destination.
pub(super) async fn strangers<'a, D: Database>(
    store: &D,
    to: &ToDestination,
    listed: impl Iterator<Item = Listed<'a>>,
) -> Result<HashSet<Uuid>, DriverError> {
    let is_open = |event: &Listed<'_>| {
        event.stands != Some(to.name.as_str())
            && to.routes.of_kind(event.event_type, event.aggregate_type) == OfKind::ByPayload
    };
    let open: Vec<Uuid> = listed.filter(is_open).map(|event| event.id).collect();
    let mut strangers = HashSet::new();
    for ids in open.chunks(AT_ONCE) {
        let call = Call::new(D::statements().routed).bind(ids).bind(to.name.as_str());
        for row in store.rows(Through::People, call).await? {
            let routed = Routed::read(&row)?;
            if !routed.named && to.others(routed.subject()).is_none() {
                strangers.insert(routed.id);
            }
        }
    }
    Ok(strangers)
}

/// Returns the other destinations of events that are routed by their payload; `None` for those that are not routed here.
pub(super) async fn others<D: Database>(
    tx: &mut D::Tx,
    only: &ToDestination,
    ids: &[Uuid],
) -> Result<HashMap<Uuid, Option<Vec<String>>>, DriverError> {
    let mut others = HashMap::new();
    for ids in ids.chunks(AT_ONCE) {
        let call = Call::new(D::statements().routed).bind(ids).bind(only.name.as_str());
        for row in tx.rows(call).await? {
            let routed = Routed::read(&row)?;
            others.insert(routed.id, only.others(routed.subject()));
        }
    }
    Ok(others)
}
