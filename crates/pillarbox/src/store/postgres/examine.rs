//! Finds problems of an outbox on PostgreSQL: requirements of a relay, and common omissions.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::error::Error;
use super::schema::MIGRATIONS;
use super::statement::PgRow;
use super::{PostgresStore, SQL, listen};
use crate::error::StoreError;
use crate::store::examine::Finding;
use crate::store::{Fleet, Inspect};

/// The oldest server version that the statements were tested on.
const OLDEST_SERVER: i32 = 140_000;
/// The age at which an open transaction is reported.
const LONG: Duration = Duration::from_secs(300);
/// The age at which an open transaction is bad.
const TOO_LONG: Duration = Duration::from_secs(3600);
/// The number of dead rows that is reported, if they outnumber the live rows.
const MANY_DEAD: i64 = 100_000;
/// The clock difference in seconds above which it is reported.
const CLOCKS: f64 = 1.0;
/// How long an event must be due, with no relay alive, to be reported.
const FORGOTTEN: Duration = Duration::from_secs(60);

impl PostgresStore {
    /// Runs all checks. Without the tables, only the first one.
    pub(super) async fn examine_database(&self) -> Result<Vec<Finding>, Error> {
        if let Err(error) = self.check().await {
            return Ok(vec![Finding::bad(
                "schema",
                told(&error),
                "run `pillarbox migrate` as the owner of the tables",
            )]);
        }
        let mut findings = vec![Finding::good("schema", "the tables exist and match this program")];
        let began = SystemTime::now();
        let server = self.schema.query(SQL.examine_server).bind(self.schema.name()).fetch_one(&self.pool).await?;
        findings.push(version(&server)?);
        findings.push(clock(&server, began, SystemTime::now())?);
        findings.push(self.indexes().await?);
        findings.push(self.rights(&server).await?);
        findings.push(self.vacuum(&server)?);
        findings.push(self.horizon(&server).await?);
        findings.push(self.pooler().await?);
        findings.push(self.attendance().await);
        findings.extend(self.log_findings().await?);
        Ok(findings)
    }

    async fn indexes(&self) -> Result<Finding, Error> {
        let known: Vec<(&str, String)> = MIGRATIONS.iter().flat_map(|migration| indexes_of(migration.sql)).collect();
        let missing: Vec<String> = self
            .schema
            .query_scalar(SQL.examine_indexes)
            .bind(self.schema.name())
            .bind(known.iter().map(|(name, _)| *name).collect::<Vec<_>>())
            .fetch_all(&self.pool)
            .await?;
        if missing.is_empty() {
            return Ok(Finding::good("indexes", format!("all {} exist", known.len())));
        }
        let make = known.iter().filter(|(name, _)| missing.iter().any(|missing| missing == name));
        let make: Vec<&str> = make.map(|(_, statement)| statement.as_str()).collect();
        let found = format!("missing or invalid: {}; without them, claims read the whole table", missing.join(", "));
        Ok(Finding::bad("indexes", found, format!("create them: {}", make.join(" "))))
    }

    async fn rights(&self, server: &PgRow) -> Result<Finding, Error> {
        let role: String = server.try_get("role")?;
        let missing: Vec<String> =
            self.schema.query_scalar(SQL.examine_rights).bind(self.schema.name()).fetch_all(&self.pool).await?;
        Ok(if missing.is_empty() {
            Finding::good("rights", format!("{role} has the rights of a relay"))
        } else {
            let found = format!("{role} lacks the rights: {}", missing.join(", "));
            Finding::bad("rights", found, format!("run as the owner: `pillarbox migrate --relay-role {role}`"))
        })
    }

    fn vacuum(&self, server: &PgRow) -> Result<Finding, Error> {
        let schema = self.schema.name();
        let (live, dead): (i64, i64) = (server.try_get("live")?, server.try_get("dead")?);
        if !server.try_get::<_, bool>("vacuums")? {
            let fix = format!(
                "ALTER TABLE {schema}.outbox_event RESET (autovacuum_enabled); and autovacuum = on in postgresql.conf"
            );
            return Ok(Finding::bad(
                "autovacuum",
                "autovacuum is off, so dead rows pile up and claims become slow",
                fix,
            ));
        }
        Ok(if dead > MANY_DEAD && dead > live {
            let ago: Option<f64> = server.try_get("vacuumed_ago")?;
            let ago = ago.map_or("never".to_owned(), |seconds| format!("{} ago", rounded(seconds)));
            let found = format!("{dead} dead rows and {live} live rows; last vacuum {ago}");
            let fix = format!(
                "VACUUM {schema}.outbox_event; and vacuum more often: ALTER TABLE {schema}.outbox_event SET \
                 (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);"
            );
            Finding::notice("autovacuum", found, fix)
        } else {
            Finding::good("autovacuum", format!("on; {dead} dead rows and {live} live rows"))
        })
    }

