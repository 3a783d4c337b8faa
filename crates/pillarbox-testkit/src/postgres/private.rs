//! A PostgreSQL server of one test, for what must not happen to the shared one: to be stopped, or to crash.

use std::fs::{self, File};
use std::process::Child;
use std::time::Duration;

use sqlx::{Connection, PgConnection};
use tempfile::TempDir;

use super::install;
use crate::process::Signal;
use crate::{port, wait_until};

const PATIENCE: Duration = Duration::from_secs(30);

/// A server on a loopback port and in a temporary directory of its own. It ends when the value is dropped.
#[derive(Debug)]
pub struct PrivatePostgres {
    directory: TempDir,
    port: u16,
    settings: Vec<String>,
    server: Option<Child>,
}

impl PrivatePostgres {
    /// Starts one without `fsync`: what it wrote survives its own crash all the same, only not the machine's.
    ///
    /// # Panics
    /// When PostgreSQL is missing or does not start.
    pub async fn start() -> Self {
        Self::start_with(&[("fsync", "off")]).await
    }

    /// Starts one with these settings of `postgresql.conf`, and otherwise PostgreSQL's own, durable ones.
    ///
    /// # Panics
    /// When PostgreSQL is missing or does not start.
    pub async fn start_with(settings: &[(&str, &str)]) -> Self {
        let directory = install::directory();
        install::init(&directory.path().join("data"), directory.path());
        let settings = settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let mut postgres = Self { directory, port: port::free(), settings, server: None };
        postgres.start_again().await;
        postgres
    }

    /// Starts a standby of this server that follows it, hot: a copy of its data and settings on a port of its own.
    ///
    /// # Panics
    /// When that does not work.
    pub async fn start_standby(&self) -> Self {
        self.start_standby_on(port::free()).await
    }

    /// The same, on this port: in the place of a server that was.
    ///
    /// # Panics
    /// When that does not work.
    pub async fn start_standby_on(&self, port: u16) -> Self {
        let directory = install::directory();
        let mut copy = install::command("pg_basebackup", directory.path());
        copy.args(["-D", "data", "-R", "-X", "stream", "-c", "fast", "--no-sync", "-d"]).arg(self.url());
        let copied = tokio::task::spawn_blocking(move || copy.output()).await.expect("pg_basebackup does not panic");
        let copied = copied.expect("pg_basebackup can be started");
        assert!(copied.status.success(), "pg_basebackup: {}", String::from_utf8_lossy(&copied.stderr));
        let mut standby = Self { directory, port, settings: self.settings.clone(), server: None };
        standby.start_again().await;
        standby
    }

    /// Makes a standby the primary, and waits until it can be written to.
    ///
    /// # Panics
    /// When it does not become one.
    pub async fn promote(&self) {
        let mut connection = PgConnection::connect(&self.url()).await.expect("the standby answers");
        let promoted: bool =
            sqlx::query_scalar("SELECT pg_promote()").fetch_one(&mut connection).await.expect("it can be promoted");
        assert!(promoted, "the standby was not promoted in time");
    }

    /// SIGKILL for the server and all its processes: nothing of it answers, writes or hangs up in good order any more.
    ///
    /// # Panics
    /// When it does not end.
    pub async fn kill(&mut self) {
        let Some(postmaster) = self.pid() else { return };
        // First, so that it starts no others in their place.
        Signal::Stop.send(postmaster);
        children(postmaster).into_iter().for_each(|child| Signal::Kill.send(child));
        self.end(Signal::Kill).await;
    }

    /// The address of its database `postgres`; the same after every restart.
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// The port that it listens on, also after a restart.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The postmaster's process id, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.server.as_ref().map(Child::id)
    }

    /// Crashes it and starts it again, on the same port and data: all sessions break, and it recovers from its log.
    ///
    /// # Panics
    /// When it does not come back.
    pub async fn restart_immediate(&mut self) {
        self.end(Signal::Quit).await;
        self.start_again().await;
    }

    /// Stops it in good order: sessions are ended, everything is written. Nothing happens when it is stopped.
    ///
    /// # Panics
    /// When it does not end.
    pub async fn stop(&mut self) {
        self.end(Signal::Interrupt).await;
    }

    /// Starts it after `stop`, and waits until it answers.
    ///
    /// # Panics
    /// When it is running, or does not start, with what it logged.
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

    fn spawn(&self) -> Child {
        let directory = self.directory.path();
        let log = File::options().create(true).append(true).open(directory.join("server.log"));
        let log = log.expect("the log can be opened");
        let mut command = install::command("postgres", directory);
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

/// The processes that this one has started.
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
            // Its directory goes next, and nothing may write to it any more.
            let _ = server.wait();
        }
    }
}
