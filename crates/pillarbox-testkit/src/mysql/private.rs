//! A MariaDB server of one test, for tests that stop or crash it or change its settings, which must not happen to the shared
//! server.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use sqlx::{Connection, MySqlConnection};

use crate::postgres::install;
use crate::process::Signal;
use crate::server::Server;
use crate::wait_until;

const PATIENCE: Duration = Duration::from_secs(120);

/// A server on a loopback port and in a temporary directory of its own. It ends when the value is dropped.
///
/// The user `root` has no password.
#[derive(Debug)]
pub struct PrivateMysql {
    server: Server,
    settings: Vec<String>,
}

impl PrivateMysql {
    /// Starts a server that does not wait for the disk: its data survives its own crash, but not the machine's.
    ///
    /// # Panics
    /// When MariaDB is missing or does not start.
    pub async fn start() -> Self {
        Self::start_with(&[("innodb_flush_log_at_trx_commit", "2")]).await
    }

    /// Starts a server with these settings, and otherwise MariaDB's own, durable defaults.
    ///
    /// # Panics
    /// When MariaDB is missing or does not start.
    pub async fn start_with(settings: &[(&str, &str)]) -> Self {
        let mut mysql = Self::init(settings);
        mysql.start_again().await;
        mysql
    }

    /// Starts a server that accepts encrypted connections only, with this certificate and key in PEM. With `clients`, the
    /// certificate of an authority, a client may show a certificate of that authority, and an account may require one
    /// (`REQUIRE X509`).
    ///
    /// # Panics
    /// When MariaDB is missing or does not start.
    pub async fn start_encrypted(certificate: &str, key: &str, clients: Option<&str>) -> Self {
        let mut mysql = Self::init(&[("innodb_flush_log_at_trx_commit", "2"), ("require_secure_transport", "ON")]);
        let files = [("ssl_cert", Some(certificate)), ("ssl_key", Some(key)), ("ssl_ca", clients)];
        for (setting, content) in files {
            let Some(content) = content else { continue };
            let file = mysql.server.directory().join(setting);
            fs::write(&file, content).expect("the file can be written");
            own(&file);
            mysql.settings.push(format!("--{setting}={}", file.display()));
        }
        mysql.start_again().await;
        mysql
    }

    /// Creates the data directory of a server that is not yet started.
    fn init(settings: &[(&str, &str)]) -> Self {
        let server = Server::new("mysql");
        own(server.directory());
        let mut command = Command::new("mariadb-install-db");
        command.args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"]);
        command.args(["--skip-name-resolve", "--innodb-log-file-size=16M"]).args(user());
        // Not the machine's directory: a server that starts deletes the temporary files of others there.
        command.env("TMPDIR", server.directory());
        install::run(command.arg(format!("--datadir={}", data(&server))));
        let settings = settings.iter().map(|(name, value)| format!("--{name}={value}")).collect();
        Self { server, settings }
    }

    /// Returns the URL of its database `mysql`, for the user `root`; the same after every restart.
    pub fn url(&self) -> String {
        format!("mysql://root@127.0.0.1:{}/mysql", self.port())
    }

    /// Returns the port that it listens on; the same after every restart.
    pub fn port(&self) -> u16 {
        self.server.port()
    }

    /// Returns its process id, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.server.pid()
    }

    /// Sends SIGKILL, and waits until it is gone.
    ///
    /// # Panics
    /// When it does not end.
    pub async fn kill(&mut self) {
        self.server.end(Signal::Kill).await;
    }

    /// Kills the server and starts it again, on the same port and data: all sessions break, and it recovers from its log.
    ///
    /// # Panics
    /// When it does not come back.
    pub async fn restart_immediate(&mut self) {
        self.kill().await;
        self.start_again().await;
    }

    /// Shuts the server down gracefully. Does nothing when it is stopped.
    ///
    /// # Panics
    /// When it does not end.
    pub async fn stop(&mut self) {
        self.server.end(Signal::Terminate).await;
    }

    /// Freezes the process, with open connections, until `thaw`.
    pub fn freeze(&self) {
        self.server.signal(Signal::Stop);
    }

    /// Continues a frozen process.
    pub fn thaw(&self) {
        self.server.signal(Signal::Continue);
    }

    /// Starts the server after `stop` or `kill`, and waits until it responds.
    ///
    /// # Panics
    /// When it is running, or does not start, with its log.
    pub async fn start_again(&mut self) {
        let mut command = Command::new(server_program());
        command.arg("--no-defaults").args(user()).arg(format!("--datadir={}", data(&self.server)));
        command.args(["--bind-address=127.0.0.1", "--socket=socket", "--pid-file=mariadbd.pid", "--skip-name-resolve"]);
        command.args(["--innodb-buffer-pool-size=128M", "--max-connections=1000"]);
        // As above.
        command.arg(format!("--tmpdir={}", self.server.directory().display()));
        command.arg(format!("--port={}", self.port())).args(&self.settings);
        self.server.start(command).await;
        let url = self.url();
        wait_until("MariaDB answers", PATIENCE, async || MySqlConnection::connect(&url).await.is_ok()).await;
    }
}

fn data(server: &Server) -> String {
    server.directory().join("data").display().to_string()
}

/// Returns the server's program. Debian puts it into a directory that is not on every user's PATH.
fn server_program() -> &'static Path {
    let debian = Path::new("/usr/sbin/mariadbd");
    if debian.exists() { debian } else { Path::new("mariadbd") }
}

/// Returns the option that names MariaDB's user. MariaDB refuses to run as root unless it is told to become another user.
fn user() -> Option<&'static str> {
    install::is_root().then_some("--user=mysql")
}

/// Gives a file or a directory to MariaDB's user.
fn own(path: &Path) {
    if install::is_root() {
        install::run(Command::new("chown").arg("mysql:").arg(path));
    }
}
