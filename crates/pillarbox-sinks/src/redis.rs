//! Sends to Redis streams: each event is an entry that XADD appends to a stream.
//!
//! `entry` turns a message into the fields of an entry. `plan` splits a batch into the commands of one round trip. `script`
//! stores a run, or checks for duplicates, on the server. `failure` explains errors. `limits` asks the server how large a
//! message may be, `advice` whether it keeps what it confirmed. `keys` reads the configuration.

mod advice;
mod entry;
mod failure;
mod keys;
mod limits;
mod plan;
mod script;
mod settings;

use std::fmt;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures_util::future::join_all;
use pillarbox::{Message, SendError, SendErrorKind, Sink};
use tokio::sync::OnceCell;

use self::entry::Entry;
pub use self::keys::{KIND, Redis};
use self::limits::Limits;
use self::plan::{Chunk, Plan};
use self::script::Writer;
pub use self::settings::{RedisError, RedisSettings};
use crate::content::Content;
use crate::redis_server::client::{Client, Connection};
use crate::template::Template;

/// The size of a batch: enough to keep a server busy, small enough to be confirmed within a timeout.
const BATCH: usize = 500;

type Link = crate::redis_server::client::Link<OnceCell<Limits>>;

/// A Redis server, or a cluster.
///
/// | response | result |
/// |---|---|
/// | the server returned the id of the entry, or had the event within `deduplicate` | delivered |
/// | no connection, wrong login, a read-only, full, loading or silent server, too few `replicas` | `Unavailable` |
/// | the stream's key has another type, no permission, no stream with `create = false` | `Retry` |
/// | a message larger than the server takes, or an impossible name of a stream | `Reject` |
///
/// Sending is safe to cancel: messages in flight may arrive twice.
pub struct RedisSink {
    client: Client<OnceCell<Limits>>,
    shown: String,
    stream: Template,
    content: Content,
    create: bool,
    writer: Writer,
    deduplicate: Option<Duration>,
    replicas: Option<usize>,
    timeout: Duration,
}

impl RedisSink {
    /// Returns a sink for one server or cluster. It connects when there is something to send.
    ///
    /// # Errors
    /// Says which setting is wrong and what to do, without showing secrets.
    pub fn new(settings: RedisSettings) -> Result<Self, RedisError> {
        let server = settings.checked()?;
        let client = Client::new(&server, &settings.tls, settings.sentinel_password.as_ref(), settings.timeout)?;
        let writer = Writer::new(settings.create, settings.max_length, settings.deduplicate);
        let RedisSettings { stream, content, create, deduplicate, replicas, timeout, .. } = settings;
        Ok(Self { client, shown: server.shown(), stream, content, create, writer, deduplicate, replicas, timeout })
    }

    fn entry<'a>(&'a self, position: usize, message: &'a Message) -> Result<Entry<'a>, SendError> {
        let entry = Entry::of(position, message, &self.stream, &self.content)?;
        if self.deduplicate.is_some() && !script::can_be_marked(&entry.stream) {
            return Err(SendError::reject(format!(
                "stream {:?} has a brace in its name that makes deduplicate impossible; choose another name",
                entry.stream
            )));
        }
        Ok(entry)
    }

    /// Sends all chunks of the plan, round by round. An error applies to all messages that have no result yet.
    async fn deliver(&self, plan: &mut Plan<'_>, deadline: Instant) -> Result<(), SendError> {
        let link = self.client.link(&self.shown, deadline).await?;
        let limits = *link.state.get_or_init(|| Limits::of(link.connection.clone())).await;
        plan.check_sizes(&limits);
        let mut sent = Ok(());
        loop {
            let round = plan.next_round(&limits, matches!(link.connection, Connection::Cluster(_)));
            if round.is_empty() {
                break;
            }
            let groups = round.together.iter().map(|chunks| self.run(&link, chunks, deadline));
            let mut outcomes: Vec<_> = join_all(groups).await.into_iter().zip(&round.together).collect();
            for chunks in &round.alone {
                let outcome = self.run(&link, chunks, deadline).await.map_err(|error| Self::too_large(&error, chunks));
                outcomes.push((outcome, chunks));
            }
            for (outcome, chunks) in outcomes {
                match outcome {
                    Ok(results) => plan.settle(chunks, results),
                    Err(error) => {
                        plan.fail(chunks, &error);
                        sent = Err(error);
                    }
                }
            }
        }
        // A master that became a replica reports it with every response. Connecting again asks the sentinels for the
        // new master.
        if sent.is_err() || plan.has_outage() {
            self.client.forget(&link).await;
        }
        Ok(())
    }

