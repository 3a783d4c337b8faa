//! Wake on MariaDB and MySQL: the servers have no notifications, so a small statement is run often. Emits in other processes
//! are found by it; a waker finds those of the same process.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::SQL;
use super::connect::Connections;
use crate::error::DriverError;
use crate::relay::wake::Waker;
use crate::store::WakeUp;
use crate::store::sql::{Call, Row};

/// The pause between two reads.
const PAUSE: Duration = Duration::from_millis(12);
/// The pause is at least this multiple of the time that a read takes, because a busy server has better things to do.
const SHARE: u32 = 10;
/// The pause after a read that failed, or that found a server that is read-only.
const PAUSE_AFTER_ERROR: Duration = Duration::from_millis(500);

/// The newest event, and the oldest event that has just become due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    newest: Option<i64>,
    first: Option<i64>,
    /// Whether the server accepts no writes, except from administrators.
    read_only: bool,
}

impl Seen {
    /// Returns whether there may be something to claim that was not there before.
    fn is_news(self, before: Self) -> bool {
        self.newest > before.newest || (self.first.is_some() && self.first != before.first)
    }
}

/// Watches until the waker's relay is gone.
pub(super) async fn start(connections: &Arc<Connections>, waker: Waker) -> Result<WakeUp, DriverError> {
    let mut before = look(connections).await?;
    let connections = Arc::clone(connections);
    tokio::spawn(async move {
        let mut pause = PAUSE;
        loop {
            tokio::select! {
                () = waker.relay_gone() => return,
                () = tokio::time::sleep(pause) => {}
            }
            let began = Instant::now();
            match look(&connections).await {
                Ok(seen) => {
                    if seen.is_news(before) {
                        waker.wake();
                    }
                    pause = PAUSE.max(began.elapsed() * SHARE);
                    if seen.read_only {
                        if !before.read_only {
                            tracing::warn!(
                                "the server has become read-only; connecting again until it can be written to"
                            );
                        }
                        connections.forget();
                        pause = PAUSE_AFTER_ERROR;
                    }
                    before = seen;
                }
                Err(error) => {
                    tracing::debug!(%error, "watching for events failed; trying again");
                    pause = PAUSE_AFTER_ERROR;
                }
            }
        }
    });
    Ok(WakeUp::Tested)
}

async fn look(connections: &Arc<Connections>) -> Result<Seen, DriverError> {
    let done = connections.acquire().await?.run(&Call::new(SQL.watch)).await?;
    let row = done.rows.first().ok_or("no row")?;
    Ok(Seen {
        newest: row.maybe_number("newest")?,
        first: row.maybe_number("first")?,
        read_only: row.flag("read_only")?,
    })
}

#[cfg(test)]
mod tests {
    use super::Seen;

    fn seen(newest: i64, first: Option<i64>) -> Seen {
        Seen { newest: Some(newest), first, read_only: false }
    }

    #[test]
    fn an_emit_is_news_once() {
        let nothing = Seen { newest: None, first: None, read_only: false };
        assert!(seen(1, Some(1)).is_news(nothing));
        assert!(seen(6, None).is_news(seen(5, None)), "claimed by another relay meanwhile, or not yet due");
        assert!(!seen(6, None).is_news(seen(6, None)));
        assert!(!seen(6, None).is_news(seen(6, Some(6))), "it was claimed");
        assert!(!nothing.is_news(seen(6, None)), "all were deleted");
    }

    #[test]
    fn a_late_commit_is_news_and_an_event_that_cannot_be_claimed_is_not() {
        assert!(seen(6, Some(5)).is_news(seen(6, None)));
        assert!(!seen(6, Some(5)).is_news(seen(6, Some(5))));
        assert!(seen(7, Some(5)).is_news(seen(6, Some(5))));
    }
}
