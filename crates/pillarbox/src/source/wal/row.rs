//! Decode: reads a row of the application's outbox table into an event, as Debezium's outbox event router does. Pure. A row that is not
//! an event becomes a dead letter with the row in it, so that nothing is lost in silence.

use std::sync::Arc;

use chrono::{DateTime, NaiveDate, NaiveDateTime, Utc};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::content::{KEPT, storable, unreadable};
use super::frame::{Relation, Value};
use crate::celery;
use crate::event::{AGGREGATE_LIMIT, Headers, NAME_LIMIT, StoredEvent, read_headers, readable};
use crate::store::postgres::lsn::Lsn;
use crate::store::postgres::{OutboxTable, ROW_ID};
use crate::trace::{SpanContext, TRACEPARENT};

/// The longest payload of a row. The type `jsonb` cannot hold twice as much, and a row that cannot be spilled would hold up the log.
const LARGEST: usize = 128 * 1024 * 1024;
/// The types of columns whose text has a meaning, by their ids in every server's catalog.
const BYTEA: u32 = 17;
const NUMBERS: [u32; 2] = [20, 23];

/// The header with the type of a payload that is not JSON.
const CONTENT_TYPE: &str = "pillarbox-content-type";
const TRACESTATE: &str = "tracestate";

/// How the rows of a table are read, as long as its columns stay as they are.
#[derive(Debug)]
pub(super) struct Layout {
    table: String,
    columns: Vec<(String, u32)>,
    /// The places of the columns that make an event, or why no row of this table is one.
    places: Result<Places, String>,
}

#[derive(Debug)]
struct Places {
    id: usize,
    aggregate_type: usize,
    aggregate_id: usize,
    event_type: usize,
    payload: usize,
    created_at: Option<usize>,
    headers: Option<usize>,
    header_columns: Vec<(usize, String)>,
    trace: Option<usize>,
}

impl Layout {
    /// Returns how rows of a table are read that the log describes like this.
    pub(super) fn of(relation: Relation, table: Option<&OutboxTable>) -> Self {
        let name = format!("{}.{}", relation.schema, relation.name);
        let places = match table {
            Some(table) if is(&relation, table) => Places::find(&relation.columns, table),
            _ => Err(format!("[source] does not name the table {name}, which the publication contained")),
        };
        Self { table: name, columns: relation.columns, places }
    }

    /// Reads a row.
    ///
    /// # Errors
    /// The reason why it is not an event that the table `outbox_event` can hold.
    pub(super) fn read(&self, values: &[Value], committed: DateTime<Utc>) -> Result<StoredEvent, String> {
        let places = self.places.as_ref().map_err(Clone::clone)?;
        let row = Row { layout: self, values };
        let (id, original) = row.id(places.id)?;
        let mut headers = row.headers(places)?;
        if let Some(original) = original {
            headers.entry(ROW_ID.to_owned()).or_insert(original);
        }
        let event = StoredEvent {
            id,
            // The log has no such numbers. The table gives it one if it is spilled.
            seq: 0,
            aggregate_type: row.name(places.aggregate_type, AGGREGATE_LIMIT)?,
            aggregate_id: row.name(places.aggregate_id, AGGREGATE_LIMIT)?,
            event_type: row.name(places.event_type, NAME_LIMIT)?,
            payload: row.payload(places.payload, &mut headers)?,
            headers,
            idempotency_key: id.to_string(),
            attempts: 0,
            max_attempts: None,
            claims: 0,
            created_at: places.created_at.and_then(|place| row.moment(place)).map_or(committed, readable),
        };
        if event.aggregate_type == celery::AGGREGATE_TYPE {
            let column = row.column(places.aggregate_type);
            return Err(format!("{column} is {:?}, which only Celery tasks may have", celery::AGGREGATE_TYPE));
        }
        Ok(event)
    }

