//! Counts waiting events at intervals, for the metrics. The share of time spent on counting is bounded.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::store::{Depth, Source};

/// Counting takes at most one part in this many of the time, because adopted tables may have no index for it.
const SHARE: u32 = 20;
/// The timeout of a count. The next one waits as long as if it had taken this time.
const LIMIT: Duration = Duration::from_secs(30);

/// The last count; `None` before the first one. Receivers are notified of each count.
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
            Ok(Err(error)) => tracing::debug!(%error, "counting events for the metrics failed"),
            Err(_) => tracing::warn!("counting events takes longer than {LIMIT:?}; the metrics go without the counts"),
        }
        tokio::time::sleep(every.max(began.elapsed() * SHARE)).await;
    }
}
