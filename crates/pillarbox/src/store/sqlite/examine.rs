//! Finds problems of an outbox in SQLite.

use std::time::Duration;

use sqlx::Row;

use super::SqliteStore;
use crate::error::DriverError;
use crate::store::examine::Finding;
use crate::store::{Fleet, Inspect};

/// How long an event must be due, with no relay alive, to be reported.
const FORGOTTEN: Duration = Duration::from_secs(60);

impl SqliteStore {
    /// Runs all checks. Without the tables, only the first one.
    pub(super) async fn examine_database(&self) -> Result<Vec<Finding>, DriverError> {
        if let Err(error) = self.check().await {
            return Ok(vec![Finding::bad("schema", error.to_string(), "run `pillarbox migrate`")]);
        }
        let mut findings = vec![Finding::good("schema", "the tables exist and match this program")];
        findings.push(self.journal().await?);
        findings.push(self.attendance().await?);
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

    async fn attendance(&self) -> Result<Finding, DriverError> {
        let alive = self.relays().await?.iter().filter(|relay| relay.alive).count();
        let depth = match self.depth().await {
            Ok(depth) => depth,
            Err(error) => return Ok(Finding::bad("relays", error.to_string(), "")),
        };
        let waits = depth.oldest_due.unwrap_or_default();
        let oldest = depth.oldest_due.map(|waits| format!(", the oldest for {} s", waits.as_secs()));
        let found = format!("{alive} alive; {} due{}", depth.due, oldest.unwrap_or_default());
        let fix = "start one: `pillarbox relay`";
        Ok(match alive {
            0 if waits > FORGOTTEN => Finding::bad("relays", found, fix),
            0 => Finding::notice("relays", found, fix),
            _ => Finding::good("relays", found),
        })
    }
}
