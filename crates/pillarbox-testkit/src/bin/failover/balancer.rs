//! HAProxy in front of a primary and its standby, as in a Patroni setup: it asks each server over HTTP whether it is the
//! primary, sends new connections there, and closes connections to a server that is not.

use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use pillarbox_testkit::{free_port, wait_until};
use sqlx::{Connection, PgConnection};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(30);
/// Debian's path, which is only in root's PATH.
const DEBIAN: &str = "/usr/sbin/haproxy";

/// HAProxy with its health checks. It ends when the value is dropped.
pub(crate) struct Balancer {
    server: Child,
    port: u16,
    _directory: TempDir,
    _checks: JoinSet<()>,
}

impl Balancer {
    pub(crate) async fn start(servers: [u16; 2]) -> Self {
        let mut checks = JoinSet::new();
        let mut lines = String::new();
        for server in servers {
            let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port is free");
            let check = listener.local_addr().expect("a bound listener has an address").port();
            checks.spawn(tell_whether_primary(listener, server));
            lines += &format!("    server s{server} 127.0.0.1:{server} check port {check}\n");
        }
        let (directory, port) = (tempfile::tempdir().expect("a temporary directory can be made"), free_port());
        let path = directory.path().join("haproxy.cfg");
        fs::write(&path, configuration(port, &lines)).expect("a file is written");
        let program = if Path::new(DEBIAN).exists() { DEBIAN } else { "haproxy" };
        let mut command = Command::new(program);
        command.arg("-db").arg("-f").arg(&path).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let server = command.spawn().expect("HAProxy is missing: run `make setup`");
        let balancer = Self { server, port, _directory: directory, _checks: checks };
        wait_until("HAProxy leads to the primary", PATIENCE, async || {
            TcpStream::connect(("127.0.0.1", port)).is_ok() && is_primary(&balancer.url()).await
        })
        .await;
        balancer
    }

    pub(crate) fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn configuration(port: u16, servers: &str) -> String {
    format!(
        "defaults\n    \
             mode tcp\n    \
             timeout connect 2s\n    \
             timeout client 1h\n    \
             timeout server 1h\n    \
             timeout check 1s\n    \
             retries 2\n    \
             option redispatch 1\n\
         listen postgres\n    \
             bind 127.0.0.1:{port}\n    \
             option httpchk GET /primary\n    \
             default-server inter 300ms fall 2 rise 1 on-marked-down shutdown-sessions\n\
         {servers}"
    )
}

/// Responds to every HTTP request: 200 while that server is the primary, otherwise 503.
async fn tell_whether_primary(listener: TcpListener, server: u16) {
    let url = format!("postgres://postgres@127.0.0.1:{server}/postgres");
    while let Ok((mut asked, _)) = listener.accept().await {
        let mut request = [0; 1024];
        let _ = timeout(Duration::from_secs(1), asked.read(&mut request)).await;
        let status = if is_primary(&url).await { "200 OK" } else { "503 Service Unavailable" };
        let answer = format!("HTTP/1.0 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        let _ = asked.write_all(answer.as_bytes()).await;
    }
}

async fn is_primary(url: &str) -> bool {
    let ask = async {
        let mut connection = PgConnection::connect(url).await?;
        let standby: bool = sqlx::query_scalar("SELECT pg_is_in_recovery()").fetch_one(&mut connection).await?;
        connection.close().await?;
        Ok::<_, sqlx::Error>(!standby)
    };
    matches!(timeout(Duration::from_millis(800), ask).await, Ok(Ok(true)))
}
