//! Settle on PostgreSQL: one transaction, in the common case with one statement for the rows of the events.

use std::collections::{BTreeMap, HashSet};

use uuid::Uuid;

use super::error::Error;
use super::link::Link;
use super::statement::{PgQuery, Runs};
use super::{PostgresStore, SQL};
use crate::delivery::Change;
use crate::store::row::{self, ATTEMPTS_KEPT, Written};
use crate::store::{Settlement, Ticket};

/// The condition under which an event may be settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fence {
    /// This transaction has locked the event.
    Lock,
    /// The row contains the token of the lease.
    Lease,
    /// The event was locked by a transaction that broke, and no other claim has taken it since.
    Unclaimed,
}

impl PostgresStore {
    /// Settles the events whose claim still holds them, and returns their ids.
    pub(super) async fn settle_batch(&self, settlements: &[Settlement], delete: bool) -> Result<HashSet<Uuid>, Error> {
        let mut settled = HashSet::with_capacity(settlements.len());
        let mut leased = Vec::new();
        let mut unheld = Vec::new();
        for claim in settlements.chunk_by(|one, next| one.ticket().token == next.ticket().token) {
            let (token, claim) = (claim[0].ticket().token, claim.iter().collect::<Vec<_>>());
            if let Some(hold) = self.holds.find(token)
                && let Some(done) = self.settle_held(&hold, &claim, delete).await?
            {
                settled.extend(done);
            } else if self.holds.is_broken(token) {
                unheld.extend(claim);
            } else {
                leased.extend(claim);
            }
        }
        settled.extend(self.settle_unheld(&unheld, Fence::Unclaimed, delete).await?);
        // It is unknown whether a transaction broke before or after its commit. After the commit, the rest of it is leased.
        leased.extend(unheld.into_iter().filter(|settlement| !settled.contains(&settlement.ticket().id)));
        settled.extend(self.settle_unheld(&leased, Fence::Lease, delete).await?);
        Ok(settled)
    }

    async fn settle_unheld(
        &self,
        settlements: &[&Settlement],
        fence: Fence,
        delete: bool,
    ) -> Result<HashSet<Uuid>, Error> {
        if settlements.is_empty() {
            return Ok(HashSet::new());
        }
        // In a fixed order, so that two settles of the same events wait for each other instead of deadlocking.
        let mut settlements = settlements.to_vec();
        settlements.sort_unstable_by_key(|settlement| settlement.ticket().id);
        let mut tx = self.pool.begin().await?;
        let settled = self.settle_in(&mut tx, &settlements, fence, delete).await?;
        tx.commit().await?;
        Ok(settled)
    }

    /// Runs the statements of a settle in the caller's transaction.
    pub(super) async fn settle_in(
        &self,
        connection: &mut Link,
        settlements: &[&Settlement],
        fence: Fence,
        delete: bool,
    ) -> Result<HashSet<Uuid>, Error> {
        let (plain, rest): (Vec<&Settlement>, Vec<&Settlement>) =
            settlements.iter().partition(|settlement| fence == Fence::Lock && settlement.is_plain_delivery());
        let (parked, rest): (Vec<&Settlement>, Vec<&Settlement>) =
            rest.iter().partition(|settlement| fence == Fence::Lock && settlement.plain_park().is_some());
        let (gone, kept): (Vec<&Settlement>, Vec<&Settlement>) =
            rest.iter().partition(|settlement| delete && settlement.verdict().change == Change::Deliver);
        let mut settled = self.settle_events(connection, &gone, &kept, fence).await?;
        self.settle_deliveries(connection, &kept, &settled).await?;
        self.settle_attempts(connection, &kept, &settled).await?;
        settled.extend(self.settle_parked(connection, &parked).await?);
        settled.extend(self.settle_plain(connection, &plain, delete).await?);
        Ok(settled)
    }

    /// Settles plain deliveries. Rows that this transaction has locked need no fence.
    async fn settle_plain(
        &self,
        connection: &mut Link,
        plain: &[&Settlement],
        delete: bool,
    ) -> Result<Vec<Uuid>, Error> {
        if plain.is_empty() {
            return Ok(Vec::new());
        }
        let ids: Vec<Uuid> = plain.iter().map(|settlement| settlement.ticket().id).collect();
        connection.done(self.plain_deliveries(&ids, delete)).await?;
        Ok(ids)
    }

    /// Returns the statement that settles plain deliveries.
    pub(super) fn plain_deliveries(&self, ids: &[Uuid], delete: bool) -> PgQuery {
        let statement = if delete { SQL.hold_delete } else { SQL.hold_deliver };
        self.kept_query(statement).bind(ids).into_query()
    }

