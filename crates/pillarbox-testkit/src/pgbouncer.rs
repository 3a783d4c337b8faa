//! A PgBouncer of one test, in front of one database: the usual pooler between many applications and their PostgreSQL.

use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use tempfile::TempDir;

use crate::postgres::install;
use crate::{port, wait_until};

const PATIENCE: Duration = Duration::from_secs(60);
/// Debian's path, which is only in root's PATH.
const DEBIAN: &str = "/usr/sbin/pgbouncer";

/// A PgBouncer that releases a server connection after each transaction and gives it to the next client: the worst behaviour of
/// a pooler. It ends when the value is dropped.
#[derive(Debug)]
pub struct PgBouncer {
    server: Child,
    address: String,
    _directory: TempDir,
}

impl PgBouncer {
    /// Starts a PgBouncer in front of the database at `url`, without any setting for a particular client.
    ///
    /// # Panics
    /// When PgBouncer is missing or does not start, with its log.
    pub async fn start(url: &str) -> Self {
        let database: PgConnectOptions = url.parse().expect("the address of a database");
        let (directory, port) = (install::directory(), port::free());
        fs::write(directory.path().join("pgbouncer.ini"), configuration(&database, port)).expect("a file is written");
        let users = format!("\"{}\" \"\"\n", database.get_username());
        fs::write(directory.path().join("users.txt"), users).expect("a file is written");
        let log = directory.path().join("pgbouncer.log");

        let program = if Path::new(DEBIAN).exists() { DEBIAN } else { "pgbouncer" };
        let mut command = install::command(program, directory.path());
        command.args(["--quiet", "pgbouncer.ini"]).stdout(Stdio::null()).stderr(Stdio::null());
        let mut server = command.spawn().expect("PgBouncer is missing: run `make setup`");
        wait_until("PgBouncer listens", PATIENCE, async || {
            if let Some(status) = server.try_wait().expect("an own child can be asked") {
                panic!("PgBouncer did not start ({status}): {}", fs::read_to_string(&log).unwrap_or_default());
            }
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        })
        .await;
        let name = database.get_database().expect("the name of a database");
        let address = format!("postgres://{}@127.0.0.1:{port}/{name}", database.get_username());
        Self { server, address, _directory: directory }
    }

    /// Returns the URL of the database through the pooler.
    pub fn url(&self) -> &str {
        &self.address
    }
}

fn configuration(database: &PgConnectOptions, port: u16) -> String {
    format!(
        "[databases]\n\
         * = host={} port={}\n\
         [pgbouncer]\n\
         listen_addr = 127.0.0.1\n\
         listen_port = {port}\n\
         unix_socket_dir =\n\
         logfile = pgbouncer.log\n\
         auth_type = trust\n\
         auth_file = users.txt\n\
         pool_mode = transaction\n\
         server_round_robin = 1\n\
         default_pool_size = 8\n",
        database.get_host(),
        database.get_port(),
    )
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        // It has nothing to write, and newer versions wait for their clients on a graceful shutdown.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
