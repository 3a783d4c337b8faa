//! Observers: code of the application's that hears what happens to events, and can harm nothing.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use crate::delivery::Verdict;
use crate::emit::Emitted;
use crate::event::StoredEvent;
use crate::sink::SendError;

/// What an observer may answer with: it is logged, no more.
pub type Observed = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// Hears what happens to events. It is called on the way, so it should be quick; one that errs or panics is logged.
pub trait Observer: Send + Sync + 'static {
    /// Emitted through an [`Outbox`](crate::Outbox); its transaction may still be rolled back.
    fn created(&self, event: &Emitted) -> Observed {
        let _ = event;
        Ok(())
    }

    /// A destination has confirmed it.
    fn sent(&self, event: &StoredEvent, destination: &str, took: Duration) -> Observed {
        let _ = (event, destination, took);
        Ok(())
    }

    /// An attempt failed, the last one or not; outages count here, too.
    fn failed(&self, event: &StoredEvent, destination: &str, error: &SendError) -> Observed {
        let _ = (event, destination, error);
        Ok(())
    }

    /// It was given up and waits for people.
    fn dead_lettered(&self, event: &StoredEvent, error: &str) -> Observed {
        let _ = (event, error);
        Ok(())
    }

    /// What became of it stands in the table: it was delivered, is to be tried again, waits, or was given up. `event` is
    /// as it was claimed, so `verdict.attempts` is the newer number. Not told of what was lost to another relay meanwhile.
    fn settled(&self, event: &StoredEvent, verdict: &Verdict) -> Observed {
        let _ = (event, verdict);
        Ok(())
    }

    /// The relay has asked for what is due and was answered, be it that there is nothing: its loop turns.
    fn turned(&self) -> Observed {
        Ok(())
    }

    /// All events of one claim are settled or given back; it began `took` ago. One that probes a destination that is down
    /// is not waited for.
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

    /// Tells each of them.
    pub(crate) fn tell(&self, what: &'static str, call: impl Fn(&dyn Observer) -> Observed) {
        for observer in &self.0 {
            match catch_unwind(AssertUnwindSafe(|| call(observer.as_ref()))) {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::warn!(what, %error, "an observer failed"),
                Err(panic) => tracing::error!(what, panic = panic_message(&*panic), "an observer panicked"),
            }
        }
    }
}

/// What a panic said.
pub(crate) fn panic_message(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}
