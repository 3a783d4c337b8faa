//! What people decide about an outbox on PostgreSQL, and who did what.

use super::moment::Moment;
use super::{PostgresStore, limit};
use crate::store::inspect::{AuditView, PausedView};

impl PostgresStore {
    /// Answers whether that changed anything; only then it is written down.
    pub(super) async fn set_paused(&self, destination: &str, who: &str, paused: bool) -> Result<bool, sqlx::Error> {
        let statement = if paused {
            include_str!("../../../sql/postgres/pause.sql")
        } else {
            include_str!("../../../sql/postgres/resume.sql")
        };
        let written = self.schema.query(statement).bind(destination).bind(who).execute(&self.pool).await?;
        Ok(written.rows_affected() > 0)
    }

    pub(super) async fn read_pauses(&self) -> Result<Vec<PausedView>, sqlx::Error> {
        let rows: Vec<(String, Moment, String)> =
            self.schema.query_as(include_str!("../../../sql/postgres/paused.sql")).fetch_all(&self.pool).await?;
        let view = |(destination, paused_at, paused_by): (_, Moment, _)| PausedView {
            destination,
            paused_at: paused_at.shown(),
            paused_by,
        };
        Ok(rows.into_iter().map(view).collect())
    }

    pub(super) async fn read_audit(&self, before: Option<i64>, most: usize) -> Result<Vec<AuditView>, sqlx::Error> {
        type Columns = (i64, Moment, String, String, String, Option<i64>);
        let rows: Vec<Columns> = self
            .schema
            .query_as(include_str!("../../../sql/postgres/audit.sql"))
            .bind(before)
            .bind(limit(most))
            .fetch_all(&self.pool)
            .await?;
        let view = |(id, done_at, who, what, target, events): Columns| AuditView {
            id,
            done_at: done_at.shown(),
            who,
            what,
            target,
            events: events.map(i64::unsigned_abs),
        };
        Ok(rows.into_iter().map(view).collect())
    }
}
