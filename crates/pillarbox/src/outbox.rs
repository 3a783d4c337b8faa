//! The application's handle. It emits with observers, and acts after a commit: it wakes the relay in this process or, in eager
//! mode for development and tests, delivers before the caller continues.

use std::sync::Arc;

use crate::check::Check;
use crate::emit::{self, Emitted, Transaction};
use crate::error::EmitError;
use crate::event::{Event, InvalidEvent};
use crate::observe::{Observer, Observers};
use crate::relay::Relay;
use crate::relay::wake::Waker;

/// Emits events and, after the commit, starts their delivery.
///
/// In tests, [`Outbox::eager`] delivers before the call returns:
/// ```
/// use std::sync::Arc;
///
/// use pillarbox::store::sqlite::SqliteStore;
/// use pillarbox::{Event, Inspect, Outbox, Relay, SendError};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("shop.db");
/// let store = SqliteStore::open(path).await?;
/// store.migrate().await?;
/// let relay = Relay::builder(Arc::new(store.clone()))
///     .handler("order.placed", |_| async { Ok::<_, SendError>(()) })
///     .build()?;
/// let outbox = Outbox::eager(Arc::new(relay));
///
/// let mut tx = store.pool().begin().await?;
/// outbox.emit(&mut tx, Event::new("Order", 42, "order.placed")).await?;
/// outbox.commit(tx).await?;
/// assert_eq!(store.counts().await?.delivered, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct Outbox {
    observers: Observers,
    check: Option<Arc<dyn Check>>,
    after_commit: AfterCommit,
}

#[derive(Clone, Default)]
enum AfterCommit {
    #[default]
    Nothing,
    Wake(Waker),
    Deliver(Arc<Relay>),
}

impl Outbox {
    /// Returns an outbox for a relay in another process.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns an outbox for a relay in this process, which is woken after each commit.
    #[must_use]
    pub fn waking(waker: Waker) -> Self {
        Self { after_commit: AfterCommit::Wake(waker), ..Self::default() }
    }

    /// Returns an outbox in eager mode, for development and tests: committed events are delivered before [`Outbox::committed`]
    /// returns. Events that a handler commits are delivered after the handler, before the outermost call returns.
    #[must_use]
    pub fn eager(relay: Arc<Relay>) -> Self {
        Self { after_commit: AfterCommit::Deliver(relay), ..Self::default() }
    }

    /// Adds an observer of emitted events.
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observers.push(observer);
        self
    }

    /// Sets a check of emitted events. An event that violates it is not emitted, before any statement is sent: the transaction
    /// stays usable, and the error is [`InvalidEvent::Violation`](crate::event::InvalidEvent::Violation).
    #[must_use]
    pub fn checking(mut self, check: Arc<dyn Check>) -> Self {
        self.check = Some(check);
        self
    }

    fn checked(&self, event: &Event) -> Result<(), InvalidEvent> {
        self.check.as_ref().map_or(Ok(()), |check| event.check(&**check))
    }

    /// As [`emit`](crate::emit()), with the check and the observers.
    ///
    /// # Errors
    /// As [`emit`](crate::emit()), and the violation of the check.
    pub async fn emit<T: Transaction>(&self, tx: &mut T, event: Event) -> Result<Emitted, EmitError> {
        self.checked(&event)?;
        let emitted = emit::emit(tx, event).await?;
        self.observers.tell("created", |observer| observer.created(&emitted));
        Ok(emitted)
    }

    /// As [`emit_all`](crate::emit_all), with the check and the observers for each event. One violation refuses all of them.
    ///
    /// # Errors
    /// As [`emit_all`](crate::emit_all), and the violation of the check.
    pub async fn emit_all<T: Transaction>(
        &self,
        tx: &mut T,
        events: impl IntoIterator<Item = Event>,
    ) -> Result<Vec<Emitted>, EmitError> {
        let events: Vec<Event> = events.into_iter().collect();
        events.iter().try_for_each(|event| self.checked(event))?;
        let all = emit::emit_all(tx, events).await?;
        for emitted in &all {
            self.observers.tell("created", |observer| observer.created(emitted));
        }
        Ok(all)
    }

    /// Wakes the relay or delivers. Call this after the commit. Errors of the delivery are logged: the data is committed, and a
    /// relay will deliver its events later.
    pub async fn committed(&self) {
        match &self.after_commit {
            AfterCommit::Nothing => {}
            AfterCommit::Wake(waker) => waker.wake(),
            // The pass that called this handler waits for it. The next pass finds the committed events.
            AfterCommit::Deliver(relay) if relay.is_caller() => relay.waker().wake(),
            AfterCommit::Deliver(relay) => {
                if let Err(error) = relay.drain().await {
                    tracing::error!(%error, "eager delivery failed; the events stay in the outbox");
                }
            }
        }
    }

    /// Commits a sqlx transaction, and then calls [`Outbox::committed`].
    ///
    /// # Errors
    /// Only errors of the commit itself.
    #[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
    pub async fn commit<D: sqlx::Database>(&self, tx: sqlx::Transaction<'_, D>) -> Result<(), sqlx::Error> {
        tx.commit().await?;
        self.committed().await;
        Ok(())
    }
}
