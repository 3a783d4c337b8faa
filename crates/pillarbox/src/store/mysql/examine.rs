//! Finds problems of an outbox on MariaDB or MySQL.

use sqlx::Row as _;

use super::{MIGRATIONS, MysqlStore, SQL};
use crate::error::DriverError;
use crate::store::Fleet;
use crate::store::examine::{Finding, attendance};
use crate::store::sql::{Call, Row};

/// The number of kept row versions from which on claims are slow.
const LONG_HISTORY: u64 = 1_000_000;

impl MysqlStore {
    /// Runs all checks. Without the tables, only the first one.
    pub(super) async fn examine_database(&self) -> Result<Vec<Finding>, DriverError> {
        if let Err(error) = self.check().await {
            return Ok(vec![Finding::bad("schema", error.to_string(), "run `pillarbox migrate`")]);
        }
        let mut findings = vec![Finding::good("schema", "the tables exist and match this program")];
        findings.push(self.version());
        findings.push(self.indexes().await?);
        findings.push(self.history().await?);
        findings.push(self.binlog());
        findings.push(self.durability());
        findings.push(attendance(self).await);
        Ok(findings)
    }

    fn version(&self) -> Finding {
        let server = &self.connections.server;
        let name = if server.is_mariadb() { "MariaDB" } else { "MySQL" };
        if server.get("read_only").eq_ignore_ascii_case("on") {
            let found = format!("{name} {}, read-only: a replica", server.get("version"));
            return Finding::bad("server", found, "connect to the primary");
        }
        Finding::good("server", format!("{name} {}; sessions are READ COMMITTED and strict", server.get("version")))
    }

    async fn indexes(&self) -> Result<Finding, DriverError> {
        let rows = self.run(Call::new(SQL.examine_indexes)).await?.rows;
        let there = rows.iter().map(|row| row.text("name")).collect::<Result<Vec<_>, _>>()?;
        let known: Vec<&str> = MIGRATIONS.iter().flat_map(|migration| indexes_of(migration.sql)).collect();
        let missing: Vec<&str> = known.iter().copied().filter(|name| there.iter().all(|there| there != name)).collect();
        if missing.is_empty() {
            return Ok(Finding::good("indexes", format!("all {} exist", known.len())));
        }
        let found = format!("missing: {}; statements that name them fail", missing.join(", "));
        Ok(Finding::bad("indexes", found, "create them as in the migrations"))
    }

    /// Looks at old row versions, which an open snapshot keeps: claims read over them.
    async fn history(&self) -> Result<Finding, DriverError> {
        let rows = self.run(Call::new(SQL.examine_history)).await?.rows;
        let length: Option<String> = rows.first().map(|row| row.try_get_unchecked(1)).transpose()?;
        let Some(length) = length.and_then(|length| length.parse::<u64>().ok()) else {
            let fix = "see trx_rseg_history_len in information_schema.INNODB_METRICS, which needs the right PROCESS";
            return Ok(Finding::notice("history", "the server does not tell the length of its history list", fix));
        };
        let found = format!("{length} old row versions are kept");
        Ok(if length < LONG_HISTORY {
            Finding::good("history", found)
        } else {
            Finding::notice("history", found, "end long transactions: see information_schema.INNODB_TRX")
        })
    }

    fn binlog(&self) -> Finding {
        let server = &self.connections.server;
        let (on, format) = (server.get("log_bin"), server.get("binlog_format"));
        if on.eq_ignore_ascii_case("on") && format.eq_ignore_ascii_case("statement") {
            let found = "STATEMENT: the server refuses writes under READ COMMITTED";
            return Finding::bad("binlog", found, "set binlog_format = ROW, or MIXED");
        }
        Finding::good("binlog", if on.eq_ignore_ascii_case("on") { format.to_owned() } else { "off".to_owned() })
    }

    fn durability(&self) -> Finding {
        match self.connections.server.get("innodb_flush_log_at_trx_commit") {
            "1" => Finding::good("commits", "on disk when they return"),
            other => Finding::notice(
                "commits",
                format!("innodb_flush_log_at_trx_commit is {other}: a crash may lose events that were emitted"),
                "set it to 1",
            ),
        }
    }
}

/// Returns the names of the indexes that a migration creates.
fn indexes_of(sql: &'static str) -> impl Iterator<Item = &'static str> {
    let name = |line: &'static str| {
        let line = line.trim_start();
        let unique = line.strip_prefix("CONSTRAINT ").filter(|_| line.contains(" UNIQUE "));
        line.strip_prefix("INDEX ").or(unique)?.split(' ').next()
    };
    sql.lines().filter_map(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_indexes_of_the_migrations_are_known() {
        let names: Vec<&str> = MIGRATIONS.iter().flat_map(|migration| indexes_of(migration.sql)).collect();
        assert_eq!(
            names,
            [
                "outbox_event_id",
                "outbox_event_key",
                "outbox_event_due",
                "outbox_event_done",
                "outbox_event_order",
                "outbox_event_suspect",
                "outbox_delivery_parked",
                "outbox_job_running"
            ]
        );
    }
}
