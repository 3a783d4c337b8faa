//! Enable: checks the server, then creates the publication, the replication slot and the rows that emit and relays read.

use std::time::Duration;

use super::examine::ABOUT;
use super::published::OPTIONS;
use super::{FAILOVER_SLOTS, Facts, LogError, LogSettings, LogStatus, LogWait};
use crate::error::StoreError;
use crate::store::examine::Finding;
use crate::store::postgres::error::Error;
use crate::store::postgres::{PostgresStore, SQL, database};

/// How often to say what the slot waits for.
const WORD: Duration = Duration::from_secs(1);
/// The longest name of a slot or a publication.
const NAME_LIMIT: usize = 63;
/// The server's code for a missing right.
const DENIED: &str = "42501";

impl PostgresStore {
    /// Enables the log: a publication, a replication slot behind it, and the rows that emit and relays read. Emit uses the log once a
    /// relay reads it. If the log is enabled already, only [`LogSettings::table`] is added, if its rows are not in the log yet.
    ///
    /// Rows that were inserted into that table before are not in the log. The slot waits for all transactions that are open; `waiting` is called with them once a second.
    ///
    /// # Errors
    /// When the server or the role does not allow it, with what to do, or when the database returns an error. Then nothing is left
    /// behind.
    pub async fn log_enable(
        &self,
        settings: &LogSettings,
        waiting: &mut (dyn FnMut(LogWait) + Send),
    ) -> Result<LogStatus, LogError> {
        let facts = self.log_facts().await.map_err(database("reading the server's settings"))?;
        facts.check(settings).map_err(LogError::Refused)?;
        if let Some(table) = &settings.table {
            self.log_table_check(table, &facts.role).await?;
        }
        if let Some(status) = self.log_status().await? {
            let status = status.still_enabled()?;
            let Some(table) = &settings.table else { return Ok(status) };
            self.log_publish(table, settings, waiting).await?;
            return self.log_still_enabled().await;
        }
        let name = match &settings.slot {
            Some(name) => checked(name).map_err(LogError::Refused)?,
            None => slot_name(self.schema.name(), &facts.database),
        };
        // The slot begins when every transaction is over that was open before, so no row of the table is missed after it.
        let publish = match &settings.table {
            None => format!("CREATE PUBLICATION {name}"),
            Some(table) => format!("CREATE PUBLICATION {name} FOR TABLE ONLY {} WITH ({OPTIONS})", table.quoted()),
        };
        self.log_run(&publish).await.map_err(|error| refused(&error, "publication", &name, &facts))?;
        let position = match self.create_slot(&name, &facts, settings, waiting).await {
            Ok(position) => position,
            Err(error) => {
                self.log_undo(&format!("DROP PUBLICATION {name}")).await;
                return Err(refused(&error, "replication slot", &name, &facts));
            }
        };
        let enabled = self.schema.query(SQL.wal_enable).bind(&name).bind(&position).bind(settings.size_limit);
        if let Err(error) = enabled.execute(&self.pool).await {
            self.log_undo(&format!("SELECT pg_drop_replication_slot('{name}')")).await;
            self.log_undo(&format!("DROP PUBLICATION {name}")).await;
            return Err(database("enabling the log")(error).into());
        }
        self.log_still_enabled().await
    }

    /// Returns that the log is not enabled, and what stands in the way; `None` if it is enabled. For a relay that should read it.
    ///
    /// # Errors
    /// When the database returns an error.
    pub async fn log_disabled(&self) -> Result<Option<Finding>, StoreError> {
        if self.read_log_status().await.map_err(database("reading the state of the log"))?.is_some() {
            return Ok(None);
        }
        let facts = self.log_facts().await.map_err(database("reading the server's settings"))?;
        let found = "the log is not enabled, so all events go into the table";
        Ok(Some(match facts.check(&LogSettings::default()) {
            Ok(()) => Finding::notice(ABOUT, found, "`pillarbox wal enable` enables it"),
            Err(why) => {
                Finding::bad(ABOUT, format!("{found}, and it cannot be enabled: {why}"), "then `pillarbox wal enable`")
            }
        }))
    }

    async fn log_still_enabled(&self) -> Result<LogStatus, LogError> {
        let status = self.log_status().await?;
        status.ok_or_else(|| LogError::Refused("the log was disabled by somebody else meanwhile".to_owned()))
    }

