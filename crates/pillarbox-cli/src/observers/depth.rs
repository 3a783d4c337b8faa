//! What waits, counted now and then for whoever shows figures. Counting never takes more than its share of the time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::store::{Depth, Source};

/// Counting may take at most one part in so many of the time: the tables of others may have no index for it.
const SHARE: u32 = 20;
/// What takes longer is given up, and tried again as seldom as if it had taken this long.
const LIMIT: Duration = Duration::from_secs(30);

/// The last count, `None` before the first one. Whoever waits for a change hears of each.
pub(crate) type LastDepth = watch::Receiver<Option<Depth>>;

/// The task that counts. It ends when this is dropped.
pub(crate) struct Counting {
    last: LastDepth,
    task: JoinHandle<()>,
}

impl Counting {
    pub(crate) fn start(source: Arc<Source>, every: Duration) -> Self {
        let (sender, last) = watch::channel(None);
        Self { last, task: tokio::spawn(keep_counting(sender, source, every)) }
    }

    pub(crate) fn last(&self) -> LastDepth {
        self.last.clone()
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn keep_counting(last: watch::Sender<Option<Depth>>, source: Arc<Source>, every: Duration) {
    loop {
        let began = Instant::now();
        match tokio::time::timeout(LIMIT, source.depth()).await {
            Ok(Ok(depth)) => drop(last.send_replace(Some(depth))),
            Ok(Err(error)) => tracing::debug!(%error, "what waits cannot be counted for the metrics"),
            Err(_) => tracing::warn!("counting what waits takes longer than {LIMIT:?}; the metrics go without"),
        }
        tokio::time::sleep(every.max(began.elapsed() * SHARE)).await;
    }
}
