//! The publication of the log: whether the rows of an application's outbox table are in what the slot streams, and how the table is
//! added.
//!
//! The publication decides when a row is written, not when it is read. So a row that is written while the publication does not
//! contain its table never reaches a relay.

use std::time::{Duration, Instant};

use super::{LogError, LogSettings, LogWait};
use crate::error::StoreError;
use crate::store::examine::Finding;
use crate::store::postgres::error::Error;
use crate::store::postgres::outbox_table::OutboxTable;
use crate::store::postgres::schema::MIGRATIONS;
use crate::store::postgres::statement::PgRow;
use crate::store::postgres::{PostgresStore, SQL, database};

/// What a publication of an outbox table must be. Without the first, an `UPDATE` or `DELETE` of a table without a replica identity
/// would fail.
pub(super) const OPTIONS: &str = "publish = 'insert', publish_via_partition_root = true";
/// The pause between two tries to lock the table.
const AGAIN: Duration = Duration::from_millis(500);
/// The server's codes for a lock that was not granted in time, and for a table that the publication has.
const LOCKED: &str = "55P03";
const THERE: &str = "42710";

const ABOUT: &str = "outbox table";

/// What the catalogs say about an outbox table and about the log's publication.
#[derive(Debug, Clone, Default)]
pub(crate) struct Published {
    kind: Option<String>,
    persistence: Option<String>,
    is_owned: bool,
    columns: Vec<String>,
    publication: Option<String>,
    inserts: bool,
    via_root: bool,
    tables: Vec<String>,
    /// Whether the table is one of Pillarbox's.
    is_own: bool,
}

impl PostgresStore {
    /// Reads the state of a table, and of this publication or that of the enabled log.
    pub(crate) async fn log_published(
        &self,
        table: Option<&OutboxTable>,
        publication: Option<&str>,
    ) -> Result<Published, StoreError> {
        let statement = self
            .schema
            .query(SQL.log_table)
            .bind(table.map(|table| table.schema.as_str()))
            .bind(table.map(|table| table.name.as_str()))
            .bind(publication);
        let row = statement.fetch_one(&self.pool).await;
        let published = row.and_then(|row| Published::read(&row));
        let mut published = published.map_err(database("reading the publication of the log"))?;
        published.is_own = table.is_some_and(|table| table.schema == self.schema.name() && is_own(&table.name));
        Ok(published)
    }

    /// Checks that the rows of this table are in the log, or without one, that the log has no rows that nobody expects. There is
    /// nothing to say if the log is not enabled.
    ///
    /// # Errors
    /// When the database returns an error.
    pub async fn log_table_findings(&self, table: Option<&OutboxTable>) -> Result<Vec<Finding>, StoreError> {
        if self.read_log_status().await.map_err(database("reading the state of the log"))?.is_none() {
            return Ok(Vec::new());
        }
        Ok(self.log_published(table, None).await?.findings(table))
    }

    /// Returns why the rows of this table cannot be read from the log, for `wal enable`.
    pub(super) async fn log_table_check(&self, table: &OutboxTable, role: &str) -> Result<(), LogError> {
        let published = self.log_published(Some(table), None).await?;
        match published.unfit(table) {
            Some(why) => Err(LogError::Refused(why)),
            None if !published.is_owned => Err(LogError::Refused(format!(
                "the role {role} does not own {table}, and only the owner of a table may add it to a publication; run this as a role that \
                 owns {table} and Pillarbox's tables, or as a superuser"
            ))),
            None => Ok(()),
        }
    }

    /// Adds the table to the publication of a log that is enabled. Rows of transactions that begin to write into it afterwards are in
    /// the log.
    pub(super) async fn log_publish(
        &self,
        table: &OutboxTable,
        settings: &LogSettings,
        waiting: &mut (dyn FnMut(LogWait) + Send),
    ) -> Result<(), LogError> {
        let published = self.log_published(Some(table), None).await?;
        let publication = published.publication.clone().unwrap_or_default();
        if published.missing(table).is_none() && published.strangers(Some(table)).is_empty() {
            return Ok(());
        }
        if let Some(other) = published.strangers(Some(table)).first() {
            return Err(LogError::Refused(format!(
                "the publication {publication} contains {other}, and a relay reads one outbox table; once nothing writes into {other} and its rows \
                 are delivered, run: ALTER PUBLICATION {publication} DROP TABLE {other};"
            )));
        }
        let add = match published.tables.is_empty() {
            true => format!("ADD TABLE ONLY {}", table.quoted()),
            false => format!("SET ({OPTIONS})"),
        };
        let began = Instant::now();
        loop {
            match self.try_publish(table, &publication, &add).await {
                Ok(()) => return Ok(()),
                Err(error) if error.code() == Some(THERE) => return Ok(()),
                Err(error) if error.code() == Some(LOCKED) && began.elapsed() < settings.patience => {
                    waiting(LogWait::Transactions(self.log_writers(table).await?));
                    tokio::time::sleep(AGAIN).await;
                }
                Err(error) => {
                    let why = format!("adding {table} to the publication {publication} failed: {error}");
                    return Err(LogError::Refused(why));
                }
            }
        }
    }

