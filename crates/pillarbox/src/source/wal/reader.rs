//! The reader: a task that reads the stream and answers the server. It goes on answering while nothing takes its frames: a server that
//! hears nothing ends the connection.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::{Interval, MissedTickBehavior};

use super::frame::{BadFrame, Frame};
use super::log::Log;
use crate::clock;
use crate::store::postgres::lsn::Lsn;
use crate::store::postgres::replication::{Replication, ReplicationError};

/// How often the server is told how far the log was read, and asked whether it lives.
const STATUS: Duration = Duration::from_millis(500);
/// How long the server may be silent, though it is asked.
const SILENCE: Duration = Duration::from_secs(15);
/// The most frames that are handed over at once, and the number of such batches that wait.
const BATCH: usize = 512;
const BATCHES: usize = 2;
/// The most bytes of a batch, roughly.
const BATCH_BYTES: usize = 512 * 1024;

/// The reason why a stream ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    #[error(transparent)]
    Stream(#[from] ReplicationError),
    #[error(transparent)]
    Frame(#[from] BadFrame),
    #[error("the server sent nothing for {SILENCE:?}")]
    Silent,
}

/// A stream that is being read. Dropping it closes the connection.
pub(super) struct Reading {
    frames: mpsc::Receiver<Result<Vec<Frame>, ReadError>>,
    task: AbortHandle,
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Reading {
    pub(super) fn start(stream: Replication, log: &Arc<Log>) -> Self {
        let (hand_over, frames) = mpsc::channel(BATCHES);
        let log = Arc::clone(log);
        let task = tokio::spawn(async move {
            let reader = Reader { stream, log, hand_over: hand_over.clone(), received: Lsn::default() };
            if let Err(error) = reader.read().await {
                let _ = hand_over.send(Err(error)).await;
            }
        });
        Self { frames, task: task.abort_handle() }
    }

    /// Returns the next frames; `None` after the error that ended the stream. It may be cancelled.
    pub(super) async fn next(&mut self) -> Option<Result<Vec<Frame>, ReadError>> {
        self.frames.recv().await
    }
}

struct Reader {
    stream: Replication,
    log: Arc<Log>,
    hand_over: mpsc::Sender<Result<Vec<Frame>, ReadError>>,
    received: Lsn,
}

impl Reader {
    async fn read(mut self) -> Result<(), ReadError> {
        let mut status = tokio::time::interval(STATUS);
        status.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut heard_at = clock::now();
        loop {
            let first = tokio::select! {
                biased;
                _ = status.tick() => {
                    if clock::since(heard_at) > SILENCE {
                        return Err(ReadError::Silent);
                    }
                    self.confirm(true).await?;
                    continue;
                }
                first = self.stream.frame() => first?,
            };
            let mut bytes = first.len();
            let mut batch = vec![Frame::read(first)?];
            while batch.len() < BATCH
                && bytes < BATCH_BYTES
                && let Some(next) = self.stream.received()?
            {
                bytes += next.len();
                batch.push(Frame::read(next)?);
            }
            let asked = self.note(&batch);
            if !self.hand_over(batch, &mut status).await? {
                return Ok(());
            }
            if asked {
                self.confirm(false).await?;
            }
            heard_at = clock::now();
        }
    }

    /// Notes how far the stream was read. Returns whether the server asked for a reply.
    fn note(&mut self, batch: &[Frame]) -> bool {
        let mut asked = false;
        for frame in batch {
            match frame {
                Frame::Commit { end } => self.received = self.received.max(*end),
                Frame::Alive { end, reply } => {
                    self.received = self.received.max(*end);
                    asked |= reply;
                }
                _ => {}
            }
        }
        asked
    }

    /// Hands frames over, and goes on answering the server while they are not taken. Returns whether somebody takes them.
    async fn hand_over(&mut self, batch: Vec<Frame>, status: &mut Interval) -> Result<bool, ReadError> {
        loop {
            let hand_over = self.hand_over.clone();
            tokio::select! {
                biased;
                room = hand_over.reserve() => {
                    return Ok(match room {
                        Ok(room) => {
                            room.send(Ok(batch));
                            true
                        }
                        Err(_) => false,
                    });
                }
                _ = status.tick() => self.confirm(false).await?,
            }
        }
    }

    async fn confirm(&mut self, reply: bool) -> Result<(), ReadError> {
        Ok(self.stream.confirm(self.received, self.log.tell(self.received), reply).await?)
    }
}
