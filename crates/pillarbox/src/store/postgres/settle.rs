//! Settle on PostgreSQL: one transaction, in the common case with one statement, for the rows of the events.

use std::collections::HashSet;

use sqlx::postgres::PgConnection;
use uuid::Uuid;

use super::PostgresStore;
use crate::delivery::Change;
use crate::store::Settlement;
use crate::store::row::{self, ATTEMPTS_KEPT, Written};

impl PostgresStore {
    /// Answers the events whose lease was still ours.
    pub(super) async fn settle_batch(
        &self,
        settlements: &[Settlement],
        delete: bool,
    ) -> Result<HashSet<Uuid>, sqlx::Error> {
        let (gone, kept): (Vec<&Settlement>, Vec<&Settlement>) =
            settlements.iter().partition(|settlement| delete && settlement.verdict().change == Change::Deliver);
        let mut tx = self.pool.begin().await?;
        let settled = self.settle_events(&mut tx, &gone, &kept).await?;
        self.settle_deliveries(&mut tx, &kept, &settled).await?;
        self.settle_attempts(&mut tx, &kept, &settled).await?;
        tx.commit().await?;
        Ok(settled)
    }

    async fn settle_events(
        &self,
        connection: &mut PgConnection,
        gone: &[&Settlement],
        kept: &[&Settlement],
    ) -> Result<HashSet<Uuid>, sqlx::Error> {
        let mut settled = HashSet::with_capacity(gone.len() + kept.len());
        if !gone.is_empty() {
            let (ids, tokens): (Vec<Uuid>, Vec<Uuid>) =
                gone.iter().map(|settlement| (settlement.ticket().id, settlement.ticket().token)).unzip();
            let rows: Vec<Uuid> = self
                .schema
                .query_scalar(include_str!("../../../sql/postgres/settle_delete.sql"))
                .bind(ids)
                .bind(tokens)
                .fetch_all(&mut *connection)
                .await?;
            settled.extend(rows);
        }
        if !kept.is_empty() {
            let rows: Vec<Written> = kept.iter().map(|settlement| Written::of(settlement)).collect();
            let written: Vec<Uuid> = self
                .schema
                .query_scalar(include_str!("../../../sql/postgres/settle.sql"))
                .bind(rows.iter().map(|row| row.ticket.id).collect::<Vec<_>>())
                .bind(rows.iter().map(|row| row.ticket.token).collect::<Vec<_>>())
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

    async fn settle_deliveries(
        &self,
        connection: &mut PgConnection,
        kept: &[&Settlement],
        settled: &HashSet<Uuid>,
    ) -> Result<(), sqlx::Error> {
        let rows: Vec<_> = kept
            .iter()
            .filter(|settlement| settled.contains(&settlement.ticket().id))
            .flat_map(|settlement| settlement.verdict().deliveries.iter().map(|row| (settlement.ticket().id, row)))
            .collect();
        if rows.is_empty() {
            return Ok(());
        }
        self.schema
            .query(include_str!("../../../sql/postgres/settle_deliveries.sql"))
            .bind(rows.iter().map(|(id, _)| *id).collect::<Vec<_>>())
            .bind(rows.iter().map(|(_, row)| row.destination.as_str()).collect::<Vec<_>>())
            .bind(rows.iter().map(|(_, row)| row.status.as_str()).collect::<Vec<_>>())
            .bind(rows.iter().map(|(_, row)| row.attempts.cast_signed()).collect::<Vec<_>>())
            .bind(rows.iter().map(|(_, row)| row.due_in.as_secs_f64()).collect::<Vec<_>>())
            .bind(rows.iter().map(|(_, row)| row::kept(&row.error)).collect::<Vec<_>>())
            .execute(connection)
            .await?;
        Ok(())
    }

    async fn settle_attempts(
        &self,
        connection: &mut PgConnection,
        kept: &[&Settlement],
        settled: &HashSet<Uuid>,
    ) -> Result<(), sqlx::Error> {
        let rows: Vec<_> = kept
            .iter()
            .filter(|settlement| settled.contains(&settlement.ticket().id))
            .flat_map(|settlement| settlement.attempts())
            .collect();
        if rows.is_empty() {
            return Ok(());
        }
        self.schema
            .query(include_str!("../../../sql/postgres/settle_attempts.sql"))
            .bind(rows.iter().map(|row| row.event_id).collect::<Vec<_>>())
            .bind(rows.iter().map(|row| row.destination).collect::<Vec<_>>())
            .bind(rows.iter().map(|row| row.took_ms).collect::<Vec<_>>())
            .bind(rows.iter().map(|row| row.status_code).collect::<Vec<_>>())
            .bind(rows.iter().map(|row| row.error.as_ref()).collect::<Vec<&str>>())
            .bind(rows.iter().map(|row| row.answer.as_deref()).collect::<Vec<_>>())
            .bind(rows.iter().map(|row| row.position).collect::<Vec<_>>())
            .bind(ATTEMPTS_KEPT)
            .execute(connection)
            .await?;
        Ok(())
    }
}
