//! Actions of people on events and destinations. Each action and its audit entry are one transaction.

use std::collections::{HashMap, HashSet};

use uuid::Uuid;

use super::get::one;
use super::{Asked, Call, Database, Row, Through, Transaction, read};
use crate::error::{DriverError, StoreError};
use crate::store::act::{Entry, Marked, REPLAY, REPLAY_OF, Replayed, Retried, key_of_replays};
use crate::store::inspect::{AuditView, PausedView, State};
use crate::store::list::{Filter, Paging};
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
    entry: Entry<'_>,
) -> Result<Vec<(Uuid, Replayed)>, DriverError> {
    let ids = &distinct(ids);
    let mut tx = store.begin(Through::People).await?;
    let (made, pending) = replay_events::<D>(&mut tx, Asked::new(ids, entry)).await?;
    write_down::<D>(&mut tx, entry, "replay", made.len()).await?;
    wake_relays::<D>(&mut tx, made.len()).await?;
    tx.commit().await?;
    Ok(replayed(ids, &made, &pending))
}

/// Emits events again. Returns the new id of each replayed event, and the ids of events that are still pending.
pub(super) async fn replay_events<D: Database>(
    tx: &mut D::Tx,
    asked: Asked<'_>,
) -> Result<(HashMap<Uuid, Uuid>, HashSet<Uuid>), DriverError> {
    let call = Call::new(D::statements().replay_keys).bind(asked.ids).bind(asked.unchanged_since);
    let mut pending = HashSet::new();
    let mut open = Vec::new();
    for row in tx.rows(call).await? {
        let id = row.id("id")?;
        if row.text("status")? == "pending" {
            pending.insert(id);
        } else {
            open.push((id, Uuid::now_v7(), key_of_replays(&row.text("idempotency_key")?)));
        }
    }
    Ok((write_replays::<D>(tx, open).await?, pending))
}

/// Writes new events for old ones and returns their ids. `open` holds the old id, the new id and the key without a number.
async fn write_replays<D: Database>(
    tx: &mut D::Tx,
    mut open: Vec<(Uuid, Uuid, String)>,
) -> Result<HashMap<Uuid, Uuid>, DriverError> {
    let mut made = HashMap::new();
    let mut in_vain = 0;
    // Events that share a key with each other, or with a concurrent replay, wait for the next round.
    while !open.is_empty() {
        let call = Call::new(D::statements().replay)
            .bind(open.iter().map(|(id, ..)| *id).collect::<Vec<_>>())
            .bind(open.iter().map(|(_, new_id, _)| *new_id).collect::<Vec<_>>())
            .bind(open.iter().map(|(.., key)| key.clone()).collect::<Vec<_>>())
            .bind(REPLAY)
            .bind(REPLAY_OF);
        let rows = tx.rows(call).await?;
        let written = rows.iter().map(|row| row.id("id")).collect::<Result<HashSet<Uuid>, _>>()?;
        // A concurrent replay has taken exactly these numbers.
        in_vain += usize::from(written.is_empty());
        if in_vain > ROUNDS_IN_VAIN {
            break;
        }
        made.extend(open.iter().filter(|row| written.contains(&row.1)).map(|row| (row.0, row.1)));
        open.retain(|row| !written.contains(&row.1));
    }
    Ok(made)
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