    /// Creates the slot and returns the position where it begins.
    async fn create_slot(
        &self,
        name: &str,
        facts: &Facts,
        settings: &LogSettings,
        waiting: &mut (dyn FnMut(LogWait) + Send),
    ) -> Result<String, Error> {
        let mut tx = self.pool.patient(settings.patience).begin().await?;
        let session: i32 = tx.row("SELECT pg_backend_pid()").await?.try_get(0)?;
        let text = if facts.version >= FAILOVER_SLOTS { SQL.wal_slot_failover } else { SQL.wal_slot };
        let position = {
            let mut creating = std::pin::pin!(self.schema.query_scalar(text).bind(name).fetch_one(&mut *tx));
            loop {
                if let Ok(created) = tokio::time::timeout(WORD, creating.as_mut()).await {
                    break created?;
                }
                let blockers: Vec<(i32, String, f64)> =
                    self.schema.query_as(SQL.wal_blockers).bind(session).fetch_all(&self.pool).await?;
                let told = blockers
                    .iter()
                    .map(|(pid, name, seconds)| format!("process {pid}, {name}, open for {seconds:.0} s"));
                waiting(LogWait::Transactions(told.collect()));
            }
        };
        tx.commit().await?;
        Ok(position)
    }

    /// Runs a statement without values.
    pub(super) async fn log_run(&self, text: &str) -> Result<(), Error> {
        let mut tx = self.pool.begin().await?;
        tx.run(text).await?;
        tx.commit().await
    }

    async fn log_undo(&self, text: &str) {
        if let Err(error) = self.log_run(text).await {
            tracing::warn!(%error, statement = text, "undoing the set-up of the log failed; run the statement by hand");
        }
    }
}

impl LogStatus {
    /// Returns the status of a log that is enabled already, unless something is wrong with it.
    fn still_enabled(self) -> Result<Self, LogError> {
        let problem = match &self {
            Self { leaving: true, .. } => {
                "the log is being disabled; finish that with `pillarbox wal disable`, then enable it"
            }
            Self { has_slot: false, .. } => {
                "the log is enabled, but its replication slot is gone, and what was in the log with it; look at `pillarbox wal status`, run \
                 `pillarbox wal disable --force --yes`, then enable it again"
            }
            Self { wal_status: Some(status), .. } if status == "lost" => {
                "the log is enabled, but its replication slot is lost, and what was in the log with it; look at `pillarbox wal status`, run \
                 `pillarbox wal disable --force --yes`, then enable it again"
            }
            _ => return Ok(self),
        };
        Err(LogError::Refused(problem.to_owned()))
    }
}

impl Facts {
    /// Returns why the log cannot be enabled, with what to do.
    fn check(&self, settings: &LogSettings) -> Result<(), String> {
        let role = &self.role;
        let why = if self.is_standby {
            "the server is a standby; run this on its primary".to_owned()
        } else if self.wal_level != "logical" {
            format!(
                "wal_level is {}, so events in the log could not be read; set it and restart the server: ALTER SYSTEM SET wal_level = 'logical';",
                self.wal_level
            )
        } else if self.keep_bytes.is_none() {
            "max_slot_wal_keep_size is -1: without a relay the log would grow until the disk is full; set a limit that fits the disk: ALTER \
             SYSTEM SET max_slot_wal_keep_size = '10GB'; SELECT pg_reload_conf();"
                .to_owned()
        } else if self.encoding != "UTF8" {
            format!(
                "the database is encoded in {}, and events in the log must be UTF-8; use a database with the encoding UTF8",
                self.encoding
            )
        } else if !self.may_replicate {
            format!(
                "the role {role} may not create replication slots; as a superuser run: ALTER ROLE \"{role}\" REPLICATION; (on Amazon RDS: GRANT \
                 rds_replication TO \"{role}\";). The role of the relay needs it, too"
            )
        } else if !self.may_publish {
            let database = &self.database;
            format!(
                "the role {role} may not create a publication; as the owner of the database run: GRANT CREATE ON DATABASE \"{database}\" TO \"{role}\";"
            )
        } else if self.free_slots < 1 {
            "all replication slots are in use; raise max_replication_slots and restart the server".to_owned()
        } else if self.standbys > 0 && self.version < FAILOVER_SLOTS && !settings.accept_failover_loss {
            "the server has a standby, and before version 17 standbys do not copy replication slots: events that are in the log and not delivered \
             when the standby is promoted would be lost; upgrade to PostgreSQL 17, or accept that with [source] accept_failover_loss = true"
                .to_owned()
        } else {
            return Ok(());
        };
        Err(why)
    }
}

