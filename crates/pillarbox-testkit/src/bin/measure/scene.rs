//! The scene of a measurement: a PostgreSQL of its own with the outbox in it, and relays as processes.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use pillarbox::store::postgres::PostgresStore;
use pillarbox::{Event, Inspect, emit_all};
use pillarbox_testkit::{PrivatePostgres, Program};
use tempfile::TempDir;

pub(crate) struct Scene {
    pub(crate) store: PostgresStore,
    server: PrivatePostgres,
    dir: TempDir,
    program: PathBuf,
}

impl Scene {
    /// Starts the server with its own defaults, except for a buffer that fits the table.
    pub(crate) async fn set() -> Result<Self> {
        Self::set_with(&[("shared_buffers", "512MB")]).await
    }

    /// As above, with a log that can be read.
    pub(crate) async fn set_logical() -> Result<Self> {
        let settings = [("shared_buffers", "512MB"), ("wal_level", "logical"), ("max_slot_wal_keep_size", "4GB")];
        Self::set_with(&settings).await
    }

    async fn set_with(settings: &[(&str, &str)]) -> Result<Self> {
        let program = std::env::current_exe()?.with_file_name("pillarbox");
        ensure!(program.exists(), "there is no {}; `cargo build --release -p pillarbox-cli`", program.display());
        let server = PrivatePostgres::start_with(settings).await;
        let store = PostgresStore::connect(&server.url(), "public").await?;
        store.migrate().await?;
        Ok(Self { store, server, dir: tempfile::tempdir()?, program })
    }

    /// Starts a relay with this configuration in addition to the database's.
    pub(crate) fn relay(&self, configuration: &str) -> Result<Program> {
        let config = self.dir.path().join(format!("{:?}.toml", Instant::now()));
        std::fs::write(&config, format!("[database]\nurl = \"{}\"\n{configuration}", self.server.url()))?;
        let mut command = std::process::Command::new(&self.program);
        command.arg("relay").arg("--config").arg(config).env("RUST_LOG", "warn");
        Ok(Program::start(command))
    }

    /// Commits this many events of a type, about 490 bytes of payload each, a thousand per transaction.
    pub(crate) async fn emit(&self, event_type: &str, count: usize) -> Result<()> {
        let payload = serde_json::json!({ "filler": "x".repeat(470) });
        let mut left = count;
        while left > 0 {
            let batch = left.min(1000);
            let event = |_| Event::new("Order", left, event_type).repeatable().payload(&payload);
            let mut tx = self.store.pool().begin().await?;
            emit_all(&mut tx, (0..batch).map(event)).await?;
            tx.commit().await?;
            left -= batch;
        }
        Ok(())
    }

    /// Commits this many events of a type in one transaction.
    pub(crate) async fn emit_at_once(&self, event_type: &str, count: usize) -> Result<()> {
        let payload = serde_json::json!({ "filler": "x".repeat(470) });
        let mut tx = self.store.pool().begin().await?;
        for first in (0..count).step_by(1000) {
            let event = |number| Event::new("Order", number, event_type).repeatable().payload(&payload);
            emit_all(&mut tx, (first..count.min(first + 1000)).map(event)).await?;
        }
        tx.commit().await?;
        Ok(())
    }

    /// Commits this many events of as many aggregates, a thousand per transaction. Returns their ids, in order.
    pub(crate) async fn emit_spread(&self, count: usize, aggregates: usize) -> Result<Vec<String>> {
        let payload = serde_json::json!({ "filler": "x".repeat(470) });
        let mut ids = Vec::with_capacity(count);
        while ids.len() < count {
            let numbers = ids.len()..count.min(ids.len() + 1000);
            let event =
                |number: usize| Event::new("Order", number % aggregates, "order.placed").repeatable().payload(&payload);
            let mut tx = self.store.pool().begin().await?;
            let emitted = emit_all(&mut tx, numbers.map(event)).await?;
            tx.commit().await?;
            ids.extend(emitted.into_iter().map(|emitted| emitted.id.to_string()));
        }
        Ok(ids)
    }

    /// Waits until this many events are delivered, or the time is up.
    pub(crate) async fn delivered(&self, count: u64, patience: Duration) -> Result<()> {
        let began = Instant::now();
        loop {
            let counts = self.store.counts().await?;
            if counts.delivered >= count {
                return Ok(());
            }
            ensure!(began.elapsed() < patience, "after {patience:?} there are {counts:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub(crate) async fn strike(mut self) {
        self.server.stop().await;
    }
}

/// Returns the configuration that routes all events of a pattern to an HTTP destination.
pub(crate) fn destination(name: &str, events: &str, url: &str) -> String {
    format!(
        "[destinations.{name}]\nkind = \"http\"\nurl = \"{url}\"\nallow_private = true\ntimeout = \"2s\"\n\
         [[routes]]\nevents = \"{events}\"\nto = [\"{name}\"]\n"
    )
}
