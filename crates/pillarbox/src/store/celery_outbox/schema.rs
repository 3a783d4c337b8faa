//! Checks that this program knows the tables, and reports rows that it leaves alone.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use super::{Outbox, lock};
use crate::error::StoreError;
use crate::store::Swept;
use crate::store::sql::database;

/// The columns of both tables that this store reads or writes.
const SHARED: [&str; 14] = [
    "id",
    "created_at",
    "retries",
    "task_id",
    "task_name",
    "args",
    "kwargs",
    "redacted_args",
    "redacted_kwargs",
    "options",
    "sentry_trace_id",
    "sentry_baggage",
    "structlog_context",
    "schema_version",
];
const TABLES: [(&str, [&str; 2]); 2] =
    [("celery_outbox", ["updated_at", "retry_after"]), ("celery_outbox_dead_letter", ["dead_at", "failure_reason"])];

/// How often waiting tasks of another schema_version are reported.
const REMIND: Duration = Duration::from_secs(60);
/// The number of oldest tasks that this report, and a sweep, examine.
const LOOKED_AT: i64 = 10_000;
const SWEPT: i64 = 2000;

impl Outbox {
    /// Rejects tables of an older django-celery-outbox, and tables of a newer one that this store could not write to.
    pub(super) async fn check_columns(&self) -> Result<(), StoreError> {
        let rows = self.tables.columns().await;
        let rows = rows.map_err(database("reading the columns of django-celery-outbox's tables"))?;
        let mut found: HashMap<&str, HashSet<&str>> = HashMap::new();
        for (table, column, _) in &rows {
            found.entry(table).or_default().insert(column);
        }
        for (table, own) in TABLES {
            let Some(columns) = found.get(table) else {
                return Err(self.not_adoptable(format!("there is no table {table:?}")));
            };
            if let Some(missing) = SHARED.iter().chain(&own).find(|column| !columns.contains(*column)) {
                return Err(self.not_adoptable(format!("{table:?} has no column {missing:?}")));
            }
        }
        let (dead_letters, own) = TABLES[1];
        let unknown = |column: &str| !SHARED.contains(&column) && !own.contains(&column);
        match rows.iter().find(|(table, column, needed)| *needed && table == dead_letters && unknown(column)) {
            Some((table, column, _)) => Err(StoreError::TooNewToAdopt { table: table.clone(), column: column.clone() }),
            None => Ok(()),
        }
    }

    fn not_adoptable(&self, what: String) -> StoreError {
        StoreError::NotAdoptable { what, schema: self.tables.schema().to_owned() }
    }

    /// Reports tasks of another schema_version. They are left alone, as by django-celery-outbox's own relay.
    pub(super) async fn tell_of_other_versions(&self) -> Result<(), StoreError> {
        if lock(&self.told_at).is_some_and(|at| at.elapsed() < REMIND) {
            return Ok(());
        }
        *lock(&self.told_at) = Some(Instant::now());
        let versions = self.tables.other_versions(LOOKED_AT).await;
        let (count, highest) = versions.map_err(database("counting tasks of another schema_version"))?;
        if let Some(highest) = highest {
            tracing::warn!(
                tasks = count,
                schema_version = highest,
                "tasks with an unsupported schema_version stay in celery_outbox (this program supports 1); a newer \
                 django-celery-outbox wrote them: use its own relay for them"
            );
        }
        Ok(())
    }

    /// Sweeps: fails tasks that had been retried too often before they were claimed.
    pub(super) async fn sweep(&self) -> Result<Vec<Swept>, StoreError> {
        let limit = self.settings.max_retries;
        if limit == 0 {
            return Ok(Vec::new());
        }
        let error =
            format!("max retries exceeded: the task had already failed {limit} times or more and was not sent again");
        let events = self.tables.sweep(self.which(), &error, SWEPT).await.map_err(database("sweeping tasks"))?;
        Ok(events.into_iter().map(|event| Swept { event, error: error.clone() }).collect())
    }
}
