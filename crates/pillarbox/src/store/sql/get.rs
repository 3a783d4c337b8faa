//! One event with all its details, and the counts of the outbox.

use uuid::Uuid;

use super::{Call, Database, Row, Through, Transaction, parking, read};
use crate::delivery::UNROUTED;
use crate::emit::{self, Emitted};
use crate::error::{DriverError, EmitError, StoreError};
use crate::event::Event;
use crate::store::act::Entry;
use crate::store::inspect::{AttemptView, Counts, Depth, EventDetail, Waiting};
use crate::store::row::seconds;
use crate::store::sql::{act, database};

pub(super) async fn detail<D: Database>(store: &D, id: Uuid) -> Result<Option<EventDetail>, DriverError> {
    let sql = D::statements();
    let of_event = |text| store.rows(Through::People, Call::new(text).bind(id));
    let Some(row) = of_event(sql.get).await?.into_iter().next() else { return Ok(None) };
    let deliveries = of_event(sql.get_deliveries).await?;
    let attempts = of_event(sql.get_attempts).await?;
    let attempts: Vec<AttemptView> = attempts.iter().map(read::attempt).collect::<Result<_, _>>()?;
    let (delivered_attempts, failed_attempts) = attempts.into_iter().partition(|attempt| attempt.delivered);
    Ok(Some(EventDetail {
        deliveries: deliveries.iter().map(read::delivery).collect::<Result<_, _>>()?,
        failed_attempts,
        delivered_attempts,
        ..read::detail(&row)?
    }))
}

pub(super) async fn counts<D: Database>(store: &D) -> Result<Counts, DriverError> {
    let sql = D::statements();
    let row = one(store.rows(Through::People, Call::new(sql.counts)).await?)?;
    let parked = store.rows(Through::People, Call::new(sql.counts_parked)).await?;
    Ok(Counts {
        due: row.count("due")?,
        scheduled: row.count("scheduled")?,
        sending: row.count("sending")?,
        parked: parked.iter().map(read::parked).collect::<Result<_, _>>()?,
        delivered: row.count("delivered")?,
        failed: row.count("failed")?,
        oldest_due: row.maybe_float("oldest_due")?.map(seconds),
        relays: super::fleet::relays(store).await?,
    })
}

pub(super) async fn depth<D: Database>(store: &D) -> Result<Depth, DriverError> {
    let call = Call::new(D::statements().depth).bind(Depth::EXACT);
    let row = one(store.rows(Through::Index, call).await?)?;
    // The database's last estimate of the index size. A database without estimates has no such column.
    let once = |name: &str| Ok::<_, DriverError>(row.maybe_float(name)?.unwrap_or_default());
    let told = |name: &str, known: &str| Ok::<_, DriverError>(Depth::told(row.count(name)?, once(known)?));
    let (due, scheduled, sending) = (told("due", "due_once")?, row.count("scheduled")?, row.count("sending")?);
    let cut_short = scheduled + sending >= Depth::EXACT;
    let later = once("due_once")? - due as f64 - sending as f64;
    Ok(Depth {
        due,
        scheduled: if cut_short { scheduled.max(later.max(0.0) as u64) } else { scheduled },
        sending,
        parked: told("parked", "parked_once")?,
        failed: told("failed", "failed_once")?,
        oldest_due: row.maybe_float("oldest_due")?.map(seconds),
    })
}

/// Returns the waiting events by the name that they wait for. The cost is bounded: at most [`Waiting::NAMES`] names are counted,
/// each up to its share of a budget.
pub(super) async fn waiting<D: Database>(store: &D) -> Result<Vec<Waiting>, DriverError> {
    let mut names = parking::parked_on(store).await?;
    names.sort_by_key(|name| name != UNROUTED);
    names.truncate(Waiting::NAMES);
    let most = (10 * Depth::EXACT / names.len().max(1) as u64).min(Depth::EXACT);
    let mut all = Vec::with_capacity(names.len());
    for name in names {
        let call = Call::new(D::statements().waiting).bind(name.as_str()).bind(most);
        let row = one(store.rows(Through::Index, call).await?)?;
        all.push(read::waiting(&row, name, most)?);
    }
    // The last event may have left since the names were read.
    all.retain(|waiting| waiting.count > 0);
    Ok(all)
}

/// Returns the number of due events that no relay holds.
pub(in crate::store) async fn remaining<D: Database>(store: &D) -> Result<u64, StoreError> {
    let rows = store.rows(Through::People, Call::new(D::statements().remaining)).await;
    rows.and_then(|rows| one(rows)?.count("remaining")).map_err(database("counting due events"))
}

/// Emits in a transaction of its own, and adds an audit entry when `who` is given and the event is new.
pub(super) async fn emit<D: Database>(
    store: &D,
    event: Event,
    once: bool,
    who: Option<&str>,
) -> Result<Emitted, StoreError> {
    let mut tx = store.begin_to_emit().await.map_err(database("beginning a transaction"))?;
    let emitted = if once { emit::emit_once(&mut tx, event).await } else { emit::emit(&mut tx, event).await }?;
    if let Some(who) = who.filter(|_| emitted.is_new) {
        let entry = Entry::Anew { who, target: &format!("{} {}", emitted.event_type, emitted.id) };
        act::write_down::<D>(&mut tx, entry, "emit", 1).await.map_err(database("writing the audit"))?;
    }
    tx.commit().await.map_err(EmitError::Driver)?;
    Ok(emitted)
}

/// Returns the row of a statement that always returns one.
pub(super) fn one<R>(rows: Vec<R>) -> Result<R, DriverError> {
    rows.into_iter().next().ok_or_else(|| "the statement returned no row".into())
}
