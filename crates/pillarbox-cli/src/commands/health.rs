//! `pillarbox health`: asks the relay of this configuration for its health, for containers and scripts.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{Misuse, Session};

/// The timeout. A slower relay is unhealthy.
const LIMIT: Duration = Duration::from_secs(5);

/// The longest response of a relay.
const LONGEST_ANSWER: u64 = 64 << 10;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Check whether the relay can work: its database responds, the tables are right, and its loop runs. By default:
    /// whether it is alive
    #[arg(long)]
    ready: bool,
}

pub(crate) async fn run(arguments: &Arguments, session: &Session) -> anyhow::Result<ExitCode> {
    let Some(listen) = session.settings.metrics.listen else {
        return Err(Misuse(
            "metrics.listen is not set, so the relay cannot be queried; set it, or PILLARBOX_METRICS_LISTEN, as for \
             the relay"
                .to_owned(),
        )
        .into());
    };
    let path = if arguments.ready { "/readyz" } else { "/healthz" };
    let answer = tokio::time::timeout(LIMIT, ask(near(listen), path))
        .await
        .with_context(|| format!("the relay at {listen} did not respond within {LIMIT:?}"))?
        .with_context(|| format!("the relay at {listen} does not respond; check that it is running"))?;
    let ok = answer["ok"] == true;
    session.output.answer(&answer, || {
        let turned = answer["turned_seconds_ago"].as_f64();
        let turned = turned.map_or("never".to_owned(), |ago| format!("{ago:.1} s ago"));
        let database = answer["database"].as_str().unwrap_or("?");
        format!("{}\n  database    {database}\n  last claim  {turned}", if ok { "healthy" } else { "unhealthy" })
    })?;
    Ok(if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns the loopback address for a relay that listens on all addresses.
fn near(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

/// Sends one GET request. A client library would be far more code.
async fn ask(address: SocketAddr, path: &str) -> anyhow::Result<Value> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.take(LONGEST_ANSWER).read_to_string(&mut answer).await?;
    let Some((_, body)) = answer.split_once("\r\n\r\n") else { bail!("the response is not HTTP") };
    serde_json::from_str(body).context("another program listens there")
}