    /// Settles plain parks in the same way. They are most of a claim while a destination is down or slow.
    async fn settle_parked(&self, connection: &mut Link, parked: &[&Settlement]) -> Result<Vec<Uuid>, Error> {
        let mut groups: BTreeMap<(&str, &str), Vec<Uuid>> = BTreeMap::new();
        for settlement in parked {
            if let Some(park) = settlement.plain_park() {
                groups.entry(park).or_default().push(settlement.ticket().id);
            }
        }
        for ((on, error), ids) in &groups {
            self.kept_query(SQL.hold_park).bind(ids).bind(on).bind(row::kept(error)).execute(&mut *connection).await?;
        }
        Ok(groups.into_values().flatten().collect())
    }

    async fn settle_events(
        &self,
        connection: &mut Link,
        gone: &[&Settlement],
        kept: &[&Settlement],
        fence: Fence,
    ) -> Result<HashSet<Uuid>, Error> {
        let token = |ticket: Ticket| (fence == Fence::Lease).then_some(ticket.token);
        let mut settled = HashSet::with_capacity(gone.len() + kept.len());
        if !gone.is_empty() {
            let (ids, tokens): (Vec<Uuid>, Vec<Option<Uuid>>) =
                gone.iter().map(|settlement| (settlement.ticket().id, token(settlement.ticket()))).unzip();
            let rows: Vec<Uuid> =
                self.schema.query_scalar(SQL.settle_delete).bind(ids).bind(tokens).fetch_all(&mut *connection).await?;
            settled.extend(rows);
        }
        if !kept.is_empty() {
            let rows: Vec<Written> = kept.iter().map(|settlement| Written::of(settlement)).collect();
            let written: Vec<Uuid> = self
                .schema
                .query_scalar(SQL.settle)
                .bind(rows.iter().map(|row| row.ticket.id).collect::<Vec<_>>())
                .bind(rows.iter().map(|row| token(row.ticket)).collect::<Vec<_>>())
                .bind(rows.iter().map(|row| row.change).collect::<Vec<_>>())
                .bind(rows.iter().map(|row| row.attempts).collect::<Vec<_>>())
                .bind(rows.iter().map(|row| row.after).collect::<Vec<_>>())
                .bind(rows.iter().map(|row| row.parked_on).collect::<Vec<_>>())
                .bind(rows.iter().map(|row| row.error.as_ref()).collect::<Vec<&str>>())
                .fetch_all(connection)
                .await?;
            settled.extend(written);
        }
        Ok(settled)
    }

    pub(super) async fn settle_deliveries(
        &self,
        connection: &mut Link,
        kept: &[&Settlement],
        settled: &HashSet<Uuid>,
    ) -> Result<(), Error> {
        let rows: Vec<_> = kept
            .iter()
            .filter(|settlement| settled.contains(&settlement.ticket().id))
            .flat_map(|settlement| settlement.verdict().deliveries.iter().map(|row| (settlement.ticket().id, row)))
            .collect();
        if rows.is_empty() {
            return Ok(());
        }
        self.schema
            .query(SQL.settle_deliveries)
            .bind(rows.iter().map(|(id, _)| *id).collect::<Vec<_>>())
            .bind(rows.iter().map(|(_, row)| row.destination.as_str()).collect::<Vec<_>>())
            .bind(rows.iter().map(|(_, row)| row.status.as_str()).collect::<Vec<_>>())
            .bind(rows.iter().map(|(_, row)| row.attempts.cast_signed()).collect::<Vec<_>>())
            .bind(rows.iter().map(|(_, row)| row.due_in.as_secs_f64()).collect::<Vec<_>>())
            .bind(rows.iter().map(|(_, row)| row::kept(&row.error)).collect::<Vec<_>>())
            .bind(rows.iter().map(|(_, row)| row.parked).collect::<Vec<_>>())
            .execute(connection)
            .await?;
        Ok(())
    }

    pub(super) async fn settle_attempts(
        &self,
        connection: &mut Link,
        kept: &[&Settlement],
        settled: &HashSet<Uuid>,
    ) -> Result<(), Error> {
        let rows: Vec<_> = kept
            .iter()
            .filter(|settlement| settled.contains(&settlement.ticket().id))
            .flat_map(|settlement| settlement.attempts())
            .collect();
        if rows.is_empty() {
            return Ok(());
        }
        self.schema
            .query(SQL.settle_attempts)
            .bind(rows.iter().map(|row| row.event_id).collect::<Vec<_>>())
            .bind(rows.iter().map(|row| row.destination).collect::<Vec<_>>())
            .bind(rows.iter().map(|row| row.took_ms).collect::<Vec<_>>())
            .bind(rows.iter().map(|row| row.status_code).collect::<Vec<_>>())
            .bind(rows.iter().map(|row| row.error.as_ref()).collect::<Vec<&str>>())
            .bind(rows.iter().map(|row| row.answer.as_deref()).collect::<Vec<_>>())
            .bind(rows.iter().map(|row| row.position).collect::<Vec<_>>())
            .bind(ATTEMPTS_KEPT)
            .bind(rows.iter().map(|row| row.delivered).collect::<Vec<_>>())
            .execute(connection)
            .await?;
        Ok(())
    }
}