    /// Adds the table while nobody writes into it. Without the lock, a transaction that has begun to write would stay out of the
    /// publication on servers before 2025's releases, and with it rows that it writes later.
    async fn try_publish(&self, table: &OutboxTable, publication: &str, add: &str) -> Result<(), Error> {
        let (quoted, publication) = (table.quoted(), format!("\"{}\"", publication.replace('"', "\"\"")));
        let mut tx = self.pool.begin().await?;
        tx.run(&format!(
            "SET LOCAL lock_timeout = '500ms'; LOCK TABLE {quoted} IN SHARE ROW EXCLUSIVE MODE; \
             ALTER PUBLICATION {publication} SET ({OPTIONS}); ALTER PUBLICATION {publication} {add}"
        ))
        .await?;
        tx.commit().await
    }

    async fn log_writers(&self, table: &OutboxTable) -> Result<Vec<String>, StoreError> {
        let writers = self.schema.query_as::<(i32, String, f64)>(SQL.wal_writers).bind(&table.schema).bind(&table.name);
        let writers = writers.fetch_all(&self.pool).await.map_err(database("reading who writes into a table"))?;
        let told = writers.iter().map(|(pid, name, seconds)| format!("process {pid}, {name}, open for {seconds:.0} s"));
        Ok(told.collect())
    }
}

impl Published {
    fn read(row: &PgRow) -> Result<Self, Error> {
        Ok(Self {
            kind: row.try_get(0)?,
            persistence: row.try_get(1)?,
            is_owned: row.try_get::<_, Option<bool>>(2)?.unwrap_or(false),
            columns: row.try_get(3)?,
            publication: row.try_get(4)?,
            inserts: row.try_get::<_, Option<bool>>(5)?.unwrap_or(false),
            via_root: row.try_get::<_, Option<bool>>(6)?.unwrap_or(false),
            tables: row.try_get(7)?,
            is_own: false,
        })
    }

    /// Returns why the table cannot be read, whatever the publication contains.
    fn unfit(&self, table: &OutboxTable) -> Option<String> {
        let kind = self.kind.as_deref();
        if self.is_own {
            return Some(format!("{table} is one of Pillarbox's own tables; name the outbox table of the application"));
        }
        match kind {
            None => {
                return Some(format!(
                    "the table {table} does not exist; spell it as the catalogs do: CREATE TABLE OutboxEvent makes outboxevent"
                ));
            }
            Some("r" | "p") => {}
            Some(_) => {
                return Some(format!("{table} is no table, so no rows of it are in the log; name the table itself"));
            }
        }
        if self.persistence.as_deref() != Some("p") {
            return Some(format!(
                "the table {table} is unlogged or temporary, so its rows are not in the log; run: ALTER TABLE {table} SET LOGGED;"
            ));
        }
        let missing: Vec<&str> = table
            .columns
            .required()
            .into_iter()
            .filter(|column| !self.columns.iter().any(|has| has == column))
            .collect();
        (!missing.is_empty()).then(|| {
            format!(
                "the table {table} has no column {}, or a generated one, which is not in the log; name its columns in [source.columns]",
                missing.join(", ")
            )
        })
    }

    /// Returns why the rows of the table do not reach a relay, with what to do.
    pub(crate) fn missing(&self, table: &OutboxTable) -> Option<String> {
        if let Some(why) = self.unfit(table) {
            return Some(why);
        }
        let Some(publication) = &self.publication else {
            return Some("the publication of the log does not exist; disable and enable the log".to_owned());
        };
        if !self.tables.contains(&table.to_string()) {
            return Some(format!(
                "the publication {publication} does not contain the table {table}, so its rows are not delivered; run `pillarbox wal enable \
                 --table {table}`"
            ));
        }
        if !self.inserts || (self.kind.as_deref() == Some("p") && !self.via_root) {
            return Some(format!(
                "the publication {publication} does not publish all rows that are inserted into {table}; run: ALTER PUBLICATION {publication} SET \
                 ({OPTIONS});"
            ));
        }
        None
    }

