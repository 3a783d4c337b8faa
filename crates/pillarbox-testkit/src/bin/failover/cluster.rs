//! A primary and its synchronous standby, which swap roles. With slots, events are in the log, and the standby copies its slot.

use std::time::Duration;

use anyhow::Result;
use pillarbox::store::postgres::{LogSettings, PostgresStore};
use pillarbox_testkit::{PrivatePostgres, wait_until};
use sqlx::{AssertSqlSafe, Connection, PgConnection};

const PATIENCE: Duration = Duration::from_secs(60);
/// Settings with which a killed server leaves nothing behind on the machine.
const SETTINGS: &[(&str, &str)] = &[("fsync", "off"), ("dynamic_shared_memory_type", "mmap")];

/// The settings with slots, besides.
const LOGICAL: &[(&str, &str)] = &[("wal_level", "logical"), ("max_slot_wal_keep_size", "1GB")];
/// The version with slots: the newest.
const VERSION: u32 = 18;
/// The physical slot of each standby.
const SLOT: &str = "standby";

pub(crate) struct Cluster {
    primary: PrivatePostgres,
    standby: PrivatePostgres,
    with_slots: bool,
}

/// Creates the outbox's tables.
pub(crate) async fn migrate(url: &str) -> Result<()> {
    PostgresStore::connect(url, "public").await?.migrate().await?;
    Ok(())
}

impl Cluster {
    pub(crate) async fn start() -> Result<Self> {
        let primary = PrivatePostgres::start_with(SETTINGS).await;
        migrate(&primary.url()).await?;
        let standby = primary.start_standby().await;
        Ok(Self { primary, standby, with_slots: false })
    }

    /// Starts servers whose log is the outbox. The standby copies the slot.
    pub(crate) async fn start_with_slots() -> Result<Self> {
        let primary = PrivatePostgres::start_version(VERSION, &[SETTINGS, LOGICAL].concat()).await;
        migrate(&primary.url()).await?;
        let store = PostgresStore::connect(&primary.url(), "public").await?;
        store.log_enable(&LogSettings::default(), &mut |_| {}).await?;
        let standby = primary.start_standby_with_slots(SLOT, None).await;
        Ok(Self { primary, standby, with_slots: true })
    }

    pub(crate) fn ports(&self) -> [u16; 2] {
        [self.primary.port(), self.standby.port()]
    }

    /// Returns a URL with both servers.
    pub(crate) fn url(&self) -> String {
        let [one, other] = self.ports();
        format!("postgres://postgres@127.0.0.1:{one},127.0.0.1:{other}/postgres?target_session_attrs=read-write")
    }

    /// Makes replication synchronous: every commit that is confirmed from now on, and every earlier one, is on the standby.
    pub(crate) async fn make_synchronous(&self) -> Result<()> {
        let mut connection = PgConnection::connect(&self.primary.url()).await?;
        // Not `*`, which is also the connection of a relay that reads the log.
        sqlx::query("ALTER SYSTEM SET synchronous_standby_names = 'walreceiver'").execute(&mut connection).await?;
        if self.with_slots {
            let slots = format!("ALTER SYSTEM SET synchronized_standby_slots = '{SLOT}'");
            sqlx::query(AssertSqlSafe(slots)).execute(&mut connection).await?;
        }
        sqlx::query("SELECT pg_reload_conf()").execute(&mut connection).await?;
        let state = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync' AND state = 'streaming'";
        wait_until("the standby is synchronous", PATIENCE, async || {
            sqlx::query_scalar::<_, i64>(state).fetch_one(&mut connection).await.is_ok_and(|standbys| standbys == 1)
        })
        .await;
        // The view is by the setting as this session has read it. Commits wait only after the checkpointer has read it, too, which it
        // does before it begins a checkpoint. On a busy machine that is later.
        for _ in 0..2 {
            sqlx::query("CHECKPOINT").execute(&mut connection).await?;
        }
        // This commit waits for the standby, which then also has everything before it.
        sqlx::query("CREATE TABLE IF NOT EXISTS marker ()").execute(&mut connection).await?;
        sqlx::query("DROP TABLE marker").execute(&mut connection).await?;
        if self.with_slots {
            self.wait_for_the_copy(&mut connection).await?;
        }
        Ok(())
    }

    /// Waits until the standby has a copy of the slot that survives a promotion, and events go into the log.
    async fn wait_for_the_copy(&self, primary: &mut PgConnection) -> Result<()> {
        let mut standby = PgConnection::connect(&self.standby.url()).await?;
        let copied =
            "SELECT count(*) FROM pg_replication_slots WHERE synced AND NOT temporary AND invalidation_reason IS NULL";
        wait_until("the standby has the slot", PATIENCE, async || {
            let told = sqlx::query("SELECT pg_log_standby_snapshot()").execute(&mut *primary).await;
            told.is_ok()
                && sqlx::query_scalar::<_, i64>(copied).fetch_one(&mut standby).await.is_ok_and(|slots| slots == 1)
        })
        .await;
        self.wait_for_the_gate().await
    }

    /// Waits until events go into the log of the primary.
    pub(crate) async fn wait_for_the_gate(&self) -> Result<()> {
        let store = PostgresStore::connect(&self.primary.url(), "public").await?;
        wait_until("events go into the log", PATIENCE, async || {
            store.log_status().await.is_ok_and(|status| status.is_some_and(|status| status.is_open && status.is_here))
        })
        .await;
        Ok(())
    }

    /// Waits until everything that is in the log by now is delivered or in the table.
    pub(crate) async fn wait_until_drained(&self) -> Result<()> {
        if !self.with_slots {
            return Ok(());
        }
        let mut connection = PgConnection::connect(&self.primary.url()).await?;
        let end: String =
            sqlx::query_scalar("SELECT pg_current_wal_insert_lsn()::text").fetch_one(&mut connection).await?;
        let drained = "SELECT coalesce(confirmed >= $1::pg_lsn, false) FROM outbox_log";
        wait_until("the log is drained", PATIENCE, async || {
            sqlx::query_scalar(drained).bind(&end).fetch_one(&mut connection).await.is_ok_and(|drained| drained)
        })
        .await;
        Ok(())
    }

    pub(crate) async fn kill_primary(&mut self) {
        self.primary.kill().await;
    }

    /// Promotes the standby. The new primary waits for no standby.
    pub(crate) async fn promote(&mut self) {
        self.standby.promote().await;
        std::mem::swap(&mut self.primary, &mut self.standby);
    }

    /// Restarts the killed server as a standby, on its port.
    pub(crate) async fn rebuild_standby(&mut self) {
        let port = self.standby.port();
        self.standby = if self.with_slots {
            self.primary.start_standby_with_slots(SLOT, Some(port)).await
        } else {
            self.primary.start_standby_on(port).await
        };
    }
}
