//! Problems of the log, for `doctor`. Pure, but for the reading of the status.

use super::LogStatus;
use crate::store::examine::Finding;
use crate::store::postgres::PostgresStore;
use crate::store::postgres::error::Error;

const ABOUT: &str = "log";
/// The bytes of undelivered log above which they are reported.
const MUCH: i64 = 64 * 1024 * 1024;

impl PostgresStore {
    /// Checks the log. Without one there is nothing to say.
    pub(in crate::store::postgres) async fn log_findings(&self) -> Result<Vec<Finding>, Error> {
        Ok(self.read_log_status().await?.map_or(Vec::new(), |status| status.findings()))
    }
}

impl LogStatus {
    /// Returns the problems of the log and what to do about each, or that there is none.
    #[must_use]
    pub fn findings(&self) -> Vec<Finding> {
        let mut findings: Vec<Finding> =
            [self.level(), self.server(), self.limit(), self.reading(), self.rights(), self.failover()]
                .into_iter()
                .flatten()
                .collect();
        if findings.is_empty() {
            let bytes = self.undelivered_bytes.unwrap_or_default();
            let state = if self.is_open { "takes events" } else { "is read, and takes no events yet" };
            findings.push(Finding::good(ABOUT, format!("the write-ahead log {state}; {} behind", size(bytes))));
        }
        findings
    }

    fn level(&self) -> Option<Finding> {
        (self.wal_level != "logical").then(|| {
            let found = format!(
                "wal_level is {}: events in the log could not be read, so all go into the table",
                self.wal_level
            );
            Finding::bad(ABOUT, found, "ALTER SYSTEM SET wal_level = 'logical'; and restart the server")
        })
    }

    /// Checks the slot. What was in the log of a lost slot and not delivered is lost, and a person must know.
    fn server(&self) -> Option<Finding> {
        let (slot, from) = (&self.slot, self.confirmed.as_deref().unwrap_or("its beginning"));
        let at_risk = format!("events in the log behind {from} may be lost");
        let fix = match self.tables.first() {
            None => {
                "compare with the application's data; then `pillarbox wal disable --force` and `pillarbox wal enable`"
                    .to_owned()
            }
            Some(table) => format!(
                "compare with the application's data and the rows that are left in {table}; then `pillarbox wal disable --force` and `pillarbox \
                 wal enable --table {table}`"
            ),
        };
        let status = self.wal_status.as_deref();
        if !self.has_slot {
            return Some(Finding::bad(ABOUT, format!("the replication slot {slot} does not exist; {at_risk}"), fix));
        }
        match status {
            Some("lost") => {
                let found = format!("the server has removed log that the replication slot {slot} needs; {at_risk}");
                Some(Finding::bad(ABOUT, found, fix))
            }
            Some("unreserved") => {
                let found = format!(
                    "the replication slot {slot} is about to be lost: more log is kept than max_slot_wal_keep_size"
                );
                Some(Finding::bad(
                    ABOUT,
                    found,
                    "start a relay, end long transactions, or raise max_slot_wal_keep_size now",
                ))
            }
            _ => None,
        }
    }

    fn limit(&self) -> Option<Finding> {
        let Some(keep) = self.keep_bytes else {
            let found = "max_slot_wal_keep_size is -1: without a relay the log grows until the disk is full";
            return Some(Finding::bad(
                ABOUT,
                found,
                "ALTER SYSTEM SET max_slot_wal_keep_size = '10GB'; SELECT pg_reload_conf();",
            ));
        };
        let left = self.safe_wal_bytes.filter(|left| *left < keep / 4)?;
        let found = format!(
            "{} of log until the replication slot is lost; the server keeps {}",
            size(left),
            size(self.retained_bytes?)
        );
        Some(Finding::bad(ABOUT, found, "look for long transactions and slow relays, or raise max_slot_wal_keep_size"))
    }

    fn reading(&self) -> Option<Finding> {
        let bytes = self.undelivered_bytes.unwrap_or_default();
        if self.leaving {
            let found = format!("the log is being disabled; {} are left", size(bytes));
            return Some(Finding::notice(ABOUT, found, "finish it: `pillarbox wal disable`"));
        }
        if !self.is_led {
            let found = format!("no relay reads the log, so {}; {} of it are unread", self.waits(), size(bytes));
            return Some(Finding::bad(ABOUT, found, "start a relay with [source] kind = \"wal\""));
        }
        if !self.is_here {
            let found = "the log's leader has read another timeline: the server was promoted; events go into the table until it leads here";
            return Some(Finding::notice(ABOUT, found, "restart the relay if this stays"));
        }
        if !self.closed.is_empty() {
            return Some(Finding::notice(ABOUT, format!("the log takes no events: {}", self.closed), ""));
        }
        (bytes > MUCH).then(|| {
            let found = format!("the relay is {} of log behind", size(bytes));
            Finding::notice(ABOUT, found, "look at its destinations, and for long transactions, which keep the log")
        })
    }

