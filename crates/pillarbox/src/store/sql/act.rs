//! Actions of people on events and destinations. Each action and its audit entry are one transaction.

use std::collections::{HashMap, HashSet};

use uuid::Uuid;

use super::get::one;
use super::{Asked, Call, Database, Row, Through, Transaction, read, routed};
use crate::error::{DriverError, StoreError};
use crate::event::Status;
use crate::route::OfKind;
use crate::store::act::{Entry, Marked, REPLAY, REPLAY_OF, REPLAY_TO, Replayed, Retried, key_of_replays};
use crate::store::inspect::{AuditView, PausedView, State};
use crate::store::list::{Filter, Paging, ToDestination};
use crate::store::row::{answers, distinct, kept, replayed};

/// The number of rounds in which others may take the replay keys first.
const ROUNDS_IN_VAIN: usize = 5;

pub(super) async fn retry<D: Database>(
    store: &D,
    ids: &[Uuid],
    entry: Entry<'_>,
) -> Result<Vec<(Uuid, Retried)>, DriverError> {
    let ids = &distinct(ids);
    let mut tx = store.begin(Through::People).await?;
    let told = store.retry_events(&mut tx, Asked::new(ids, entry)).await?;
    let answers = answers(ids, &told, Retried::of);
    let due = answers.iter().filter(|(_, answer)| *answer == Retried::Due).count();
    write_down::<D>(&mut tx, entry, "retry", due).await?;
    wake_relays::<D>(&mut tx, due).await?;
    tx.commit().await?;
    Ok(answers)
}

pub(super) async fn fail<D: Database>(
    store: &D,
    ids: &[Uuid],
    reason: &str,
    entry: Entry<'_>,
) -> Result<Vec<(Uuid, Marked)>, DriverError> {
    let ids = &distinct(ids);
    let mut tx = store.begin(Through::People).await?;
    let told = store.fail_events(&mut tx, Asked::new(ids, entry), &kept(reason)).await?;
    let answers = answers(ids, &told, Marked::of);
    let failed = answers.iter().filter(|(_, answer)| *answer == Marked::Failed).count();
    write_down::<D>(&mut tx, entry, "fail", failed).await?;
    tx.commit().await?;
    Ok(answers)
}

pub(super) async fn replay<D: Database>(
    store: &D,
    ids: &[Uuid],
    only: Option<&ToDestination>,
    entry: Entry<'_>,
) -> Result<Vec<(Uuid, Replayed)>, DriverError> {
    let ids = &distinct(ids);
    let mut tx = store.begin(Through::People).await?;
    let (made, refused) = replay_events::<D>(&mut tx, Asked::new(ids, entry), only).await?;
    write_down::<D>(&mut tx, entry, "replay", made.len()).await?;
    wake_relays::<D>(&mut tx, made.len()).await?;
    tx.commit().await?;
    Ok(replayed(ids, &made, &refused))
}

/// An event that is to be emitted again.
struct Again {
    id: Uuid,
    new_id: Uuid,
    /// The key without the number of a replay.
    key: String,
    /// The destinations that the replay leaves out.
    others: Vec<String>,
}

/// Emits events again. Returns the new id of each replayed event, and why others were refused.
pub(super) async fn replay_events<D: Database>(
    tx: &mut D::Tx,
    asked: Asked<'_>,
    only: Option<&ToDestination>,
) -> Result<(HashMap<Uuid, Uuid>, HashMap<Uuid, Replayed>), DriverError> {
    let call = Call::new(D::statements().replay_keys).bind(asked.ids).bind(asked.unchanged_since);
    let mut refused = HashMap::new();
    let mut open = Vec::new();
    let rows = tx.rows(call).await?;
    let mut others = others::<D>(tx, only, &rows).await?;
    for row in rows {
        let id = row.id("id")?;
        let others = others.remove(&id).flatten();
        if row.text("status")? == "pending" {
            refused.insert(id, Replayed::Pending);
        } else if let Some(others) = others {
            let key = key_of_replays(&row.text("idempotency_key")?);
            open.push(Again { id, new_id: Uuid::now_v7(), key, others });
        } else {
            refused.insert(id, Replayed::NotRouted);
        }
    }
    Ok((write_replays::<D>(tx, open, only.map(|only| only.name.as_str())).await?, refused))
}

/// Returns for each event the destinations that its replay leaves out; `None` for an event that is not routed to the only one.
async fn others<D: Database>(
    tx: &mut D::Tx,
    only: Option<&ToDestination>,
    rows: &[D::Row],
) -> Result<HashMap<Uuid, Option<Vec<String>>>, DriverError> {
    let (mut others, mut by_payload) = (HashMap::new(), Vec::new());
    for row in rows {
        let id = row.id("id")?;
        let Some(only) = only else {
            others.insert(id, Some(Vec::new()));
            continue;
        };
        match only.routes.of_kind(&row.text("event_type")?, &row.text("aggregate_type")?) {
            OfKind::Same(all) => drop(others.insert(id, all.and_then(|all| only.beside(all)))),
            OfKind::ByPayload => by_payload.push(id),
        }
    }
    if let Some(only) = only {
        others.extend(routed::others::<D>(tx, only, &by_payload).await?);
    }
    Ok(others)
}