    /// Checks for transactions that keep dead rows. Relays stay fast, but the table grows and other queries get slow.
    async fn horizon(&self, server: &PgRow) -> Result<Finding, Error> {
        let holders: Vec<(String, String, f64)> =
            self.schema.query_as(SQL.examine_horizon).bind(LONG.as_secs_f64()).fetch_all(&self.pool).await?;
        let Some((_, _, longest)) = holders.first() else {
            if !server.try_get::<_, bool>("sees_sessions")? {
                let role: String = server.try_get("role")?;
                let fix = format!("GRANT pg_read_all_stats TO {role}; or run doctor as another role");
                return Ok(Finding::notice(
                    "long transactions",
                    format!("{role} cannot see the transactions of other roles"),
                    fix,
                ));
            }
            return Ok(Finding::good("long transactions", "none blocks the cleanup of dead rows"));
        };
        let told: Vec<String> = holders.iter().map(|(kind, name, age)| holder(kind, name, *age)).collect();
        let found = format!("these block the cleanup of dead rows: {}", told.join("; "));
        let fix = "commit or terminate them: SELECT pg_terminate_backend(PID); ROLLBACK PREPARED 'NAME'; \
                   SELECT pg_drop_replication_slot('NAME'); and set idle_in_transaction_session_timeout";
        Ok(if *longest > TOO_LONG.as_secs_f64() {
            Finding::bad("long transactions", found, fix)
        } else {
            Finding::notice("long transactions", found, fix)
        })
    }

    async fn pooler(&self) -> Result<Finding, Error> {
        Ok(if listen::sessions_are_ours(&self.pool).await? {
            Finding::good("pooler", "no transaction pooler: notifications arrive")
        } else {
            let fix = "give the relay a direct connection; applications may keep using the pooler";
            Finding::notice(
                "pooler",
                "a transaction pooler is in between: notifications do not arrive, so relays poll",
                fix,
            )
        })
    }

    async fn attendance(&self) -> Finding {
        let fix = "start one: `pillarbox relay`";
        match (self.depth().await, self.relays().await) {
            (Ok(depth), Ok(relays)) => {
                let alive = relays.iter().filter(|relay| relay.alive).count();
                let waits = depth.oldest_due.unwrap_or_default();
                let oldest = depth.oldest_due.map(|waits| format!(", oldest for {}", rounded(waits.as_secs_f64())));
                let found = format!("{alive} alive; {} due{}", depth.due, oldest.unwrap_or_default());
                match alive {
                    0 if waits > FORGOTTEN => Finding::bad("relays", found, fix),
                    0 => Finding::notice("relays", found, fix),
                    _ => Finding::good("relays", found),
                }
            }
            (Err(error), _) => Finding::bad("relays", told(&error), ""),
            (_, Err(error)) => Finding::bad("relays", error.to_string(), ""),
        }
    }
}

fn told(error: &StoreError) -> String {
    error.to_string()
}

fn version(server: &PgRow) -> Result<Finding, Error> {
    let (version, number): (String, i32) = (server.try_get("version")?, server.try_get("number")?);
    Ok(if number >= OLDEST_SERVER {
        Finding::good("server", format!("PostgreSQL {version}"))
    } else {
        let found = format!("PostgreSQL {version} is not tested");
        Finding::bad("server", found, "upgrade to PostgreSQL 14 or newer")
    })
}

/// Compares the clocks. The database's clock decides when events are due; the host's only measures durations.
fn clock(server: &PgRow, began: SystemTime, ended: SystemTime) -> Result<Finding, Error> {
    let theirs: f64 = server.try_get("clock")?;
    let seconds = |at: SystemTime| at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    // Any time between the request and the response is plausible.
    let ahead = if theirs < seconds(began) { theirs - seconds(began) } else { (theirs - seconds(ended)).max(0.0) };
    Ok(if ahead.abs() <= CLOCKS {
        Finding::good("clocks", "database and host agree")
    } else {
        let found = format!(
            "the database clock is {:.1} s {} the host clock",
            ahead.abs(),
            if ahead > 0.0 { "ahead of" } else { "behind" }
        );
        Finding::notice("clocks", format!("{found}: measured latencies are wrong"), "synchronise both hosts with NTP")
    })
}

fn holder(kind: &str, name: &str, age: f64) -> String {
    match kind {
        "slot" => format!("the unused replication slot {name}, {age} transactions old"),
        "prepared" => format!("the prepared transaction {name}, open for {}", rounded(age)),
        _ => format!("the transaction of {name}, open for {}", rounded(age)),
    }
}

fn rounded(seconds: f64) -> String {
    format!("{:?}", Duration::from_secs(seconds.max(0.0) as u64))
}

/// Returns the indexes of a migration: their names, and statements that create them without blocking writes.
fn indexes_of(sql: &'static str) -> Vec<(&'static str, String)> {
    let statements = sql.split(';').filter_map(|statement| {
        let begin = statement.find("CREATE INDEX ")?;
        let rest = &statement[begin + "CREATE INDEX ".len()..];
        let name = rest.split_whitespace().next()?;
        let words: Vec<&str> = rest.split_whitespace().collect();
        Some((name, format!("CREATE INDEX CONCURRENTLY {};", words.join(" "))))
    });
    statements.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_indexes_of_a_migration_are_known_by_name() {
        let known = indexes_of("-- A comment.\nCREATE INDEX a ON t (x)\n    WHERE y;\nCREATE TABLE t (z int);");
        assert_eq!(known, [("a", "CREATE INDEX CONCURRENTLY a ON t (x) WHERE y;".to_owned())]);
        assert!(indexes_of(MIGRATIONS[0].sql).iter().any(|(name, _)| *name == "outbox_event_due"));
    }
}