    /// Returns the tables of the publication that this configuration does not name. A relay with it must not read the log: it would
    /// pass their rows by.
    pub(crate) fn strangers(&self, table: Option<&OutboxTable>) -> Vec<&str> {
        let table = table.map(ToString::to_string);
        self.tables.iter().filter(|name| Some(*name) != table.as_ref()).map(String::as_str).collect()
    }

    fn findings(&self, table: Option<&OutboxTable>) -> Vec<Finding> {
        let mut findings = Vec::new();
        if let Some(stranger) = self.strangers(table).first() {
            let publication = self.publication.as_deref().unwrap_or_default();
            findings.push(Finding::bad(
                ABOUT,
                format!(
                    "the publication {publication} contains {stranger}, which [source] does not name; relays with this configuration do not read the \
                     log, because rows of {stranger} would be lost"
                ),
                format!(
                    "set [source] tables = true and table = \"{stranger}\", or, once nothing writes into it: ALTER PUBLICATION {publication} DROP \
                     TABLE {stranger};"
                ),
            ));
        }
        if let Some(table) = table {
            findings.push(match self.missing(table) {
                Some(why) => Finding::bad(ABOUT, why, ""),
                None => Finding::good(ABOUT, format!("rows that are inserted into {table} are in the log")),
            });
        }
        findings
    }
}

/// Returns whether a table of our schema is one of ours.
fn is_own(name: &str) -> bool {
    let statements = MIGRATIONS.iter().flat_map(|migration| migration.sql.split("CREATE TABLE ").skip(1));
    statements.filter_map(|rest| rest.split_whitespace().next()).any(|ours| ours == name) || name == "outbox_migration"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Level;

    fn good() -> Published {
        Published {
            kind: Some("r".to_owned()),
            persistence: Some("p".to_owned()),
            is_owned: true,
            columns: ["id", "aggregatetype", "aggregateid", "type", "payload"].map(str::to_owned).to_vec(),
            publication: Some("pub".to_owned()),
            inserts: true,
            via_root: true,
            tables: vec!["public.outboxevent".to_owned()],
            is_own: false,
        }
    }

    #[test]
    fn each_problem_of_a_table_says_what_to_do() {
        let table = OutboxTable::default();
        assert_eq!(good().missing(&table), None);
        let cases = [
            (Published { is_own: true, ..good() }, "Pillarbox's own"),
            (Published { kind: None, ..good() }, "does not exist; spell it as the catalogs do"),
            (Published { kind: Some("v".to_owned()), ..good() }, "is no table"),
            (Published { persistence: Some("u".to_owned()), ..good() }, "SET LOGGED"),
            (
                Published { columns: vec!["id".to_owned()], ..good() },
                "no column aggregatetype, aggregateid, type, payload",
            ),
            (Published { publication: None, ..good() }, "does not exist; disable and enable"),
            (Published { tables: vec![], ..good() }, "run `pillarbox wal enable --table public.outboxevent`"),
            (Published { inserts: false, ..good() }, "ALTER PUBLICATION pub SET (publish = 'insert'"),
            (Published { kind: Some("p".to_owned()), via_root: false, ..good() }, "publish_via_partition_root = true"),
        ];
        for (published, text) in cases {
            let why = published.missing(&table).unwrap();
            assert!(why.contains(text), "{why}");
            assert_eq!(published.findings(Some(&table))[0].level, Level::Bad);
        }
        assert_eq!(good().findings(Some(&table))[0].level, Level::Good);
        assert!(Published::default().findings(None).is_empty());
    }

    #[test]
    fn a_published_table_that_is_not_configured_is_a_problem() {
        let other = OutboxTable::named("public.other").unwrap();
        assert!(good().strangers(Some(&OutboxTable::default())).is_empty());
        assert_eq!(good().strangers(None), ["public.outboxevent"]);
        let findings = good().findings(Some(&other));
        assert!(
            findings[0].found.contains("contains public.outboxevent, which [source] does not name"),
            "{findings:?}"
        );
        assert_eq!(findings.len(), 2);
    }

    #[test]
    fn our_tables_are_known() {
        assert!(is_own("outbox_event") && is_own("outbox_log") && is_own("outbox_session"));
        assert!(!is_own("outboxevent") && !is_own("outbox_events"));
    }
}
