//! A primary and its synchronous standby, which swap roles.

use std::time::Duration;

use anyhow::Result;
use pillarbox::store::postgres::PostgresStore;
use pillarbox_testkit::{PrivatePostgres, wait_until};
use sqlx::{Connection, PgConnection};

const PATIENCE: Duration = Duration::from_secs(60);
/// Settings with which a killed server leaves nothing behind on the machine.
const SETTINGS: &[(&str, &str)] = &[("fsync", "off"), ("dynamic_shared_memory_type", "mmap")];

pub(crate) struct Cluster {
    primary: PrivatePostgres,
    standby: PrivatePostgres,
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
        Ok(Self { primary, standby })
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
        sqlx::query("ALTER SYSTEM SET synchronous_standby_names = '*'").execute(&mut connection).await?;
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
        self.standby = self.primary.start_standby_on(self.standby.port()).await;
    }
}