    /// Returns the dead letter for a row that is not an event, and the reason with the row's name.
    pub(super) fn dead_letter(
        &self,
        commit: Lsn,
        index: u32,
        values: &[Value],
        why: &str,
        now: DateTime<Utc>,
    ) -> (Arc<StoredEvent>, String) {
        let row = Row { layout: self, values };
        let id = self.places.as_ref().ok().and_then(|places| row.text(places.id).ok().flatten());
        let named = id.map_or_else(String::new, |id| format!(" with {} {:?}", row.name_of_id(), start(id, 100)));
        let mut room = KEPT;
        let mut kept = serde_json::Map::new();
        for ((column, _), value) in self.columns.iter().zip(values) {
            let value = match value {
                Value::Text(text) => {
                    let text = start(std::str::from_utf8(text).unwrap_or_default(), room);
                    room -= text.len();
                    text.into()
                }
                Value::Null | Value::Unsent => serde_json::Value::Null,
            };
            kept.insert(column.clone(), value);
        }
        let kept = serde_json::json!({ "table": self.table, "row": kept });
        let reason = format!("the row of {}{named} cannot be read: {why}", self.table);
        (unreadable(commit, index, &kept, now), reason)
    }
}

/// Returns whether the log describes this table.
pub(super) fn is(relation: &Relation, table: &OutboxTable) -> bool {
    relation.schema == table.schema && relation.name == table.name
}

impl Places {
    fn find(columns: &[(String, u32)], table: &OutboxTable) -> Result<Self, String> {
        let place = |wanted: &str| columns.iter().position(|(name, _)| name == wanted);
        let required = |wanted: &String| {
            place(wanted).ok_or_else(|| format!("it has no column {wanted}; name the columns in [source.columns]"))
        };
        let named = &table.columns;
        let header_columns = named.header_columns.iter().map(|(column, name)| Ok((required(column)?, name.clone())));
        Ok(Self {
            id: required(&named.id)?,
            aggregate_type: required(&named.aggregate_type)?,
            aggregate_id: required(&named.aggregate_id)?,
            event_type: required(&named.event_type)?,
            payload: required(&named.payload)?,
            created_at: named.created_at.as_ref().map(required).transpose()?,
            headers: named.headers.as_ref().map(required).transpose()?,
            header_columns: header_columns.collect::<Result<_, String>>()?,
            trace: named.trace.as_deref().and_then(place),
        })
    }
}

/// A row with the layout of its table.
struct Row<'a> {
    layout: &'a Layout,
    values: &'a [Value],
}

