//! Cleanup on PostgreSQL: one batch of old terminal events, each beginning where the last one ended.

use super::error::Error;
use super::hold::lock;
use super::moment::Moment;
use super::{PostgresStore, SQL, limit};
use crate::store::{Cleaned, Retention};

/// The times at which the next batch begins to search for delivered and for failed events.
#[derive(Debug, Clone, Copy)]
pub(super) struct CleanedUntil {
    delivered: Moment,
    failed: Moment,
}

impl Default for CleanedUntil {
    fn default() -> Self {
        Self { delivered: Moment::EARLIEST, failed: Moment::EARLIEST }
    }
}

impl PostgresStore {
    pub(super) async fn delete_old(&self, retention: &Retention) -> Result<Cleaned, Error> {
        let from = *lock(&self.cleaned_until);
        let mut tx = self.pool.begin().await?;
        let alone: bool = self.schema.query_scalar(SQL.cleanup_lock).fetch_one(&mut *tx).await?;
        if !alone {
            return Ok(Cleaned { elsewhere: true, ..Cleaned::default() });
        }
        let row = self
            .schema
            .query(SQL.cleanup)
            .bind(retention.delivered_after.as_secs_f64())
            .bind(retention.failed_after.as_secs_f64())
            .bind(limit(retention.batch).min(i64::MAX - 1))
            .bind(from.delivered)
            .bind(from.failed)
            .fetch_one(&mut *tx)
            .await?;
        let (deleted, more): (i64, bool) = (row.try_get("deleted")?, row.try_get("more")?);
        let until = CleanedUntil {
            delivered: row.try_get::<_, Option<_>>("delivered_until")?.unwrap_or(from.delivered),
            failed: row.try_get::<_, Option<_>>("failed_until")?.unwrap_or(from.failed),
        };
        tx.commit().await?;
        // After the last batch, the next one begins at the beginning. It finds events that were locked, or became old below.
        *lock(&self.cleaned_until) = if more { until } else { CleanedUntil::default() };
        Ok(Cleaned { deleted: deleted.unsigned_abs(), more, elsewhere: false })
    }
}
