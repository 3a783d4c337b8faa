//! Problems of the log, for `doctor`. Pure, but for the reading of the status.

use super::LogStatus;
use crate::store::examine::Finding;
use crate::store::postgres::PostgresStore;
use crate::store::postgres::error::Error;

pub(super) const ABOUT: &str = "log";
/// The bytes of undelivered log above which they are reported.
const MUCH: i64 = 64 * 1024 * 1024;
/// The age of the oldest undelivered event in the log above which it is reported, in seconds.
const LATE: f64 = 60.0;

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
        if self.is_standby {
            return vec![self.copy()];
        }
        let checks = [
            self.level(),
            self.server(),
            self.limit(),
            self.reading(),
            self.rights(),
            self.failover(),
            self.waiting(),
            self.synchronous(),
            self.idle(),
        ];
        let mut findings: Vec<Finding> = checks.into_iter().flatten().collect();
        if findings.is_empty() {
            let bytes = self.undelivered_bytes.unwrap_or_default();
            let state = if self.is_open { "takes events" } else { "is read, and takes no events yet" };
            let lag = format!("{} and {:.0} s behind", size(bytes), self.behind_seconds);
            findings.push(Finding::good(ABOUT, format!("the write-ahead log {state}; {lag}")));
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
                "compare with the application's data; then `pillarbox wal disable --force --yes` and `pillarbox wal enable`"
                    .to_owned()
            }
            Some(table) => format!(
                "compare with the application's data and the rows that are left in {table}; then `pillarbox wal disable --force --yes` and \
                 `pillarbox wal enable --table {table}`"
            ),
        };
        let status = self.wal_status.as_deref();
        if !self.has_slot {
            return Some(Finding::bad(ABOUT, format!("the replication slot {slot} does not exist; {at_risk}"), fix));
        }
        if self.has_moved {
            let to = self.flushed.as_deref().unwrap_or_default();
            let found = format!(
                "the replication slot {slot} was created again or moved by another program; events in the log between {from} and {to} may be lost"
            );
            return Some(Finding::bad(ABOUT, found, fix));
        }
        match status {
            Some("lost") => {
                let why = match self.invalidation.as_deref() {
                    None | Some("wal_removed") => "the server has removed log that it needs".to_owned(),
                    Some(why) => format!("the server has invalidated it ({why})"),
                };
                Some(Finding::bad(ABOUT, format!("the replication slot {slot} is lost: {why}; {at_risk}"), fix))
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
        (bytes > MUCH || self.behind_seconds > LATE).then(|| {
            let found = format!("the relay is {} of log and {:.0} s behind", size(bytes), self.behind_seconds);
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
            Some(true) if self.standby_slots.is_some() => None,
            Some(true) => {
                let found = "synchronized_standby_slots is empty: events may be delivered and the slot may move before the standby has the log, \
                             so that after a promotion nobody can say what was lost";
                Some(Finding::notice(
                    ABOUT,
                    found,
                    "ALTER SYSTEM SET synchronized_standby_slots = 'NAME'; SELECT pg_reload_conf(); with the standby's primary_slot_name",
                ))
            }
            Some(false) => {
                let found = format!("{}, and the replication slot {} is not copied there", count(standbys), self.slot);
                Some(Finding::notice(ABOUT, found, "disable the log and enable it again; see docs/wal.md on failover"))
            }
            None => {
                let found = format!("{}: undelivered events in the log are lost when it is promoted", count(standbys));
                Some(Finding::notice(ABOUT, found, "PostgreSQL 17 or newer copies replication slots to standbys"))
            }
        }
    }

    /// Checks the standbys that the server waits for. A promoted server may wait for a slot that only the old one had.
    fn waiting(&self) -> Option<Finding> {
        let held = "so the server holds the log back, and events go into the table";
        let without = "ALTER SYSTEM SET synchronized_standby_slots = ''; SELECT pg_reload_conf();";
        if self.fails_over != Some(true) {
            return None;
        }
        if let Some(absent) = &self.absent_standby_slots {
            let found = format!("synchronized_standby_slots names {absent}, which does not exist, {held}");
            let fix = format!("create the slot and its standby, or, if it is gone: {without}");
            return Some(Finding::bad(ABOUT, found, fix));
        }
        let idle = self.idle_standby_slots.as_ref()?;
        let found = format!("synchronized_standby_slots names {idle}, whose standby is not connected, {held}");
        Some(Finding::bad(ABOUT, found, format!("start the standby, or, if it is gone: {without}")))
    }

    /// Checks whether the server gives the slot up while no relay reads it.
    fn idle(&self) -> Option<Finding> {
        let timeout = self.idle_timeout.as_ref()?;
        let found = format!(
            "idle_replication_slot_timeout is {timeout}: when no relay reads for so long, the slot and undelivered events in the log are lost"
        );
        let fix = "ALTER SYSTEM SET idle_replication_slot_timeout = 0; SELECT pg_reload_conf(); max_slot_wal_keep_size protects the disk";
        Some(Finding::notice(ABOUT, found, fix))
    }

    /// Checks that no commit waits for the relay.
    fn synchronous(&self) -> Option<Finding> {
        self.is_synchronous.then(|| {
            let found = "synchronous_standby_names matches the relay's connection pillarbox/log, so the relay does not read the log: commits \
                         would wait for it";
            let fix = "name the standbys, by the application_name of their primary_conninfo: ALTER SYSTEM SET synchronous_standby_names = 'NAME'; \
                       SELECT pg_reload_conf();";
            Finding::bad(ABOUT, found, fix)
        })
    }

    /// Checks the copy of the slot on a standby.
    fn copy(&self) -> Finding {
        let (slot, at) = (&self.slot, self.flushed.as_deref().unwrap_or("its beginning"));
        let lost = "undelivered events in the log are lost if it is promoted now";
        let set_up = "on this server: sync_replication_slots = on, hot_standby_feedback = on, primary_slot_name, and a dbname in \
                      primary_conninfo; on the primary `pillarbox wal enable` with PostgreSQL 17 or newer. See docs/wal.md on failover";
        if !self.has_slot {
            let found = format!("this server is a standby without the replication slot {slot}: {lost}");
            return Finding::bad(ABOUT, found, set_up);
        }
        if self.is_synced != Some(true) {
            let found =
                format!("this server is a standby, and its replication slot {slot} is not the primary's: {lost}");
            return Finding::bad(ABOUT, found, format!("drop it here; then {set_up}"));
        }
        if self.is_temporary {
            let found =
                format!("this server is a standby, and the replication slot {slot} is not synchronised yet: {lost}");
            let fix =
                "wait while a relay reads the log; `SELECT pg_log_standby_snapshot()` on the primary makes it sooner";
            return Finding::bad(ABOUT, found, fix);
        }
        if self.wal_status.as_deref() == Some("lost") {
            let why = self.invalidation.as_deref().unwrap_or("its log was removed");
            let found = format!(
                "this server is a standby, and its copy of the replication slot {slot} is lost ({why}): {lost}"
            );
            return Finding::bad(ABOUT, found, set_up);
        }
        Finding::good(
            ABOUT,
            format!("this server is a standby and has the replication slot {slot}, synchronised up to {at}"),
        )
    }
}

fn count(standbys: i64) -> String {
    if standbys == 1 { "a standby is connected".to_owned() } else { format!("{standbys} standbys are connected") }
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
            confirmed_at: chrono::DateTime::UNIX_EPOCH,
            behind_seconds: 1.2,
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
            flushed: Some("0/16B3700".to_owned()),
            has_moved: false,
            invalidation: None,
            fails_over: None,
            is_synced: None,
            is_temporary: false,
            standby_slots: None,
            absent_standby_slots: None,
            idle_standby_slots: None,
            is_standby: false,
            is_synchronous: false,
            wal_level: "logical".to_owned(),
            keep_bytes: Some(1000),
            idle_timeout: None,
            standbys: 0,
            may_replicate: true,
        }
    }

    #[test]
    fn a_good_log_is_good() {
        let findings = good().findings();
        assert_eq!((findings.len(), findings[0].level), (1, Level::Good), "{findings:?}");
        assert!(findings[0].found.contains("takes events; 100 bytes and 1 s behind"), "{findings:?}");
    }

    #[test]
    fn each_problem_is_found() {
        let cases = [
            (LogStatus { wal_level: "replica".to_owned(), ..good() }, Level::Bad, "wal_level is replica"),
            (LogStatus { has_slot: false, ..good() }, Level::Bad, "events in the log behind 0/16B3748 may be lost"),
            (LogStatus { wal_status: Some("lost".to_owned()), ..good() }, Level::Bad, "has removed log"),
            (
                LogStatus {
                    wal_status: Some("lost".to_owned()),
                    invalidation: Some("idle_timeout".to_owned()),
                    ..good()
                },
                Level::Bad,
                "the replication slot s is lost: the server has invalidated it (idle_timeout); events in the log behind 0/16B3748",
            ),
            (
                LogStatus { flushed: Some("0/16B4000".to_owned()), has_moved: true, ..good() },
                Level::Bad,
                "created again or moved by another program; events in the log between 0/16B3748 and 0/16B4000 may be lost",
            ),
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
            (LogStatus { undelivered_bytes: Some(MUCH + 1), ..good() }, Level::Notice, "64 MB of log and 1 s behind"),
            (LogStatus { behind_seconds: 61.0, ..good() }, Level::Notice, "61 s behind"),
            (LogStatus { may_replicate: false, ..good() }, Level::Bad, "may not read replication slots"),
            (LogStatus { standbys: 1, ..good() }, Level::Notice, "a standby is connected: undelivered events"),
            (LogStatus { standbys: 2, fails_over: Some(false), ..good() }, Level::Notice, "not copied"),
            (LogStatus { standbys: 1, fails_over: Some(true), ..good() }, Level::Notice, "slots is empty"),
            (
                LogStatus { absent_standby_slots: Some("b".to_owned()), ..copied() },
                Level::Bad,
                "synchronized_standby_slots names b, which does not exist",
            ),
            (
                LogStatus { idle_timeout: Some("1d".to_owned()), ..good() },
                Level::Notice,
                "timeout is 1d: when no relay",
            ),
            (LogStatus { is_synchronous: true, ..good() }, Level::Bad, "commits would wait for it"),
            (LogStatus { idle_standby_slots: Some("a".to_owned()), ..copied() }, Level::Bad, "is not connected"),
            (LogStatus { is_standby: true, has_slot: false, ..good() }, Level::Bad, "a standby without"),
            (LogStatus { is_standby: true, is_synced: Some(false), ..good() }, Level::Bad, "is not the primary's"),
            (
                LogStatus { is_standby: true, is_synced: Some(true), is_temporary: true, ..good() },
                Level::Bad,
                "is not synchronised yet",
            ),
            (
                LogStatus {
                    is_standby: true,
                    is_synced: Some(true),
                    wal_status: Some("lost".to_owned()),
                    invalidation: Some("rows_removed".to_owned()),
                    ..good()
                },
                Level::Bad,
                "is lost (rows_removed)",
            ),
        ];
        for (status, level, text) in cases {
            let findings = status.findings();
            assert_eq!((findings.len(), findings[0].level), (1, level), "{findings:?}");
            assert!(findings[0].found.contains(text), "{findings:?}");
        }
        assert_eq!(copied().findings()[0].level, Level::Good);
        let standby = LogStatus { is_standby: true, is_synced: Some(true), is_led: false, ..good() }.findings();
        assert_eq!((standby.len(), standby[0].level), (1, Level::Good));
        assert!(standby[0].found.contains("synchronised up to 0/16B3700"), "{standby:?}");
    }

    /// A log whose slot is copied to a standby that the server waits for.
    fn copied() -> LogStatus {
        LogStatus { standbys: 1, fails_over: Some(true), standby_slots: Some("a".to_owned()), ..good() }
    }
}
