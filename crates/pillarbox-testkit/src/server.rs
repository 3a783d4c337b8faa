//! A server as a child process that a test may kill and restart, in a temporary directory and on ports of its own.

use std::fs::{self, File};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::port;
use crate::process::Signal;
use crate::wait::wait_until_sync;

const PATIENCE: Duration = Duration::from_secs(120);

/// The common part of all servers.
#[derive(Debug)]
pub(crate) struct Server {
    name: &'static str,
    directory: TempDir,
    port: u16,
    child: Option<Child>,
}

impl Server {
    /// Creates a server that is not yet started.
    pub(crate) fn new(name: &'static str) -> Self {
        let directory = TempDir::with_prefix(format!("pillarbox-{name}-")).expect("a temporary directory can be made");
        Self { name, directory, port: port::free(), child: None }
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Runs `command`, which must become the server itself, and waits until it listens.
    pub(crate) async fn start(&mut self, mut command: Command) {
        assert!(self.child.is_none(), "{} is running", self.name);
        let path = self.directory().join("server.log");
        let log = File::options().create(true).append(true).open(&path).expect("the log can be opened");
        command.current_dir(self.directory()).stdin(Stdio::null());
        command.stdout(log.try_clone().expect("the log can be shared")).stderr(log);
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}; run `make setup`"));
        wait_until_sync(&format!("{} listens", self.name), PATIENCE, || {
            if let Some(status) = child.try_wait().expect("an own child can be asked") {
                panic!("{} did not start ({status}): {}", self.name, fs::read_to_string(&path).unwrap_or_default());
            }
            TcpStream::connect(("127.0.0.1", self.port)).is_ok()
        })
        .await;
        self.child = Some(child);
    }

    /// Sends a signal, and waits until the process is gone. Does nothing when it is not running.
    pub(crate) async fn end(&mut self, signal: Signal) {
        let Some(mut child) = self.child.take() else { return };
        signal.send(child.id());
        let ended = || child.try_wait().expect("an own child can be asked").is_some();
        wait_until_sync(&format!("{} has ended", self.name), PATIENCE, ended).await;
    }

    /// Sends a signal, for example to freeze or continue the process.
    pub(crate) fn signal(&self, signal: Signal) {
        if let Some(pid) = self.pid() {
            signal.send(pid);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // Killed at once, because its data is deleted with its directory.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
