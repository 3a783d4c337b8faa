//! Finds problems of an outbox on MariaDB or MySQL: requirements of a relay, and common omissions.

use std::collections::HashMap;

use sqlx::Row as _;

use super::connect::number;
use super::rights::{Denied, quoted_account};
use super::server::pairs;
use super::{MIGRATIONS, MysqlStore, SQL};
use crate::error::DriverError;
use crate::store::Fleet;
use crate::store::examine::{Finding, attendance};
use crate::store::sql::{Call, Row, Transaction};

/// The number of kept row versions from which on claims are slow.
const LONG_HISTORY: u64 = 1_000_000;
/// The time that an application may wait for a row lock, in seconds, above which it is reported. The servers' default is 50.
const LONG_WAIT: u64 = 60;

/// The server's settings by name.
type Settings = HashMap<String, String>;

fn get<'a>(settings: &'a Settings, name: &str) -> &'a str {
    settings.get(name).map_or("", String::as_str)
}

fn is_on(settings: &Settings, name: &str) -> bool {
    ["ON", "1"].iter().any(|on| get(settings, name).eq_ignore_ascii_case(on))
}

impl MysqlStore {
    /// Runs all checks. Without the tables, only the first one.
    pub(super) async fn examine_database(&self) -> Result<Vec<Finding>, DriverError> {
        if let Err(error) = self.check().await {
            let fix = "run `pillarbox migrate` as a user that may create tables";
            return Ok(vec![Finding::bad("schema", error.to_string(), fix)]);
        }
        let mut findings = vec![Finding::good("schema", "the tables exist and match this program")];
        let server = pairs(&self.run(Call::new(SQL.examine_server)).await?.rows)?;
        let session = pairs(&self.run(Call::new(SQL.examine_session)).await?.rows)?;
        findings.push(self.version(&server));
        findings.push(sessions(&session));
        findings.push(strictness(&server));
        findings.push(self.indexes().await?);
        findings.push(self.rights().await?);
        findings.push(self.history().await?);
        findings.push(waits(&server));
        findings.push(binlog(&server));
        findings.push(durability(&server));
        findings.push(attendance(self).await);
        Ok(findings)
    }

    fn version(&self, settings: &Settings) -> Finding {
        let server = &self.connections.server;
        let found = format!("{} {}", if server.is_mariadb() { "MariaDB" } else { "MySQL" }, server.get("version"));
        if is_on(settings, "read_only") {
            return Finding::bad("server", format!("{found}, read-only: a replica"), "connect to the primary");
        }
        Finding::good("server", found)
    }

    async fn indexes(&self) -> Result<Finding, DriverError> {
        let rows = self.run(Call::new(SQL.examine_indexes)).await?.rows;
        let there = rows.iter().map(|row| row.text("name")).collect::<Result<Vec<_>, _>>()?;
        let known: Vec<(&str, String)> = MIGRATIONS.iter().flat_map(|migration| indexes_of(migration.sql)).collect();
        let missing: Vec<_> = known.iter().filter(|(name, _)| there.iter().all(|there| there != name)).collect();
        if missing.is_empty() {
            return Ok(Finding::good("indexes", format!("all {} exist", known.len())));
        }
        let names: Vec<&str> = missing.iter().map(|(name, _)| *name).collect();
        let make: Vec<&str> = missing.iter().map(|(_, statement)| statement.as_str()).collect();
        let found = format!("missing: {}; statements that name them fail", names.join(", "));
        Ok(Finding::bad("indexes", found, format!("create them: {}", make.join(" "))))
    }

    /// Tries the rights of a relay.
    async fn rights(&self) -> Result<Finding, DriverError> {
        let (account, mut missing) = (quoted_account(self.connections.server.account()), Vec::new());
        let mut tx = self.transaction().await?;
        for statement in SQL.examine_rights.split(';') {
            let Err(error) = tx.script(statement.to_owned().into()).await else { continue };
            match error.downcast_ref::<Denied>() {
                Some(denied) if !missing.contains(&denied.missing) => missing.push(denied.missing.clone()),
                // Other errors of the server are found by other checks.
                _ if number(&error).is_some() => {}
                _ => return Err(error),
            }
        }
        tx.roll_back().await?;
        if missing.is_empty() {
            return Ok(Finding::good("rights", format!("{account} has the rights of a relay")));
        }
        let fix = format!("run as an administrator: pillarbox migrate --relay-role \"{account}\" --apply");
        Ok(Finding::bad("rights", format!("{account} lacks the rights: {}", missing.join(", ")), fix))
    }

    /// Looks at old row versions, which an open snapshot keeps: claims read over them.
    async fn history(&self) -> Result<Finding, DriverError> {
        for text in [SQL.examine_history, SQL.examine_metrics] {
            let rows = match self.run(Call::new(text)).await {
                Err(error) if error.is::<Denied>() => {
                    let fix = format!("GRANT PROCESS ON *.* TO {}", quoted_account(self.connections.server.account()));
                    let found = "the length of the history list is hidden from this user";
                    return Ok(Finding::notice("history", found, fix));
                }
                done => done?.rows,
            };
            let length: Option<String> = rows.first().map(|row| row.try_get_unchecked(1)).transpose()?;
            if let Some(length) = length.and_then(|length| length.parse().ok()) {
                return Ok(history_of(length));
            }
        }
        Ok(Finding::notice("history", "the server does not tell the length of its history list", ""))
    }
}