impl<'a> Row<'a> {
    fn column(&self, place: usize) -> &'a str {
        self.layout.columns.get(place).map_or("", |(name, _)| name)
    }

    fn type_of(&self, place: usize) -> u32 {
        self.layout.columns.get(place).map_or(0, |(_, kind)| *kind)
    }

    fn name_of_id(&self) -> &'a str {
        self.layout.places.as_ref().map_or("id", |places| self.column(places.id))
    }

    /// Returns the text of a value; `None` for `NULL`.
    fn text(&self, place: usize) -> Result<Option<&'a str>, String> {
        match self.values.get(place) {
            Some(Value::Null) => Ok(None),
            Some(Value::Text(text)) => {
                let text = std::str::from_utf8(text).map_err(|_| format!("{} is not UTF-8", self.column(place)))?;
                Ok(Some(text))
            }
            Some(Value::Unsent) | None => Err(format!("the server did not send {}", self.column(place))),
        }
    }

    fn required(&self, place: usize) -> Result<&'a str, String> {
        self.text(place)?.ok_or_else(|| format!("{} is NULL", self.column(place)))
    }

    fn name(&self, place: usize, limit: usize) -> Result<String, String> {
        let text = self.required(place)?;
        match text.chars().count() {
            0 => Err(format!("{} is empty", self.column(place))),
            length if length > limit => {
                Err(format!("{} has {length} characters; the limit is {limit}", self.column(place)))
            }
            _ => Ok(text.to_owned()),
        }
    }

    /// Returns the id of the event, and that of the row if it is another.
    fn id(&self, place: usize) -> Result<(Uuid, Option<String>), String> {
        let text = self.required(place)?;
        if let Ok(id) = Uuid::try_parse(text) {
            return Ok((id, None));
        }
        let digest = Sha256::new().chain_update(&self.layout.table).chain_update([0]).chain_update(text).finalize();
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&digest[..16]);
        Ok((uuid::Builder::from_custom_bytes(bytes).into_uuid(), Some(start(text, NAME_LIMIT).to_owned())))
    }

    fn payload(&self, place: usize, headers: &mut Headers) -> Result<Box<RawValue>, String> {
        let Some(text) = self.text(place)? else { return raw("{}".to_owned()) };
        if text.len() > LARGEST {
            return Err(format!("{} has {} bytes; the limit is {LARGEST}", self.column(place), text.len()));
        }
        if self.type_of(place) == BYTEA {
            return opaque(text, headers).ok_or_else(|| format!("{} is not the text of bytes", self.column(place)));
        }
        match RawValue::from_string(text.trim().to_owned()) {
            Ok(json) => Ok(storable("payload", &json)?.to_owned()),
            Err(_) => raw(serde_json::Value::from(text).to_string()),
        }
    }

    fn headers(&self, places: &Places) -> Result<Headers, String> {
        let mut headers = Headers::new();
        if let Some(place) = places.headers
            && let Some(text) = self.text(place)?
        {
            let json = RawValue::from_string(text.trim().to_owned()).ok().filter(|json| json.get().starts_with('{'));
            let json = json.ok_or_else(|| format!("{} is not a JSON object", self.column(place)))?;
            headers = read_headers(Some(storable("headers", &json)?.get()));
        }
        for (place, name) in &places.header_columns {
            if let Some(text) = self.text(*place)? {
                headers.insert(name.clone(), text.to_owned());
            }
        }
        if let Some(place) = places.trace
            && let Ok(Some(text)) = self.text(place)
        {
            continue_trace(text, &mut headers);
        }
        Ok(headers)
    }

    /// Returns the time of a row; `None` without one that can be read.
    fn moment(&self, place: usize) -> Option<DateTime<Utc>> {
        let text = self.text(place).ok()??;
        if NUMBERS.contains(&self.type_of(place)) {
            return DateTime::from_timestamp_millis(text.parse().ok()?);
        }
        let local = || NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M:%S%.f").ok();
        let day = || NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?.and_hms_opt(0, 0, 0);
        DateTime::parse_from_str(text, "%Y-%m-%d %H:%M:%S%.f%#z")
            .or_else(|_| DateTime::parse_from_rfc3339(text))
            .map(|moment| moment.to_utc())
            .ok()
            .or_else(|| local().or_else(day).map(|moment| moment.and_utc()))
    }
}

fn raw(json: String) -> Result<Box<RawValue>, String> {
    RawValue::from_string(json).map_err(|error| error.to_string())
}

/// Returns bytes, which PostgreSQL writes in hexadecimal digits, as a payload that is not JSON: a string of Base64 and a header with
/// its type.
fn opaque(text: &str, headers: &mut Headers) -> Option<Box<RawValue>> {
    use base64::Engine as _;
    let digits = text.strip_prefix("\\x")?.as_bytes();
    let digit = |digit: u8| char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let bytes: Option<Vec<u8>> = digits
        .chunks(2)
        .map(|pair| match pair {
            [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
            _ => None,
        })
        .collect();
    let base64 = base64::engine::general_purpose::STANDARD.encode(bytes?);
    headers.entry(CONTENT_TYPE.to_owned()).or_insert_with(|| "application/octet-stream".to_owned());
    raw(serde_json::Value::from(base64).to_string()).ok()
}

/// Adds the trace context of a text in the form of Java's properties, unless the headers have one.
fn continue_trace(text: &str, headers: &mut Headers) {
    if headers.contains_key(TRACEPARENT) {
        return;
    }
    let property = |wanted: &str| {
        let lines = text.lines().filter_map(|line| line.split_once('='));
        lines.map(|(name, value)| (name.trim(), value.trim())).find(|(name, _)| *name == wanted)
    };
    let Some((_, parent)) = property(TRACEPARENT) else { return };
    if parent.parse::<SpanContext>().is_ok() {
        headers.insert(TRACEPARENT.to_owned(), parent.to_owned());
        if let Some((_, state)) = property(TRACESTATE) {
            headers.insert(TRACESTATE.to_owned(), state.replace('\\', ""));
        }
    }
}

/// Returns the text up to this number of bytes, cut between characters.
fn start(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

#[cfg(test)]
mod tests;
