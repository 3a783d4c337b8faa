//! Wake: hints that there may be something to claim. Each is only a hint; polling finds what none of them told.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Wakes a relay. Cheap to clone; give one to whatever commits events in the relay's process.
#[derive(Debug, Clone, Default)]
pub struct Waker(Arc<Bell>);

#[derive(Debug, Default)]
struct Bell {
    ring: Notify,
    gone: Notify,
    is_gone: AtomicBool,
}

impl Waker {
    /// There may be something to claim.
    pub fn wake(&self) {
        self.0.ring.notify_one();
    }

    /// Until somebody wakes the relay. A wake that came before is not lost.
    pub(crate) async fn woken(&self) {
        self.0.ring.notified().await;
    }

    /// For stores: until the relay runs no more.
    pub async fn relay_gone(&self) {
        let gone = self.0.gone.notified();
        tokio::pin!(gone);
        gone.as_mut().enable();
        if !self.0.is_gone.load(Ordering::Acquire) {
            gone.await;
        }
    }

    /// The relay runs no more.
    pub(crate) fn retire(&self) {
        self.0.is_gone.store(true, Ordering::Release);
        self.0.gone.notify_waiters();
    }
}
