//! What is in flight: claimed and not yet settled, in events and bytes. The relay claims ahead only as far as it allows.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

/// Events and bytes of payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Weight {
    pub(super) events: usize,
    pub(super) bytes: usize,
}

/// The sum of all permits that live.
#[derive(Debug, Clone)]
pub(super) struct Load(Arc<watch::Sender<Weight>>);

impl Load {
    pub(super) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(Weight::default())))
    }

    pub(super) fn now(&self) -> Weight {
        *self.0.borrow()
    }

    pub(super) fn admit(&self, bytes: usize) -> Permit {
        self.0.send_modify(|load| {
            load.events += 1;
            load.bytes += bytes;
        });
        Permit { load: self.clone(), bytes }
    }

    /// Until there is no more than this in flight.
    pub(super) async fn at_most(&self, most: Weight) {
        // The sender lives in self, so the channel cannot be closed.
        let _ = self.0.subscribe().wait_for(|load| load.events <= most.events && load.bytes <= most.bytes).await;
    }
}

/// One event's part of the load, given back when it is dropped.
#[derive(Debug)]
pub(super) struct Permit {
    load: Load,
    bytes: usize,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.load.0.send_modify(|load| {
            load.events -= 1;
            load.bytes -= self.bytes;
        });
    }
}

/// What a panic elsewhere left in a lock is still true here: no lock is held across anything that can fail half-way.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