    /// Sends chunks in one pipeline and returns the results of each.
    async fn run(&self, link: &Link, chunks: &[Chunk<'_>], deadline: Instant) -> Result<Vec<Stored>, SendError> {
        let mut connection = link.connection.clone();
        let mut stored = self.pipeline(&mut connection, chunks, false, deadline).await?;
        // A server that was restarted or replaced does not have the script yet.
        let unknown: Vec<usize> = (0..chunks.len()).filter(|index| stored[*index].lacks_script).collect();
        if !unknown.is_empty() {
            let again: Vec<_> = unknown.iter().map(|index| chunks[*index].clone()).collect();
            let loaded = self.pipeline(&mut connection, &again, true, deadline).await?;
            for (index, loaded) in unknown.into_iter().zip(loaded) {
                stored[index] = loaded;
            }
        }
        Ok(stored)
    }

    async fn pipeline(
        &self,
        connection: &mut Connection,
        chunks: &[Chunk<'_>],
        load: bool,
        deadline: Instant,
    ) -> Result<Vec<Stored>, SendError> {
        let mut commands = ::redis::pipe();
        for chunk in chunks {
            self.writer.write(&mut commands, chunk, load);
        }
        let mut count = chunks.len();
        if let Some(replicas) = self.replicas {
            // Half of the time is left for a second pipeline that loads the script.
            let left = deadline.saturating_duration_since(Instant::now()) / 2;
            commands.cmd("WAIT").arg(replicas).arg(left.as_millis().max(1) as u64);
            count += 1;
        }
        let mut replies =
            connection.run(&commands, count).await.map_err(|error| failure::failed(&self.shown, &error))?;
        let acknowledged = match self.replicas {
            Some(replicas) => failure::acknowledged(replies.pop().as_ref(), replicas, &self.shown),
            None => Ok(()),
        };
        let read = |(chunk, reply): (&Chunk<'_>, &::redis::Value)| {
            let stored = self.writer.read(chunk, reply, &self.shown);
            match &acknowledged {
                Err(error) if stored.count > 0 => Stored { error: Some(error.clone()), ..Stored::default() },
                _ => stored,
            }
        };
        Ok(chunks.iter().zip(&replies).map(read).collect())
    }

    /// The error of a connection without a response in time. It is not a message's fault.
    fn silent(&self) -> SendError {
        SendError::unavailable(format!("{} did not respond within {:?}", self.shown, self.timeout))
    }

    /// The error of a connection that was lost while it carried one large message.
    fn too_large(error: &SendError, chunks: &[Chunk<'_>]) -> SendError {
        let bytes: usize = chunks.iter().map(Chunk::bytes).sum();
        // The relay counts it as an outage only if nothing else gets through.
        SendError::timeout(format!(
            "{} while it was sent a message of {bytes} bytes; check proto-max-bulk-len and client-query-buffer-limit of \
             the server",
            error.message
        ))
    }

    async fn check_stream(&self, stream: &str, deadline: Instant) -> Result<(), SendError> {
        let mut link = self.client.link(&self.shown, deadline).await?;
        let mut commands = ::redis::pipe();
        commands.cmd("TYPE").arg(stream);
        // Redis checks permissions, memory and its role before it refuses this id, and stores nothing.
        commands.cmd("XADD").arg(stream).arg("NOMKSTREAM").arg("0-0").arg("check").arg("");
        let replies = link.connection.run(&commands, 2).await.map_err(|error| failure::failed(&self.shown, &error))?;
        failure::check(&replies, stream, self.create, &self.shown)
    }
}

/// How many entries of a chunk are stored, and why the next one is not.
#[derive(Default)]
struct Stored {
    count: usize,
    error: Option<SendError>,
    /// Whether the server does not have the script.
    lacks_script: bool,
}

#[async_trait]
impl Sink for RedisSink {
    async fn send(&self, batch: &[Message]) -> Vec<Result<(), SendError>> {
        let deadline = Instant::now() + self.timeout - (self.timeout / 10).min(Duration::from_millis(500));
        let mut plan = Plan::new(batch, |position, message| self.entry(position, message));
        let failed = match tokio::time::timeout_at(deadline.into(), self.deliver(&mut plan, deadline)).await {
            Ok(sent) => sent.err(),
            Err(_) => {
                self.client.reset().await;
                Some(self.silent())
            }
        };
        plan.into_results(failed)
    }

    async fn reach(&self) -> Result<(), SendError> {
        let deadline = Instant::now() + self.timeout;
        let checking = async {
            match self.stream.constant() {
                Some(stream) => self.check_stream(stream, deadline).await,
                None => self.client.link(&self.shown, deadline).await.map(drop),
            }
        };
        tokio::time::timeout(self.timeout, checking).await.unwrap_or_else(|_| Err(self.silent()))
    }

    async fn advise(&self, lease: Duration) -> Vec<String> {
        let mut notes: Vec<_> =
            self.deduplicate.and_then(|window| advice::on_window(window, lease)).into_iter().collect();
        if let Ok(mut link) = self.client.link(&self.shown, Instant::now() + self.timeout).await {
            let asking = advice::Durability::of(&mut link.connection);
            if let Ok(durability) = tokio::time::timeout(self.timeout, asking).await {
                notes.extend(durability.advise(&self.shown));
            }
        }
        notes
    }

    fn batch_limit(&self) -> usize {
        BATCH
    }

    fn keeps_order(&self) -> bool {
        self.stream.is_fixed_per_aggregate()
    }
}

impl fmt::Debug for RedisSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisSink").field("url", &self.shown).field("stream", &self.stream).finish_non_exhaustive()
    }
}

fn is_outage(error: &SendError) -> bool {
    matches!(error.kind, SendErrorKind::Unavailable | SendErrorKind::Timeout)
}
