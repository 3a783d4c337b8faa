//! Claim with `order = "aggregate"`: reads a page of due events without locks, finds the first event of each aggregate that must be
//! sent first, and locks the events before it. The line is computed here; the servers have no statement that could do it all.

use std::collections::HashMap;

use chrono::NaiveDateTime;
use serde_json::json;
use sqlx::Row as _;
use sqlx::mysql::MySqlRow;

use super::SQL;
use super::claim::{Locked, page_call};
use super::database::Tx;
use super::moment::Place;
use crate::error::DriverError;
use crate::store::sql::{Call, Row, Transaction};
use crate::store::walk::{Page, Step};
use crate::store::{Ask, OnFailed};

/// A due event of a page.
#[derive(Debug)]
struct Seen {
    at: NaiveDateTime,
    seq: i64,
    /// The number of its aggregate within the page.
    aggregate: usize,
}

/// Locks the events of a page that may be sent, in the order of their turns.
pub(super) async fn lock_free(
    tx: &mut Tx,
    ask: Ask<'_>,
    step: &Step<Place>,
    on_failed: OnFailed,
) -> Result<(Vec<Locked>, Page<Place>), DriverError> {
    let seen = read_page(&tx.rows(page_call(SQL.claim_ordered, step.rows, ask, step)).await?)?;
    let until = seen.iter().map(|event| (event.at, event.seq)).max();
    let mut page = Page { seen: seen.len(), free: 0, taken: 0, until, full: seen.len() >= step.rows };
    if seen.is_empty() {
        return Ok((Vec::new(), page));
    }
    let walls = walls(tx, &seen, ask.behind, on_failed).await?;
    let free = line(seen, &walls, ask.limit);
    page.free = free.len();
    if free.is_empty() {
        return Ok((Vec::new(), page));
    }
    let seqs = json!(free.iter().map(|event| event.seq).collect::<Vec<_>>()).to_string();
    let rows = tx.rows(Call::new(SQL.claim_free).bind(seqs).bind(ask.losses_below())).await?;
    let turns: HashMap<i64, NaiveDateTime> = free.iter().map(|event| (event.seq, event.at)).collect();
    let mut locked = HashMap::with_capacity(rows.len());
    for row in rows {
        let seq = row.number("seq")?;
        locked.insert(seq, Locked::read(row, turns.get(&seq).copied().unwrap_or_default())?);
    }
    Ok((unbroken(&free, locked), page))
}

fn read_page(rows: &[MySqlRow]) -> Result<Vec<Seen>, DriverError> {
    let mut aggregates = HashMap::new();
    let mut seen = Vec::with_capacity(rows.len());
    for row in rows {
        let next = aggregates.len();
        let aggregate = *aggregates.entry((row.text("aggregate_type")?, row.text("aggregate_id")?)).or_insert(next);
        seen.push(Seen { at: row.try_get_unchecked("next_attempt_at")?, seq: row.number("seq")?, aggregate });
    }
    Ok(seen)
}

/// Returns the wall of each aggregate: the first event that must be sent first and is neither on the page nor in `behind`.
async fn walls(
    tx: &mut Tx,
    seen: &[Seen],
    behind: &[i64],
    on_failed: OnFailed,
) -> Result<HashMap<usize, i64>, DriverError> {
    let mut lasts: Vec<i64> = Vec::new();
    for event in seen {
        match lasts.get_mut(event.aggregate) {
            Some(last) => *last = event.seq.max(*last),
            None => lasts.push(event.seq),
        }
    }
    let asked: Vec<_> = lasts.iter().map(|last| json!([last, last])).collect();
    let page: Vec<i64> = seen.iter().map(|event| event.seq).chain(behind.iter().copied()).collect();
    let call = Call::new(SQL.walls)
        .bind(json!(asked).to_string())
        .bind(json!(page).to_string())
        .bind(on_failed == OnFailed::Block);
    let mut walls = HashMap::new();
    for row in tx.rows(call).await? {
        let aggregate = usize::try_from(row.count("place")?).unwrap_or_default().saturating_sub(1);
        let wall = [row.maybe_number("pending")?, row.maybe_number("failed")?].into_iter().flatten().min();
        walls.extend(wall.map(|wall| (aggregate, wall)));
    }
    Ok(walls)
}

/// Returns the events before the walls, in the order of their turns. An event's turn is never before the turn of its predecessors,
/// so any prefix of the line is a prefix of each aggregate.
fn line(mut seen: Vec<Seen>, walls: &HashMap<usize, i64>, most: usize) -> Vec<Seen> {
    seen.sort_by_key(|event| (event.aggregate, event.seq));
    let mut turn: Option<(usize, NaiveDateTime)> = None;
    for event in &mut seen {
        event.at = match turn {
            Some((aggregate, at)) if aggregate == event.aggregate => event.at.max(at),
            _ => event.at,
        };
        turn = Some((event.aggregate, event.at));
    }
    seen.retain(|event| walls.get(&event.aggregate).is_none_or(|wall| event.seq < *wall));
    seen.sort_by_key(|event| (event.at, event.seq));
    seen.truncate(most);
    seen
}

/// Returns the locked events of the line. After an event that another relay has taken, no later event of its aggregate is taken.
fn unbroken(free: &[Seen], mut locked: HashMap<i64, Locked>) -> Vec<Locked> {
    let mut broken = HashMap::new();
    let mut ours = Vec::with_capacity(locked.len());
    for event in free {
        let is_broken = broken.entry(event.aggregate).or_insert(false);
        match locked.remove(&event.seq) {
            Some(locked) if !*is_broken => ours.push(locked),
            _ => *is_broken = true,
        }
    }
    ours
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::mysql::moment::EARLIEST;

    fn seen(events: &[(i64, i64, usize)]) -> Vec<Seen> {
        let event = |(at, seq, aggregate): &(i64, i64, usize)| Seen {
            at: EARLIEST + chrono::TimeDelta::seconds(*at),
            seq: *seq,
            aggregate: *aggregate,
        };
        events.iter().map(event).collect()
    }

    fn seqs(events: &[Seen]) -> Vec<i64> {
        events.iter().map(|event| event.seq).collect()
    }

    #[test]
    fn an_event_waits_for_the_turn_of_its_predecessors() {
        // The second event of aggregate 0 is due before the first.
        let line = line(seen(&[(1, 2, 0), (5, 1, 0), (3, 3, 1)]), &HashMap::new(), 10);
        assert_eq!(seqs(&line), [3, 1, 2]);
    }

    #[test]
    fn events_behind_a_wall_are_not_free() {
        let events = [(1, 1, 0), (2, 5, 0), (3, 3, 1)];
        assert_eq!(seqs(&line(seen(&events), &HashMap::from([(0, 4)]), 10)), [1, 3]);
        assert_eq!(seqs(&line(seen(&events), &HashMap::from([(0, 4)]), 1)), [1]);
    }

    #[test]
    fn nothing_is_taken_behind_an_event_that_another_relay_has() {
        let locked = |seq| (seq, Locked { place: (EARLIEST, seq), bytes: 1, losses: 0, fresh: true, row: None });
        let free = seen(&[(1, 1, 0), (2, 2, 0), (3, 3, 1), (4, 4, 0)]);
        let ours = unbroken(&free, HashMap::from([locked(1), locked(3), locked(4)]));
        assert_eq!(ours.iter().map(|event| event.place.1).collect::<Vec<_>>(), [1, 3]);
    }
}