/// Returns the error of the server when it refused to create something, with what to do.
fn refused(error: &Error, what: &str, name: &str, facts: &Facts) -> LogError {
    let role = &facts.role;
    LogError::Refused(match error.code() {
        // duplicate_object.
        Some("42710") => format!(
            "the {what} {name} exists already and belongs to no enabled log; if nothing else uses it, drop it (SELECT \
             pg_drop_replication_slot('{name}'); DROP PUBLICATION IF EXISTS {name};), or choose another name with --slot"
        ),
        Some(DENIED) => format!("creating the {what} {name} was denied: {error}; run this as another role than {role}"),
        _ => format!("creating the {what} {name} failed: {error}"),
    })
}

/// Returns the usual name of the slot. Slots of all databases of a server share their names.
fn slot_name(schema: &str, database: &str) -> String {
    let name = format!("pillarbox_{schema}_{database}").to_lowercase();
    let clean = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    name.chars().map(clean).take(NAME_LIMIT).collect()
}

fn checked(name: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if name.starts_with(|first: char| !first.is_ascii_digit()) && name.chars().all(fits) && name.len() <= NAME_LIMIT {
        Ok(name.to_owned())
    } else {
        Err(format!(
            "{name:?} is not a valid name of a slot: use at most {NAME_LIMIT} small letters, digits and underscores, and do not start with a digit"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Facts {
        Facts {
            wal_level: "logical".to_owned(),
            version: 150_000,
            encoding: "UTF8".to_owned(),
            database: "shop".to_owned(),
            role: "ann".to_owned(),
            is_standby: false,
            keep_bytes: Some(1 << 30),
            idle_timeout: None,
            free_slots: 3,
            may_replicate: true,
            may_publish: true,
            standbys: 0,
        }
    }

    #[test]
    fn each_refusal_says_what_to_do() {
        let settings = LogSettings::default();
        assert_eq!(good().check(&settings), Ok(()));
        let cases = [
            (Facts { is_standby: true, ..good() }, "run this on its primary"),
            (Facts { wal_level: "replica".to_owned(), ..good() }, "ALTER SYSTEM SET wal_level = 'logical'"),
            (Facts { keep_bytes: None, ..good() }, "ALTER SYSTEM SET max_slot_wal_keep_size"),
            (Facts { encoding: "LATIN1".to_owned(), ..good() }, "encoding UTF8"),
            (Facts { may_replicate: false, ..good() }, "ALTER ROLE \"ann\" REPLICATION"),
            (Facts { may_publish: false, ..good() }, "GRANT CREATE ON DATABASE \"shop\" TO \"ann\""),
            (Facts { free_slots: 0, ..good() }, "raise max_replication_slots"),
            (Facts { standbys: 1, ..good() }, "accept_failover_loss = true"),
        ];
        for (facts, fix) in cases {
            let why = facts.check(&settings).unwrap_err();
            assert!(why.contains(fix), "{why}");
        }
        let accepts = LogSettings { accept_failover_loss: true, ..LogSettings::default() };
        assert_eq!(Facts { standbys: 1, ..good() }.check(&accepts), Ok(()));
        assert_eq!(Facts { standbys: 1, version: FAILOVER_SLOTS, ..good() }.check(&settings), Ok(()));
    }

    #[test]
    fn names_of_slots_are_clean() {
        assert_eq!(slot_name("public", "shop"), "pillarbox_public_shop");
        assert_eq!(slot_name("Mail", "my-Shop é"), "pillarbox_mail_my_shop__");
        assert_eq!(slot_name("public", &"x".repeat(90)).len(), NAME_LIMIT);
        assert!(checked("my_slot_2").is_ok());
        for bad in ["", "2nd", "My", "a-b", "a b", &"x".repeat(64)] {
            assert!(checked(bad).is_err(), "{bad}");
        }
    }
}