    /// Returns what becomes of events while nobody reads.
    fn waits(&self) -> String {
        match self.tables.first() {
            None => "events go into the table".to_owned(),
            Some(table) => format!("rows of {table} wait in it, and other events go into the table"),
        }
    }

    fn rights(&self) -> Option<Finding> {
        (!self.may_replicate).then(|| {
            let fix = "as a superuser: ALTER ROLE … REPLICATION; (on Amazon RDS: GRANT rds_replication TO …;)";
            Finding::bad(ABOUT, "this role may not read replication slots, so its relay cannot read the log", fix)
        })
    }

    fn failover(&self) -> Option<Finding> {
        let standbys = self.standbys;
        match self.fails_over {
            _ if standbys == 0 => None,
            Some(true) => None,
            Some(false) => {
                let found =
                    format!("{standbys} standbys, and the replication slot {} is not copied to them", self.slot);
                Some(Finding::notice(ABOUT, found, "disable the log and enable it again; see docs/wal.md on failover"))
            }
            None => {
                let found =
                    format!("{standbys} standbys: undelivered events in the log are lost when one of them is promoted");
                Some(Finding::notice(ABOUT, found, "PostgreSQL 17 or newer copies replication slots to standbys"))
            }
        }
    }
}

/// Returns a number of bytes for people.
fn size(bytes: i64) -> String {
    match bytes {
        ..10_240 => format!("{bytes} bytes"),
        10_240..10_485_760 => format!("{} kB", bytes / 1024),
        _ => format!("{} MB", bytes / 1_048_576),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Level;

    fn good() -> LogStatus {
        LogStatus {
            slot: "s".to_owned(),
            publication: "s".to_owned(),
            tables: Vec::new(),
            enabled_at: chrono::DateTime::UNIX_EPOCH,
            epoch: 1,
            leader: Some(uuid::Uuid::nil()),
            leader_until: None,
            is_led: true,
            confirmed: Some("0/16B3748".to_owned()),
            undelivered_bytes: Some(100),
            is_open: true,
            closed: String::new(),
            leaving: false,
            size_limit: Some(65_536),
            is_here: true,
            has_slot: true,
            is_active: true,
            wal_status: Some("reserved".to_owned()),
            safe_wal_bytes: Some(900),
            retained_bytes: Some(100),
            fails_over: None,
            wal_level: "logical".to_owned(),
            keep_bytes: Some(1000),
            standbys: 0,
            may_replicate: true,
        }
    }

    #[test]
    fn a_good_log_is_good() {
        let findings = good().findings();
        assert_eq!((findings.len(), findings[0].level), (1, Level::Good), "{findings:?}");
        assert!(findings[0].found.contains("takes events; 100 bytes behind"), "{findings:?}");
    }

    #[test]
    fn each_problem_is_found() {
        let cases = [
            (LogStatus { wal_level: "replica".to_owned(), ..good() }, Level::Bad, "wal_level is replica"),
            (LogStatus { has_slot: false, ..good() }, Level::Bad, "events in the log behind 0/16B3748 may be lost"),
            (LogStatus { wal_status: Some("lost".to_owned()), ..good() }, Level::Bad, "has removed log"),
            (LogStatus { wal_status: Some("unreserved".to_owned()), ..good() }, Level::Bad, "about to be lost"),
            (LogStatus { keep_bytes: None, ..good() }, Level::Bad, "max_slot_wal_keep_size is -1"),
            (LogStatus { safe_wal_bytes: Some(249), ..good() }, Level::Bad, "249 bytes of log until"),
            (LogStatus { is_led: false, ..good() }, Level::Bad, "no relay reads the log"),
            (
                LogStatus { is_led: false, tables: vec!["shop.events".to_owned()], ..good() },
                Level::Bad,
                "no relay reads the log, so rows of shop.events wait in it",
            ),
            (LogStatus { is_here: false, ..good() }, Level::Notice, "promoted"),
            (LogStatus { leaving: true, is_led: false, ..good() }, Level::Notice, "being disabled"),
            (
                LogStatus { closed: "too far behind".to_owned(), ..good() },
                Level::Notice,
                "takes no events: too far behind",
            ),
            (LogStatus { undelivered_bytes: Some(MUCH + 1), ..good() }, Level::Notice, "64 MB of log behind"),
            (LogStatus { may_replicate: false, ..good() }, Level::Bad, "may not read replication slots"),
            (LogStatus { standbys: 1, ..good() }, Level::Notice, "lost when one of them is promoted"),
            (LogStatus { standbys: 1, fails_over: Some(false), ..good() }, Level::Notice, "not copied"),
        ];
        for (status, level, text) in cases {
            let findings = status.findings();
            assert_eq!((findings.len(), findings[0].level), (1, level), "{findings:?}");
            assert!(findings[0].found.contains(text), "{findings:?}");
        }
        assert_eq!(LogStatus { standbys: 1, fails_over: Some(true), ..good() }.findings()[0].level, Level::Good);
    }
}