/// Writes new events for old ones and returns their ids.
async fn write_replays<D: Database>(
    tx: &mut D::Tx,
    mut open: Vec<Again>,
    only: Option<&str>,
) -> Result<HashMap<Uuid, Uuid>, DriverError> {
    let mut made = HashMap::new();
    let mut in_vain = 0;
    // Events that share a key with each other, or with a concurrent replay, wait for the next round.
    while !open.is_empty() {
        let call = Call::new(D::statements().replay)
            .bind(open.iter().map(|again| again.id).collect::<Vec<_>>())
            .bind(open.iter().map(|again| again.new_id).collect::<Vec<_>>())
            .bind(open.iter().map(|again| again.key.clone()).collect::<Vec<_>>())
            .bind(REPLAY)
            .bind(REPLAY_OF)
            .bind(REPLAY_TO)
            .bind(only);
        let rows = tx.rows(call).await?;
        let written = rows.iter().map(|row| row.id("id")).collect::<Result<HashSet<Uuid>, _>>()?;
        // A concurrent replay has taken exactly these numbers.
        in_vain += usize::from(written.is_empty());
        if in_vain > ROUNDS_IN_VAIN {
            break;
        }
        let (done, left): (Vec<Again>, Vec<Again>) =
            open.into_iter().partition(|again| written.contains(&again.new_id));
        if let Some(only) = only {
            leave_out::<D>(tx, &done, only).await?;
        }
        made.extend(done.into_iter().map(|again| (again.id, again.new_id)));
        open = left;
    }
    Ok(made)
}

/// Writes the destinations of new events, of which only one is open. An event with no other destination needs no rows.
async fn leave_out<D: Database>(tx: &mut D::Tx, done: &[Again], only: &str) -> Result<(), DriverError> {
    let (mut ids, mut destinations, mut statuses) = (Vec::new(), Vec::new(), Vec::new());
    for again in done.iter().filter(|again| !again.others.is_empty()) {
        let others = again.others.iter().map(|other| (other.as_str(), Status::Delivered));
        for (destination, status) in others.chain([(only, Status::Pending)]) {
            ids.push(again.new_id);
            destinations.push(destination.to_owned());
            statuses.push(status.to_string());
        }
    }
    if !ids.is_empty() {
        let call = Call::new(D::statements().replay_deliveries).bind(ids).bind(destinations).bind(statuses);
        tx.done(call).await?;
    }
    Ok(())
}

/// Returns the oldest dead letters that the filter matches.
pub(super) async fn failed_ids<D: Database>(store: &D, filter: &Filter, most: usize) -> Result<Vec<Uuid>, StoreError> {
    let filter = Filter { state: Some(State::Failed), ..filter.clone() };
    let mut ids = Vec::new();
    let mut paging = Paging { limit: most, oldest_first: true, ..Paging::default() };
    while ids.len() < most {
        paging.limit = most - ids.len();
        let page = super::list::page(store, &filter, &paging).await?;
        ids.extend(page.events.iter().map(|event| event.id));
        paging.after = page.next;
        if paging.after.is_none() {
            break;
        }
    }
    Ok(ids)
}

/// Pauses or resumes a destination, and returns whether that changed anything.
pub(super) async fn set_paused<D: Database>(
    store: &D,
    destination: &str,
    who: &str,
    paused: bool,
) -> Result<bool, DriverError> {
    let sql = D::statements();
    let mut tx = store.begin(Through::People).await?;
    let (what, call) = if paused {
        ("pause", Call::new(sql.pause).bind(destination).bind(who))
    } else {
        ("resume", Call::new(sql.resume).bind(destination))
    };
    let is_new = tx.done(call).await? > 0;
    if is_new {
        tx.rows(audit_line::<D>(who, what, destination, None)).await?;
    }
    tx.commit().await?;
    Ok(is_new)
}

pub(super) async fn pauses<D: Database>(store: &D) -> Result<Vec<PausedView>, DriverError> {
    store.rows(Through::People, Call::new(D::statements().paused)).await?.iter().map(read::pause).collect()
}

pub(super) async fn audit<D: Database>(
    store: &D,
    before: Option<i64>,
    most: usize,
) -> Result<Vec<AuditView>, DriverError> {
    let call = Call::new(D::statements().audit).bind(before).bind(most);
    store.rows(Through::People, call).await?.iter().map(read::audit).collect()
}

/// Begins an audit entry that batches add to.
pub(super) async fn open_entry<D: Database>(
    store: &D,
    who: &str,
    what: &str,
    target: &str,
) -> Result<i64, DriverError> {
    one(store.rows(Through::People, audit_line::<D>(who, what, target, Some(0))).await?)?.number("id")
}

/// Adds an action to the audit. An action that changed nothing leaves no entry.
pub(super) async fn write_down<D: Database>(
    tx: &mut D::Tx,
    entry: Entry<'_>,
    what: &str,
    events: usize,
) -> Result<(), DriverError> {
    if events == 0 {
        return Ok(());
    }
    let call = match entry {
        Entry::Anew { who, target } => audit_line::<D>(who, what, target, Some(super::limit(events))),
        Entry::Adding { line, .. } => Call::new(D::statements().audit_add).bind(line).bind(events),
    };
    tx.done(call).await.map(drop)
}

pub(super) fn audit_line<D: Database>(who: &str, what: &str, target: &str, events: Option<i64>) -> Call {
    Call::new(D::statements().audit_write).bind(who).bind(what).bind(kept(target).into_owned()).bind(events)
}

/// Wakes idle relays if events are due, so that polling need not find them.
pub(super) async fn wake_relays<D: Database>(tx: &mut D::Tx, due: usize) -> Result<(), DriverError> {
    match D::WAKE {
        Some(wake) if due > 0 => tx.done(Call::new(wake)).await.map(drop),
        _ => Ok(()),
    }
}
