//! Finds problems of an outbox in SQLite.

use sqlx::Row;

use super::SqliteStore;
use crate::error::DriverError;
use crate::store::Fleet;
use crate::store::examine::{Finding, attendance};

impl SqliteStore {
    /// Runs all checks. Without the tables, only the first one.
    pub(super) async fn examine_database(&self) -> Result<Vec<Finding>, DriverError> {
        if let Err(error) = self.check().await {
            return Ok(vec![Finding::bad("schema", error.to_string(), "run `pillarbox migrate`")]);
        }
        let mut findings = vec![Finding::good("schema", "the tables exist and match this program")];
        findings.push(self.journal().await?);
        findings.push(attendance(self).await);
        Ok(findings)
    }

    async fn journal(&self) -> Result<Finding, sqlx::Error> {
        let row = sqlx::query("PRAGMA journal_mode").fetch_one(&self.durable).await?;
        let mode: String = row.try_get(0)?;
        Ok(if mode.eq_ignore_ascii_case("wal") {
            Finding::good("journal", "WAL: readers and the writer do not block each other")
        } else {
            let found = format!("{mode}: a writer blocks all readers");
            Finding::notice("journal", found, "run PRAGMA journal_mode = WAL; the file must be on a local file system")
        })
    }
}
