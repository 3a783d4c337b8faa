//! Converts rows into the values that people and relays see.

use serde_json::value::RawValue;

use super::Row;
use crate::error::DriverError;
use crate::event::{StoredEvent, read_headers};
use crate::store::dead_letters::Letter;
use crate::store::inspect::{
    AttemptView, AuditView, DeliveryView, EventDetail, EventView, Parked, PausedView, RelayView, State, Waiting,
};
use crate::store::metrics::{LaneView, Minute};
use crate::store::row::seconds;

pub(super) fn event(row: &impl Row) -> Result<StoredEvent, DriverError> {
    event_with(row, RawValue::from_string(row.text("payload")?)?)
}

/// Reads an event whose payload was read before.
pub(in crate::store) fn event_with(row: &impl Row, payload: Box<RawValue>) -> Result<StoredEvent, DriverError> {
    Ok(StoredEvent {
        id: row.id("id")?,
        seq: row.number("seq")?,
        aggregate_type: row.text("aggregate_type")?,
        aggregate_id: row.text("aggregate_id")?,
        event_type: row.text("event_type")?,
        payload,
        headers: read_headers(row.maybe_text("headers")?.as_deref()),
        idempotency_key: row.text("idempotency_key")?,
        attempts: row.small("attempts")?,
        max_attempts: max_attempts(row)?,
        claims: row.small("claims")?,
        created_at: row.moment("created_at")?,
    })
}

pub(super) fn view(row: &impl Row) -> Result<EventView, DriverError> {
    let state = row.text("state")?;
    Ok(EventView {
        id: row.id("id")?,
        seq: row.number("seq")?,
        aggregate_type: row.text("aggregate_type")?,
        aggregate_id: row.text("aggregate_id")?,
        event_type: row.text("event_type")?,
        status: row.text("status")?.parse()?,
        state: State::parse(&state).ok_or_else(|| format!("the state {state:?} is unknown"))?,
        idempotency_key: row.text("idempotency_key")?,
        attempts: row.small("attempts")?,
        max_attempts: max_attempts(row)?,
        claims: row.small("claims")?,
        next_attempt_at: row.maybe_moment("next_attempt_at")?,
        parked_on: row.maybe_text("parked_on")?,
        delivered_at: row.maybe_moment("delivered_at")?,
        error_message: row.text("error_message")?,
        failed_on: row.maybe_text("failed_on")?,
        created_at: row.moment("created_at")?,
        updated_at: row.moment("updated_at")?,
    })
}

fn max_attempts(row: &impl Row) -> Result<Option<u32>, DriverError> {
    let most = row.maybe_number("max_attempts")?;
    Ok(most.map(|most| u32::try_from(most.unsigned_abs()).unwrap_or(u32::MAX)))
}

/// Reads an event without its deliveries and attempts, which are rows of their own. A payload that is not JSON, which only
/// another program can have written, is shown as a string.
pub(super) fn detail(row: &impl Row) -> Result<EventDetail, DriverError> {
    Ok(EventDetail {
        event: view(row)?,
        payload: super::routed::payload(&row.text("payload")?)?,
        headers: read_headers(row.maybe_text("headers")?.as_deref()),
        deliveries: Vec::new(),
        failed_attempts: Vec::new(),
        delivered_attempts: Vec::new(),
    })
}

pub(super) fn delivery(row: &impl Row) -> Result<DeliveryView, DriverError> {
    Ok(DeliveryView {
        destination: row.text("destination")?,
        status: row.text("status")?.parse()?,
        attempts: row.small("attempts")?,
        next_attempt_at: row.maybe_moment("next_attempt_at")?,
        delivered_at: row.maybe_moment("delivered_at")?,
        error: row.text("error")?,
    })
}

pub(super) fn attempt(row: &impl Row) -> Result<AttemptView, DriverError> {
    Ok(AttemptView {
        number: row.small("number")?,
        destination: row.text("destination")?,
        attempted_at: row.moment("attempted_at")?,
        took_ms: row.count("took_ms")?,
        status_code: row.maybe_number("status_code")?.and_then(|code| u16::try_from(code).ok()),
        error: row.text("error")?,
        answer: row.maybe_text("answer")?,
        delivered: row.flag("delivered")?,
    })
}

pub(super) fn parked(row: &impl Row) -> Result<Parked, DriverError> {
    Ok(Parked { on: row.text("on_what")?, count: row.count("count")? })
}

pub(super) fn waiting(row: &impl Row, on: String, most: u64) -> Result<Waiting, DriverError> {
    let count = row.count("count")?;
    Ok(Waiting { on, count, at_least: count >= most, oldest: row.maybe_float("oldest")?.map(seconds) })
}

pub(super) fn letter(row: &impl Row) -> Result<Letter, DriverError> {
    Ok(Letter {
        failed_at: row.moment("updated_at")?,
        failed_on: row.maybe_text("failed_on")?,
        event_type: row.text("event_type")?,
        error: row.text("error_message")?,
    })
}

pub(super) fn minute(row: &impl Row) -> Result<Minute, DriverError> {
    Ok(Minute {
        at: row.moment("minute")?,
        destination: row.text("destination")?,
        delivered: row.count("delivered")?,
        failed: row.count("failed")?,
        given_up: row.count("given_up")?,
        latency: serde_json::from_str(&row.text("latency")?)?,
        response: serde_json::from_str(&row.text("response")?)?,
    })
}

/// Reads a relay without its lanes, which are rows of their own.
pub(super) fn relay(row: &impl Row) -> Result<RelayView, DriverError> {
    Ok(RelayView {
        id: row.id("id")?,
        host: row.text("host")?,
        started_at: row.moment("started_at")?,
        heartbeat_at: row.moment("heartbeat_at")?,
        in_flight: row.count("in_flight")?,
        idle: row.flag("idle")?,
        configuration: row.maybe_text("configuration")?,
        alive: row.flag("alive")?,
        lanes: Vec::new(),
    })
}

pub(super) fn lane(row: &impl Row) -> Result<LaneView, DriverError> {
    Ok(LaneView {
        destination: row.text("destination")?,
        paused: row.flag("paused")?,
        down: row.flag("down")?,
        limited: row.flag("limited")?,
        down_since: row.maybe_moment("down_since")?,
        probe_at: row.maybe_moment("probe_at")?,
        recovered_at: row.maybe_moment("recovered_at")?,
        queued: row.count("queued")?,
        sending: row.count("sending")?,
        last_error: row.maybe_text("last_error")?,
        last_error_at: row.maybe_moment("last_error_at")?,
    })
}

pub(super) fn pause(row: &impl Row) -> Result<PausedView, DriverError> {
    Ok(PausedView {
        destination: row.text("destination")?,
        paused_at: row.moment("paused_at")?,
        paused_by: row.text("paused_by")?,
    })
}

pub(super) fn audit(row: &impl Row) -> Result<AuditView, DriverError> {
    Ok(AuditView {
        id: row.number("id")?,
        done_at: row.moment("done_at")?,
        who: row.text("who")?,
        what: row.text("what")?,
        target: row.text("target")?,
        events: row.maybe_number("events")?.map(i64::unsigned_abs),
    })
}
