//! Claim on MariaDB and MySQL: one short transaction that locks due events, writes the lease into them and reads them. The index
//! gives the order, so that nothing but these events is locked.

use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use chrono::NaiveDateTime;
use serde_json::json;
use serde_json::value::RawValue;
use sqlx::Row as _;
use sqlx::mysql::MySqlRow;
use uuid::Uuid;

use super::connect::repeating;
use super::database::Tx;
use super::moment::{BEGINNING, Place};
use super::order::lock_free;
use super::statement::of_lease;
use super::{MysqlStore, SQL, database};
use crate::delivery::Delivery;
use crate::error::{DriverError, StoreError};
use crate::event::StoredEvent;
use crate::store::row::read_deliveries;
use crate::store::sql::{Call, Row, Transaction, read_event};
use crate::store::walk::{Page, Step};
use crate::store::{Ask, Claim, Claimed, LOSSES_BEFORE_ALONE, LOSSES_BEFORE_APART, Order};

/// A locked event.
#[derive(Debug)]
pub(super) struct Locked {
    /// Where it is in the line: when it is due, or when its turn is.
    pub(super) place: Place,
    pub(super) bytes: usize,
    pub(super) losses: u32,
    /// Whether nothing was written about the event since it was emitted.
    pub(super) fresh: bool,
    /// Its columns, without a large payload; `None` only in tests.
    pub(super) row: Option<MySqlRow>,
}

impl Locked {
    pub(super) fn read(row: MySqlRow, at: NaiveDateTime) -> Result<Self, DriverError> {
        Ok(Self {
            place: (at, row.number("seq")?),
            bytes: usize::try_from(row.count("bytes")?).unwrap_or(usize::MAX),
            losses: row.small("losses")?,
            fresh: row.flag("fresh")?,
            row: Some(row),
        })
    }
}

/// Events that were claimed, in their order, with what else a page tells.
type Taken = (Vec<(StoredEvent, Vec<Delivery>, bool)>, Page<Place>);

impl MysqlStore {
    pub(super) async fn claim_due(&self, ask: Ask<'_>) -> Result<Claim, StoreError> {
        let mut steps = self.walk.lock().begin(&ask, Instant::now());
        // The entries of settled events stay in the index while an old snapshot may see them.
        steps.trails = true;
        loop {
            let Some(step) = self.walk.lock().next(&mut steps, Instant::now()) else { return Ok(Claim::default()) };
            let (token, until) = (Uuid::new_v4(), step.began + ask.lease);
            let (events, page) = repeating!(self.claim_page(ask, &step, token)).map_err(database("claiming events"))?;
            self.walk.lock().saw(&mut steps, &step, page, Instant::now());
            if !events.is_empty() {
                let claimed = |(event, deliveries, fresh)| {
                    Claimed::new(event, deliveries, token, until, self.give_back.clone()).fresh(fresh)
                };
                return Ok(Claim::new(events.into_iter().map(claimed).collect()));
            }
        }
    }

    async fn claim_page(&self, ask: Ask<'_>, step: &Step<Place>, token: Uuid) -> Result<Taken, DriverError> {
        let mut tx = self.transaction().await?;
        let (picked, page) = match ask.order {
            Order::None => {
                let picked = pick(lock_due(&mut tx, ask, step).await?, &ask, false);
                let page = Page::taken(picked.len(), picked.last().map(|event| event.place), step);
                (picked, page)
            }
            Order::Aggregate(on_failed) => {
                let (locked, mut page) = lock_free(&mut tx, ask, step, on_failed).await?;
                let picked = pick(locked, &ask, true);
                page.taken = picked.len();
                (picked, page)
            }
        };
        if picked.is_empty() {
            tx.roll_back().await?;
            return Ok((Vec::new(), page));
        }
        Ok((take(tx, &picked, ask, token).await?, page))
    }
}

async fn lock_due(tx: &mut Tx, ask: Ask<'_>, step: &Step<Place>) -> Result<Vec<Locked>, DriverError> {
    let rows = tx.rows(page_call(SQL.claim_due, ask.limit, ask, step)).await?;
    let locked = |row: MySqlRow| {
        let at = row.try_get_unchecked("next_attempt_at")?;
        Locked::read(row, at)
    };
    rows.into_iter().map(locked).collect()
}

/// Returns a statement that reads a page of due events.
pub(super) fn page_call(text: &'static str, rows: usize, ask: Ask<'_>, step: &Step<Place>) -> Call {
    let (after, seq) = step.after.unwrap_or(BEGINNING);
    Call::new(text).bind(rows).bind(ask.losses_below()).bind(after.and_utc()).bind(seq)
}

/// Returns the events to take. A suspect is taken with events that have as many losses: 64 of them, then 8, then one. With an
/// order, the claim is a prefix of the line, so that no event is taken before an earlier event of its aggregate.
fn pick(locked: Vec<Locked>, ask: &Ask<'_>, ordered: bool) -> Vec<Locked> {
    let class = |event: &Locked| event.losses.max(LOSSES_BEFORE_APART - 1);
    let Some(first) = locked.first().map(class) else { return locked };
    let room = match first.checked_sub(LOSSES_BEFORE_APART) {
        None => usize::MAX,
        Some(more) => 64_usize >> (3 * more).min(30),
    };
    let mut bytes = 0_usize;
    let mut picked: Vec<Locked> = Vec::with_capacity(locked.len());
    for event in locked {
        if class(&event) != first {
            if ordered {
                break;
            }
            continue;
        }
        if !picked.is_empty() && (bytes >= ask.bytes || picked.len() >= room) {
            break;
        }
        bytes = bytes.saturating_add(event.bytes);
        picked.push(event);
    }
    picked
}