fn history_of(length: u64) -> Finding {
    let found = format!("{length} old row versions are kept");
    if length < LONG_HISTORY {
        return Finding::good("history", found);
    }
    let fix = "end the oldest transactions: SELECT trx_mysql_thread_id, trx_started FROM information_schema.INNODB_TRX \
               ORDER BY trx_started; KILL ID";
    Finding::notice("history", format!("{found}: a transaction is open for long, and claims become slow"), fix)
}

/// Looks at a session of the store. A proxy may have changed what the store has set.
fn sessions(session: &Settings) -> Finding {
    let isolation = [get(session, "transaction_isolation"), get(session, "tx_isolation")];
    let isolation = isolation.into_iter().find(|isolation| !isolation.is_empty()).unwrap_or("unknown");
    let is_strict = get(session, "sql_mode").contains("STRICT_TRANS_TABLES");
    if isolation == "READ-COMMITTED" && is_strict {
        return Finding::good("sessions", "READ COMMITTED and strict");
    }
    let found = format!("isolation {isolation}, strict mode {}", if is_strict { "on" } else { "off" });
    Finding::bad("sessions", found, "a proxy changes the settings of sessions: connect without it")
}

/// Looks at the sessions of applications, which may emit by a plain INSERT.
fn strictness(server: &Settings) -> Finding {
    if get(server, "sql_mode").contains("STRICT_") {
        return Finding::good("sql_mode", "strict");
    }
    let found = "not strict: the server cuts off values that are too long in the INSERTs of other programs";
    Finding::notice("sql_mode", found, "add STRICT_TRANS_TABLES to sql_mode in the server's configuration")
}

fn waits(server: &Settings) -> Finding {
    let seconds = get(server, "innodb_lock_wait_timeout");
    let found = format!("applications wait for a row lock for up to {seconds} s");
    if seconds.parse::<u64>().is_ok_and(|seconds| seconds > LONG_WAIT) {
        return Finding::notice(
            "locks",
            found,
            "SET GLOBAL innodb_lock_wait_timeout = 50, and in the server's configuration",
        );
    }
    Finding::good("locks", found)
}

fn binlog(server: &Settings) -> Finding {
    let format = get(server, "binlog_format");
    if !is_on(server, "log_bin") {
        return Finding::good("binlog", "off");
    }
    if format.eq_ignore_ascii_case("statement") {
        let found = "STATEMENT: the server refuses writes under READ COMMITTED";
        return Finding::bad("binlog", found, "SET GLOBAL binlog_format = ROW, and in the server's configuration");
    }
    Finding::good("binlog", format)
}

fn durability(server: &Settings) -> Finding {
    match get(server, "innodb_flush_log_at_trx_commit") {
        "1" => Finding::good("commits", "on disk when they return"),
        other => Finding::notice(
            "commits",
            format!("innodb_flush_log_at_trx_commit is {other}: a crash may lose events that were emitted"),
            "SET GLOBAL innodb_flush_log_at_trx_commit = 1, and in the server's configuration",
        ),
    }
}

/// Returns the indexes of a migration: their names, and statements that create them.
fn indexes_of(sql: &'static str) -> Vec<(&'static str, String)> {
    let (mut table, mut indexes) = ("", Vec::new());
    for line in sql.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix("CREATE TABLE IF NOT EXISTS ") {
            table = rest.split(' ').next().unwrap_or_default();
        }
        let unique = line.strip_prefix("CONSTRAINT ").filter(|_| line.contains(" UNIQUE "));
        let name = line.strip_prefix("INDEX ").or(unique).and_then(|rest| rest.split(' ').next());
        indexes.extend(name.map(|name| (name, format!("ALTER TABLE {table} ADD {};", line.trim_end_matches(',')))));
    }
    indexes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_indexes_of_the_migrations_are_known() {
        let known: Vec<(&str, String)> = MIGRATIONS.iter().flat_map(|migration| indexes_of(migration.sql)).collect();
        assert_eq!(known[5].1, "ALTER TABLE outbox_event ADD INDEX outbox_event_suspect (claims);");
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
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

    #[test]
    fn a_long_history_is_reported() {
        assert_eq!(history_of(999_999).level, crate::store::Level::Good);
        let found = history_of(1_000_000);
        assert!(found.level == crate::store::Level::Notice && found.fix.contains("INNODB_TRX"), "{found:?}");
    }

    #[test]
    fn a_proxy_that_changes_sessions_is_reported() {
        let session = |isolation: &str, mode: &str| {
            let settings = [("transaction_isolation", isolation), ("sql_mode", mode)];
            sessions(&settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into()).level
        };
        assert_eq!(session("READ-COMMITTED", "STRICT_TRANS_TABLES,NO_ZERO_DATE"), crate::store::Level::Good);
        assert_eq!(session("REPEATABLE-READ", "STRICT_TRANS_TABLES"), crate::store::Level::Bad);
        assert_eq!(session("READ-COMMITTED", ""), crate::store::Level::Bad);
    }
}
