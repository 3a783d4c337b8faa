//! DogStatsD: counters, timings and gauges over UDP, summed up in the process and sent once a second. If the server is down
//! or slow, only metrics are lost: nothing here waits for it, and its errors never reach the relay.
//!
//! Names and tags are those of django-celery-outbox, so that its users' dashboards keep working.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use chrono::Utc;
use pillarbox::delivery::{Change, Verdict};
use pillarbox::{Observed, Observer, SendErrorKind, StoredEvent};
use tokio::task::JoinHandle;

use self::tally::Tally;
use super::depth::LastDepth;
use crate::config::metrics::MetricsSettings;
use crate::store::Depth;

mod tally;

/// The interval at which metrics are sent.
const EVERY: Duration = Duration::from_secs(1);
/// The time after which the server's name is resolved again.
const ADDRESS_LASTS: Duration = Duration::from_secs(60);

/// Counts the relay's events.
pub(crate) struct Statsd {
    tally: Mutex<Tally>,
}

/// The tasks that send metrics and that set the gauges.
pub(crate) struct Sending {
    statsd: Arc<Statsd>,
    server: Server,
    tasks: [JoinHandle<()>; 2],
}

impl Statsd {
    /// Starts to send to the configured server.
    pub(crate) fn start(to: &str, settings: &MetricsSettings, depth: LastDepth) -> (Arc<Self>, Sending) {
        let statsd = Arc::new(Self { tally: Mutex::new(Tally::new(&settings.prefix, &settings.tags)) });
        let server = Server { name: to.to_owned(), open: Arc::default() };
        let tasks = [
            tokio::spawn(keep_sending(Arc::clone(&statsd), server.clone())),
            tokio::spawn(keep_gauging(Arc::clone(&statsd), depth)),
        ];
        (Arc::clone(&statsd), Sending { statsd, server, tasks })
    }

    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn gauge(&self, depth: &Depth) {
        let mut tally = self.tally();
        tally.gauge("queue.depth", depth.pending() as f64);
        tally.gauge("dead_letter.count", depth.dead as f64);
        tally.gauge("oldest_pending_age_seconds", depth.oldest.unwrap_or_default().as_secs_f64());
    }
}

impl Observer for Statsd {
    /// Measures the latency by this host's clock. It is wrong by the difference to the database's clock, and decides
    /// nothing else.
    fn sent(&self, event: &StoredEvent, _destination: &str, _took: Duration) -> Observed {
        let latency = Utc::now().signed_duration_since(event.created_at).to_std().unwrap_or_default();
        let mut tally = self.tally();
        let tags = [name_tag(event)];
        tally.time("send_latency_ms", &tags, latency);
        Ok(())
    }

    fn settled(&self, event: &StoredEvent, verdict: &Verdict) -> Observed {
        let mut tally = self.tally();
        match &verdict.change {
            Change::Deliver => tally.count("messages.published", &[name_tag(event)]),
            Change::Fail { .. } => {
                let kind = verdict.failures.first().map_or("given_up", |attempt| named(attempt.error.kind));
                tally.count("messages.exceeded", &[name_tag(event), ("exception_type", kind)]);
            }
            _ => {
                if let Some(attempt) = verdict.retried_after() {
                    let kind = ("exception_type", named(attempt.error.kind));
                    tally.count("messages.failed", &[name_tag(event), kind]);
                }
            }
        }
        Ok(())
    }

    fn finished(&self, _events: usize, took: Duration) -> Observed {
        self.tally().time("batch.duration_ms", &[], took);
        Ok(())
    }
}

/// Returns the tag with the event's type, which is a Celery task's name.
fn name_tag(event: &StoredEvent) -> (&'static str, &str) {
    let tag = if event.aggregate_type == "celery" { "task_name" } else { "event_type" };
    (tag, &event.event_type)
}

/// Returns the kind of error as tags and labels name it.
pub(crate) fn named(kind: SendErrorKind) -> &'static str {
    match kind {
        SendErrorKind::Retry => "retry",
        SendErrorKind::Reject => "reject",
        SendErrorKind::Unavailable => "unavailable",
        SendErrorKind::Timeout => "timeout",
    }
}

impl Sending {
    /// Sends the remaining metrics after the relay has stopped.
    pub(crate) async fn finish(self) {
        self.tasks.iter().for_each(JoinHandle::abort);
        let datagrams = self.statsd.tally().take();
        // A slow DNS lookup is not waited for.
        let _ = tokio::time::timeout(EVERY, self.server.send(datagrams)).await;
    }
}

async fn keep_sending(statsd: Arc<Statsd>, server: Server) {
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let datagrams = statsd.tally().take();
        server.send(datagrams).await;
    }
}

async fn keep_gauging(statsd: Arc<Statsd>, mut depth: LastDepth) {
    while depth.changed().await.is_ok() {
        let last = depth.borrow_and_update().clone();
        if let Some(depth) = last {
            statsd.gauge(&depth);
        }
    }
}

/// The server that receives the metrics.
#[derive(Clone)]
struct Server {
    /// `HOST:PORT`
    name: String,
    open: Arc<Mutex<Option<(UdpSocket, Instant)>>>,
}

impl Server {
    /// Sends the datagrams. Datagrams that cannot be sent are lost.
    async fn send(&self, datagrams: Vec<String>) {
        if datagrams.is_empty() {
            return;
        }
        let socket = match self.socket().await {
            Ok(socket) => socket,
            Err(error) => return tracing::debug!(server = self.name, %error, "sending metrics failed"),
        };
        for datagram in datagrams {
            match socket.send(datagram.as_bytes()) {
                // The kernel reports a missing listener at the next send.
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
                Err(error) => return tracing::debug!(server = self.name, %error, "sending metrics failed"),
                Ok(_) => {}
            }
        }
    }

    async fn socket(&self) -> std::io::Result<UdpSocket> {
        let open = || self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((socket, since)) = &*open()
            && since.elapsed() < ADDRESS_LASTS
        {
            return socket.try_clone();
        }
        let missing = || std::io::Error::new(ErrorKind::NotFound, "the host name has no address");
        let addresses: Vec<SocketAddr> = tokio::net::lookup_host(&self.name).await?.collect();
        // UDP does not show which address has a listener. For localhost it is usually 127.0.0.1.
        let first = addresses.iter().find(|address| address.is_ipv4()).or(addresses.first());
        let address = *first.ok_or_else(missing)?;
        let here: SocketAddr = match address {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = UdpSocket::bind(here)?;
        socket.set_nonblocking(true)?;
        socket.connect(address)?;
        let answer = socket.try_clone();
        *open() = Some((socket, Instant::now()));
        answer
    }
}