/// Writes the lease into locked events, commits, and returns the events. An event whose payload is not JSON, which only another
/// program can have written, becomes a dead letter: it must not stop the others.
async fn take(
    mut tx: Tx,
    picked: &[Locked],
    ask: Ask<'_>,
    token: Uuid,
) -> Result<Vec<(StoredEvent, Vec<Delivery>, bool)>, DriverError> {
    let large = large_payloads(&mut tx, picked).await?;
    let mut taken = Vec::with_capacity(picked.len());
    let mut leases: BTreeMap<u32, Vec<i64>> = BTreeMap::new();
    for event in picked {
        let seq = event.place.1;
        let Some(row) = &event.row else { continue };
        match claimed(row, large.get(&seq), event.losses)? {
            Ok((stored, deliveries)) => {
                leases.entry(counted(event.losses)).or_default().push(seq);
                taken.push((stored, deliveries, event.fresh));
            }
            Err((id, reason)) => {
                tracing::error!(event = %id, %reason, "event failed: its payload is not JSON");
                tx.done(Call::new(SQL.fail).bind(vec![id]).bind(reason)).await?;
            }
        }
    }
    let lease = |(losses, seqs): (u32, Vec<i64>)| {
        let text = SQL.claim.replace("{claims}", &losses.to_string());
        of_lease(&text.replace("{seconds}", &ask.lease.as_secs_f64().to_string()), token, &seqs)
    };
    tx.last(leases.into_iter().map(lease).collect()).await?;
    Ok(taken)
}

/// Reads the payloads that were too large to be read while it was not known which events are taken.
async fn large_payloads(tx: &mut Tx, picked: &[Locked]) -> Result<HashMap<i64, String>, DriverError> {
    let is_large = |row: &MySqlRow| row.maybe_text("payload").map(|payload| payload.is_none());
    let mut seqs = Vec::new();
    for event in picked {
        if event.row.as_ref().map(is_large).transpose()?.unwrap_or_default() {
            seqs.push(event.place.1);
        }
    }
    if seqs.is_empty() {
        return Ok(HashMap::new());
    }
    let rows = tx.rows(Call::new(SQL.claim_read).bind(json!(seqs).to_string())).await?;
    rows.iter().map(|row| Ok((row.number("seq")?, row.text("payload")?))).collect()
}

/// Returns the losses to write. For an event that is sent alone, a loss counts only after its relay reported that nothing else is
/// sent: `blame.sql`.
fn counted(losses: u32) -> u32 {
    losses - u32::from(losses >= LOSSES_BEFORE_ALONE)
}

type Read = Result<(StoredEvent, Vec<Delivery>), (Uuid, String)>;

/// Reads an event, or the reason why it cannot be sent.
fn claimed(row: &MySqlRow, large: Option<&String>, losses: u32) -> Result<Read, DriverError> {
    let payload = large.map_or_else(|| row.text("payload"), |payload| Ok(payload.clone()))?;
    let payload = match RawValue::from_string(payload) {
        Ok(payload) => payload,
        Err(error) => {
            let reason = format!("the payload is not JSON: {error}; correct it and retry the event");
            return Ok(Err((row.id("id")?, reason)));
        }
    };
    let event = StoredEvent { claims: losses, ..read_event(row, payload)? };
    let deliveries = read_deliveries(event.id, row.maybe_text("deliveries")?.as_deref())?;
    Ok(Ok((event, deliveries)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn picked(bytes: usize, ordered: bool, events: &[(usize, u32)]) -> Vec<i64> {
        let ask = Ask::new(1000, bytes, Duration::from_secs(1));
        let locked = (1..).zip(events).map(|(seq, (bytes, losses))| Locked {
            place: (BEGINNING.0, seq),
            bytes: *bytes,
            losses: *losses,
            fresh: true,
            row: None,
        });
        pick(locked.collect(), &ask, ordered).iter().map(|event| event.place.1).collect()
    }

    #[test]
    fn a_claim_ends_with_its_bytes_and_always_has_one_event() {
        assert_eq!(picked(10, false, &[(50, 0), (1, 0)]), [1]);
        assert_eq!(picked(10, false, &[(5, 0), (5, 0), (5, 0)]), [1, 2]);
        assert_eq!(picked(10, false, &[]), [0_i64; 0]);
    }

    #[test]
    fn suspects_are_taken_apart() {
        assert_eq!(picked(99, false, &[(1, 0), (1, 3), (1, 1)]), [1, 3]);
        assert_eq!(picked(99, true, &[(1, 0), (1, 3), (1, 1)]), [1]);
        assert_eq!(picked(99, false, &[(1, 4), (1, 4)]), [1]);
        assert_eq!(picked(999, false, &[(1, 2); 100]).len(), 64);
        assert_eq!(picked(999, false, &[(1, 3); 100]).len(), 8);
        assert_eq!(picked(999, false, &[(1, 30); 100]).len(), 1);
    }
}
