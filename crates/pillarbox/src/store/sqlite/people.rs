//! What people decide about an outbox in SQLite, and who did what.

use sqlx::Row;

use super::{SqliteStore, read};
use crate::store::inspect::{AuditView, PausedView};

impl SqliteStore {
    /// Answers whether that changed anything; only then it is written down.
    pub(super) async fn set_paused(&self, destination: &str, who: &str, paused: bool) -> Result<bool, sqlx::Error> {
        let (what, statement) = if paused {
            ("pause", include_str!("../../../sql/sqlite/pause.sql"))
        } else {
            ("resume", include_str!("../../../sql/sqlite/resume.sql"))
        };
        let mut tx = self.durable.begin_with("BEGIN IMMEDIATE").await?;
        let written = sqlx::query(statement).bind(destination).bind(who).execute(&mut *tx).await?;
        let is_new = written.rows_affected() > 0;
        if is_new {
            sqlx::query(include_str!("../../../sql/sqlite/audit_write.sql"))
                .bind(who)
                .bind(what)
                .bind(destination)
                .bind(None::<i64>)
                .execute(&mut *tx)
                .await?;
        }
        tx.commit().await?;
        Ok(is_new)
    }

    pub(super) async fn read_pauses(&self) -> Result<Vec<PausedView>, sqlx::Error> {
        let rows = sqlx::query(include_str!("../../../sql/sqlite/paused.sql")).fetch_all(&self.durable).await?;
        let view = |row: &sqlx::sqlite::SqliteRow| {
            Ok(PausedView {
                destination: row.try_get("destination")?,
                paused_at: read::moment(row, "paused_at")?,
                paused_by: row.try_get("paused_by")?,
            })
        };
        rows.iter().map(view).collect()
    }

    pub(super) async fn read_audit(&self, before: Option<i64>, most: usize) -> Result<Vec<AuditView>, sqlx::Error> {
        let rows = sqlx::query(include_str!("../../../sql/sqlite/audit.sql"))
            .bind(before)
            .bind(i64::try_from(most).unwrap_or(i64::MAX))
            .fetch_all(&self.durable)
            .await?;
        let view = |row: &sqlx::sqlite::SqliteRow| {
            Ok(AuditView {
                id: row.try_get("id")?,
                done_at: read::moment(row, "done_at")?,
                who: row.try_get("who")?,
                what: row.try_get("what")?,
                target: row.try_get("target")?,
                events: row.try_get::<Option<i64>, _>("events")?.map(i64::unsigned_abs),
            })
        };
        rows.iter().map(view).collect()
    }
}
