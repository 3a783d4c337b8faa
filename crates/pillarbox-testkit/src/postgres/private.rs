//! A PostgreSQL server of one test, for tests that stop or crash it, which must not happen to the shared server.

use std::fs::{self, File};
use std::process::Child;
use std::time::Duration;

use sqlx::{Connection, PgConnection};
use tempfile::TempDir;

use super::install::{self, Install};
use crate::process::Signal;
use crate::{port, wait_until};

const PATIENCE: Duration = Duration::from_secs(120);
/// The settings of a server whose log can be decoded.
const LOGICAL: [(&str, &str); 3] = [("fsync", "off"), ("wal_level", "logical"), ("max_slot_wal_keep_size", "256MB")];

/// A server on a loopback port and in a temporary directory of its own. It ends when the value is dropped.
#[derive(Debug)]
pub struct PrivatePostgres {
    install: Install,
    directory: TempDir,
    port: u16,
    settings: Vec<String>,
    server: Option<Child>,
}

impl PrivatePostgres {
    /// Starts a server without `fsync`: its data survives its own crash, but not the machine's.
    ///
    /// # Panics
    /// When PostgreSQL is missing or does not start.
    pub async fn start() -> Self {
        Self::start_with(&[("fsync", "off")]).await
    }

    /// Starts a server whose log can be decoded, with a limit for what slots keep, and without `fsync`.
    ///
    /// # Panics
    /// When PostgreSQL is missing or does not start.
    pub async fn start_logical() -> Self {
        Self::start_with(&LOGICAL).await
    }

    /// Starts a server with these settings of `postgresql.conf`, and otherwise PostgreSQL's own, durable defaults.
    ///
    /// # Panics
    /// When PostgreSQL is missing or does not start.
    pub async fn start_with(settings: &[(&str, &str)]) -> Self {
        Self::start_installed(Install::chosen(), settings).await
    }

    /// Starts a server of a certain major version, for a test that needs one. The others run on the version that
    /// `PILLARBOX_TEST_POSTGRES_VERSION` chooses.
    ///
    /// # Panics
    /// When this version is missing or does not start.
    pub async fn start_version(version: u32, settings: &[(&str, &str)]) -> Self {
        Self::start_installed(Install::version(version), settings).await
    }

    async fn start_installed(install: Install, settings: &[(&str, &str)]) -> Self {
        let directory = install::directory();
        install.init(&directory.path().join("data"), directory.path());
        let settings = settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let mut postgres = Self { install, directory, port: port::free(), settings, server: None };
        postgres.start_again().await;
        postgres
    }

    /// Starts a server that accepts encrypted connections only, with this certificate and key in PEM.
    ///
    /// # Panics
    /// When PostgreSQL is missing or does not start.
    pub async fn start_encrypted(certificate: &str, key: &str) -> Self {
        let mut postgres = Self::start().await;
        postgres.stop().await;
        let directory = postgres.directory.path();
        for (name, content) in [
            ("server.crt", certificate),
            ("server.key", key),
            ("pg_hba.conf", "hostssl all all all trust\nhostnossl all all all reject\n"),
        ] {
            let draft = directory.join(name);
            fs::write(&draft, content).expect("the file can be written");
            install::give(&draft, &directory.join("data").join(name));
        }
        postgres.settings.push("ssl=on".to_owned());
        postgres.start_again().await;
        postgres
    }

    /// Starts a hot standby of this server: a copy of its data and settings on a port of its own.
    ///
    /// # Panics
    /// When that fails.
    pub async fn start_standby(&self) -> Self {
        self.start_standby_on(port::free()).await
    }

    /// Starts a hot standby on this port, in place of an earlier server.
    ///
    /// # Panics
    /// When that fails.
    pub async fn start_standby_on(&self, port: u16) -> Self {
        self.copy(port, None, &[]).await
    }

    /// Starts a hot standby that copies failover slots, for PostgreSQL 17 and newer: with a physical slot of this name on this
    /// server, with `hot_standby_feedback`, and with `sync_replication_slots`. It may take the port of an earlier server.
    ///
    /// # Panics
    /// When that fails.
    pub async fn start_standby_with_slots(&self, slot: &str, port: Option<u16>) -> Self {
        let settings = [("hot_standby_feedback", "on"), ("sync_replication_slots", "on"), ("primary_slot_name", slot)];
        self.copy(port.unwrap_or_else(port::free), Some(slot), &settings).await
    }

    async fn copy(&self, port: u16, slot: Option<&str>, settings: &[(&str, &str)]) -> Self {
        let directory = install::directory();
        let mut copy = self.install.command("pg_basebackup", directory.path());
        copy.args(["-D", "data", "-R", "-X", "stream", "-c", "fast", "--no-sync", "-d"]).arg(self.url());
        if let Some(slot) = slot {
            copy.args(["--create-slot", "--slot", slot]);
        }
        let copied = tokio::task::spawn_blocking(move || copy.output()).await.expect("pg_basebackup does not panic");
        let copied = copied.expect("pg_basebackup can be started");
        assert!(copied.status.success(), "pg_basebackup: {}", String::from_utf8_lossy(&copied.stderr));
        let own = settings.iter().map(|(name, value)| format!("{name}={value}"));
        // A setting of this server that the standby has, too, is the standby's.
        let inherited = self.settings.iter().filter(|setting| {
            settings.iter().all(|(name, _)| setting.split_once('=').is_none_or(|(inherited, _)| inherited != *name))
        });
        let settings = inherited.cloned().chain(own).collect();
        let mut standby = Self { install: self.install.clone(), directory, port, settings, server: None };
        standby.start_again().await;
        standby
    }

