//! The application's handle: emits with observers, and says what happens after a commit. That is a wake for the relay
//! in this process or, in eager mode for development and tests, delivery before the caller goes on.

use std::sync::Arc;

use crate::emit::{self, Emitted, Transaction};
use crate::error::EmitError;
use crate::event::Event;
use crate::observe::{Observer, Observers};
use crate::relay::Relay;
use crate::relay::wake::Waker;

/// Emits events and, after the commit, sees to it that they are delivered soon.
#[derive(Clone, Default)]
pub struct Outbox {
    observers: Observers,
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
    /// Some other process relays.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A relay in this process delivers: it is woken after each commit.
    #[must_use]
    pub fn waking(waker: Waker) -> Self {
        Self { after_commit: AfterCommit::Wake(waker), ..Self::default() }
    }

    /// Eager mode, for development and tests: what was committed is delivered before [`Outbox::committed`] returns. What a
    /// handler commits is delivered after the handler, before the outermost returns.
    #[must_use]
    pub fn eager(relay: Arc<Relay>) -> Self {
        Self { after_commit: AfterCommit::Deliver(relay), ..Self::default() }
    }

    /// Somebody who wants to hear of what is emitted.
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observers.push(observer);
        self
    }

    /// As [`emit`](crate::emit()), and tells the observers.
    ///
    /// # Errors
    /// As [`emit`](crate::emit()).
    pub async fn emit<T: Transaction>(&self, tx: &mut T, event: Event) -> Result<Emitted, EmitError> {
        let emitted = emit::emit(tx, event).await?;
        self.observers.tell("created", |observer| observer.created(&emitted));
        Ok(emitted)
    }

    /// As [`emit_all`](crate::emit_all), and tells the observers of each.
    ///
    /// # Errors
    /// As [`emit_all`](crate::emit_all).
    pub async fn emit_all<T: Transaction>(
        &self,
        tx: &mut T,
        events: impl IntoIterator<Item = Event>,
    ) -> Result<Vec<Emitted>, EmitError> {
        let all = emit::emit_all(tx, events).await?;
        for emitted in &all {
            self.observers.tell("created", |observer| observer.created(emitted));
        }
        Ok(all)
    }

    /// To be called after the commit. Whatever goes wrong with the delivery is logged: the data is committed, and a
    /// relay will deliver its events later.
    pub async fn committed(&self) {
        match &self.after_commit {
            AfterCommit::Nothing => {}
            AfterCommit::Wake(waker) => waker.wake(),
            // The pass that called this handler waits for it; the next one finds what was committed.
            AfterCommit::Deliver(relay) if relay.is_caller() => relay.waker().wake(),
            AfterCommit::Deliver(relay) => {
                if let Err(error) = relay.drain().await {
                    tracing::error!(%error, "eager delivery failed; the events stay in the outbox");
                }
            }
        }
    }

    /// Commits a sqlx transaction, then does as [`Outbox::committed`].
    ///
    /// # Errors
    /// Only what the commit itself answers.
    #[cfg(any(feature = "postgres", feature = "sqlite"))]
    pub async fn commit<D: sqlx::Database>(&self, tx: sqlx::Transaction<'_, D>) -> Result<(), sqlx::Error> {
        tx.commit().await?;
        self.committed().await;
        Ok(())
    }
}
