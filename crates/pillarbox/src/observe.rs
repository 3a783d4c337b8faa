//! Observers: code of the application that is called on what happens to events, and cannot disturb the relay.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use crate::delivery::Verdict;
use crate::emit::Emitted;
use crate::event::StoredEvent;
use crate::sink::SendError;

/// The result of an observer. An error is only logged.
pub type Observed = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// Is called when something happens to events. The relay waits for the call, so it should be fast. Errors and panics are
/// logged.
pub trait Observer: Send + Sync + 'static {
    /// An event was emitted through an [`Outbox`](crate::Outbox). Its transaction may still be rolled back.
    fn created(&self, event: &Emitted) -> Observed {
        let _ = event;
        Ok(())
    }

    /// A destination has confirmed the event.
    fn sent(&self, event: &StoredEvent, destination: &str, took: Duration) -> Observed {
        let _ = (event, destination, took);
        Ok(())
    }

    /// An attempt failed, the last one or not. Outages are included.
    fn failed(&self, event: &StoredEvent, destination: &str, error: &SendError) -> Observed {
        let _ = (event, destination, error);
        Ok(())
    }

    /// The event failed for good, and waits for a person.
    fn dead_lettered(&self, event: &StoredEvent, error: &str) -> Observed {
        let _ = (event, error);
        Ok(())
    }

    /// The verdict is in the table: delivered, due again, parked, failed, or given back. `event` is as it was claimed, so
    /// `verdict.attempts` is newer. This is not called for an event that was lost to another relay meanwhile.
    fn settled(&self, event: &StoredEvent, verdict: &Verdict) -> Observed {
        let _ = (event, verdict);
        Ok(())
    }

    /// A claim succeeded, perhaps without events: the relay's loop is running.
    fn turned(&self) -> Observed {
        Ok(())
    }

    /// All events of one claim, which began `took` ago, are settled or given back. An event that probes a destination that is
    /// down is not waited for.
    fn finished(&self, events: usize, took: Duration) -> Observed {
        let _ = (events, took);
        Ok(())
    }
}

/// All observers of a relay or an outbox.
#[derive(Clone, Default)]
pub(crate) struct Observers(Vec<Arc<dyn Observer>>);

impl Observers {
    pub(crate) fn push(&mut self, observer: Arc<dyn Observer>) {
        self.0.push(observer);
    }

    /// Calls each observer.
    pub(crate) fn tell(&self, what: &'static str, call: impl Fn(&dyn Observer) -> Observed) {
        for observer in &self.0 {
            match catch_unwind(AssertUnwindSafe(|| call(observer.as_ref()))) {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::warn!(what, %error, "observer failed"),
                Err(panic) => tracing::error!(what, panic = panic_message(&*panic), "observer panicked"),
            }
        }
    }
}

/// Returns the message of a panic.
pub(crate) fn panic_message(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}