    /// Promotes a standby, and waits until it accepts writes.
    ///
    /// # Panics
    /// When the promotion fails.
    pub async fn promote(&self) {
        let mut connection = PgConnection::connect(&self.url()).await.expect("the standby answers");
        let promoted: bool =
            sqlx::query_scalar("SELECT pg_promote()").fetch_one(&mut connection).await.expect("it can be promoted");
        assert!(promoted, "the standby was not promoted in time");
    }

    /// Kills the server and all its processes by SIGKILL: none of them responds, writes or closes a connection properly any
    /// more.
    ///
    /// # Panics
    /// When it does not end.
    pub async fn kill(&mut self) {
        let Some(postmaster) = self.pid() else { return };
        // Stopped first, so that it does not replace its children.
        Signal::Stop.send(postmaster);
        children(postmaster).into_iter().for_each(|child| Signal::Kill.send(child));
        self.end(Signal::Kill).await;
    }

    /// Returns the URL of its database `postgres`; the same after every restart.
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// Returns the port that it listens on; the same after every restart.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the postmaster's process id, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.server.as_ref().map(Child::id)
    }

    /// Crashes the server and starts it again, on the same port and data: all sessions break, and it recovers from its WAL.
    ///
    /// # Panics
    /// When it does not come back.
    pub async fn restart_immediate(&mut self) {
        self.end(Signal::Quit).await;
        self.start_again().await;
    }

    /// Shuts the server down gracefully: sessions are ended, everything is written. Does nothing when it is stopped.
    ///
    /// # Panics
    /// When it does not end.
    pub async fn stop(&mut self) {
        self.end(Signal::Interrupt).await;
    }

    /// Starts the server after `stop`, and waits until it responds.
    ///
    /// # Panics
    /// When it is running, or does not start, with its log.
    pub async fn start_again(&mut self) {
        assert!(self.server.is_none(), "the server is running");
        let mut server = self.spawn();
        let url = self.url();
        let log = self.directory.path().join("server.log");
        wait_until("PostgreSQL answers", PATIENCE, async || {
            if let Some(status) = server.try_wait().expect("an own child can be asked") {
                panic!("PostgreSQL did not start ({status}): {}", fs::read_to_string(&log).unwrap_or_default());
            }
            PgConnection::connect(&url).await.is_ok()
        })
        .await;
        self.server = Some(server);
    }

    /// Changes a setting, from the next start on.
    pub fn change(&mut self, name: &str, value: &str) {
        self.settings.retain(|setting| setting.split_once('=').is_none_or(|(known, _)| known != name));
        self.settings.push(format!("{name}={value}"));
    }

    /// Starts the server after `stop`, waits until it has ended, and returns its log.
    ///
    /// # Panics
    /// When it goes on running.
    pub async fn refuse_to_start(&mut self) -> String {
        assert!(self.server.is_none(), "the server is running");
        let mut server = self.spawn();
        let ended = async || server.try_wait().expect("an own child can be asked").is_some();
        wait_until("PostgreSQL has refused to start", PATIENCE, ended).await;
        fs::read_to_string(self.directory.path().join("server.log")).expect("the log can be read")
    }

    fn spawn(&self) -> Child {
        let directory = self.directory.path();
        let log = File::options().create(true).append(true).open(directory.join("server.log"));
        let log = log.expect("the log can be opened");
        let mut command = self.install.command("postgres", directory);
        command.args(["-D", "data", "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="]);
        command.arg("-c").arg(format!("port={}", self.port));
        for setting in &self.settings {
            command.arg("-c").arg(setting);
        }
        command.stdout(log.try_clone().expect("the log can be shared")).stderr(log);
        command.spawn().expect("PostgreSQL can be started")
    }

    async fn end(&mut self, signal: Signal) {
        let Some(mut server) = self.server.take() else { return };
        signal.send(server.id());
        let ended = async || server.try_wait().expect("an own child can be asked").is_some();
        wait_until("PostgreSQL has ended", PATIENCE, ended).await;
    }
}

/// Returns the child processes of a process.
fn children(parent: u32) -> Vec<u32> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let parent_of = |pid: u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // After the name, which may contain anything, come the state and the parent.
        stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse::<u32>().ok()
    };
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| parent_of(*pid) == Some(parent)).collect()
}

impl Drop for PrivatePostgres {
    fn drop(&mut self) {
        if let Some(mut server) = self.server.take() {
            Signal::Quit.send(server.id());
            // The directory is deleted next, so nothing may write to it any more.
            let _ = server.wait();
        }
    }
}
