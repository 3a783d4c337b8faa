//! Receives one event: begin, record, handle, confirm, commit, answer. Knows no web framework.

use std::error::Error;
use std::pin::Pin;
use std::time::Duration;

use http::HeaderMap;
use sqlx::{Connection as _, Pool, SqlStr};
use tokio::time::{Instant, timeout_at};

use crate::answer::Answer;
use crate::database::{Database, Trouble, trouble};
use crate::event::Event;
use crate::inbox::Inbox;
use crate::once::{OnceError, confirm, record};

/// How long a connection and the begin of a transaction may take. With the wait of a duplicate, it is less than a relay's timeout. The
/// pool's own `acquire_timeout` is 30 seconds by default, and it tries again until then if the database refuses connections.
const CONNECT: Duration = Duration::from_secs(3);

/// The future of a handler: `Box::pin(async move { … })`.
pub type Handling<'c> = Pin<Box<dyn Future<Output = Result<(), HandlerError>> + Send + 'c>>;

/// Why a handler did not accept an event. Every error becomes one by `?`: the event is sent again later.
#[derive(Debug)]
pub struct HandlerError {
    error: Box<dyn Error + Send + Sync>,
    is_never: bool,
}

impl HandlerError {
    /// Returns the error of a handler that will never accept the event. The answer is 422, and the relay stops to send it.
    pub fn never(reason: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { error: reason.into(), is_never: true }
    }

    fn is_in_flight(&self) -> bool {
        let error: &(dyn Error + 'static) = &*self.error;
        std::iter::successors(Some(error), |&error| error.source())
            .any(|error| matches!(error.downcast_ref(), Some(OnceError::InFlight)))
    }
}

impl<E: Into<Box<dyn Error + Send + Sync>>> From<E> for HandlerError {
    fn from(error: E) -> Self {
        Self { error: error.into(), is_never: false }
    }
}

/// Why a transaction was rolled back.
enum Failure {
    InFlight,
    /// `is_lost` says whether the handler's connection is lost. If not, an error that says so is of another one.
    Handler {
        failed: HandlerError,
        is_lost: bool,
    },
    /// What a commit refuses are the handler's rows, as deferred constraints and triggers do.
    Commit(sqlx::Error),
    Database(sqlx::Error),
    /// The handler ended the transaction, or ignored an error that did.
    RolledBack,
}

impl Failure {
    fn trouble<DB: Database>(&self) -> Option<Trouble> {
        match self {
            Self::InFlight | Self::RolledBack => None,
            // A handler that calls `once` for another id has waited for a lock, too.
            Self::Handler { failed, .. } if failed.is_in_flight() => Some(Trouble::Locked),
            Self::Handler { failed, is_lost } => {
                trouble::<DB>(&*failed.error).filter(|found| *is_lost || *found != Trouble::Lost)
            }
            Self::Commit(error) | Self::Database(error) => trouble::<DB>(error),
        }
    }
}

impl From<OnceError> for Failure {
    fn from(error: OnceError) -> Self {
        match error {
            OnceError::Database(error) => Self::Database(error),
            OnceError::RolledBack => Self::RolledBack,
            // The names were checked.
            OnceError::InFlight | OnceError::Name { .. } => Self::InFlight,
        }
    }
}

impl Inbox {
    /// Returns the response to a request: checks it, records the event, runs the handler in the same transaction, and commits.
    ///
    /// The handler runs again after a deadlock or a serialisation failure. Dropping the future rolls back.
    pub async fn receive<DB, F>(
        &self,
        pool: &Pool<DB>,
        headers: &HeaderMap,
        body: impl Into<Vec<u8>>,
        handler: F,
    ) -> Answer
    where
        DB: Database,
        F: for<'c> Fn(&'c Event, &'c mut DB::Connection) -> Handling<'c> + Send + Sync,
    {
        match self.check(headers, body) {
            Ok(event) => self.handle(pool, &event, handler).await,
            Err(refused) => refused,
        }
    }

    /// Handles an event that [`check`](Self::check) has returned. A [test event](Event::is_test) is neither recorded nor handled.
    pub async fn handle<DB, F>(&self, pool: &Pool<DB>, event: &Event, handler: F) -> Answer
    where
        DB: Database,
        F: for<'c> Fn(&'c Event, &'c mut DB::Connection) -> Handling<'c> + Send + Sync,
    {
        if event.is_test() {
            tracing::info!(event = event.id, "inbox: test event verified");
            return Answer::new(200, "test event");
        }
        let mut tried = 0;
        loop {
            tried += 1;
            let failure = match self.try_handle(pool, event, &handler).await {
                Ok(answer) => return answer,
                Err(failure) => failure,
            };
            if failure.trouble::<DB>() != Some(Trouble::Conflict) {
                return self.failed::<DB>(event, failure);
            }
            if tried >= self.tries {
                tracing::error!(event = event.id, tried, "inbox: every try ended in a conflict");
                return Answer::new(503, "the receiver's database has too many conflicts");
            }
            let longest: u64 = 20 << tried.min(6);
            tokio::time::sleep(Duration::from_millis(rand::random_range(longest / 4..=longest))).await;
        }
    }

    async fn try_handle<DB, F>(&self, pool: &Pool<DB>, event: &Event, handler: &F) -> Result<Answer, Failure>
    where
        DB: Database,
        F: for<'c> Fn(&'c Event, &'c mut DB::Connection) -> Handling<'c> + Send + Sync,
    {
        let late = || Failure::Database(sqlx::Error::PoolTimedOut);
        let deadline = Instant::now() + CONNECT;
        let acquired = timeout_at(deadline, pool.acquire()).await.map_err(|_| late())?;
        let mut connection = acquired.map_err(Failure::Database)?;
        let begin = connection.begin_with(SqlStr::from_static(DB::BEGIN));
        let Ok(begun) = timeout_at(deadline, begin).await else {
            // The pool would wait for the response before it uses the connection again, or another one in its place.
            drop(connection.detach());
            return Err(late());
        };
        let mut transaction = begun.map_err(Failure::Database)?;
        let mark = match record::<DB>(&mut transaction, &self.consumer, &event.id, self.wait).await {
            Ok(Some(mark)) => mark,
            duplicate => {
                // A lost connection cannot roll back; the server does.
                let _ = transaction.rollback().await;
                duplicate?;
                return Ok(Answer::new(200, "duplicate"));
            }
        };
        let Err(mut failure) = self.run::<DB, F>(&mut transaction, event, handler).await else {
            if let Err(error) = transaction.commit().await {
                // On SQLite it fails if the handler has ended the transaction, and the pool would not notice.
                drop(connection.detach());
                return Err(Failure::Commit(error));
            }
            return Ok(Answer::new(200, "handled"));
        };
        let is_rolled_back = transaction.rollback().await.is_ok();
        if let Failure::Handler { is_lost, .. } = &mut failure {
            *is_lost = !is_rolled_back;
        }
        self.forget::<DB>(&mut connection, event, &mark).await;
        // What the handler has done to the connection is not known.
        if !is_rolled_back || matches!(failure, Failure::RolledBack) {
            drop(connection.detach());
        }
        Err(failure)
    }

    /// Runs the handler, and confirms that a commit would record the event.
    async fn run<DB, F>(&self, connection: &mut DB::Connection, event: &Event, handler: &F) -> Result<(), Failure>
    where
        DB: Database,
        F: for<'c> Fn(&'c Event, &'c mut DB::Connection) -> Handling<'c> + Send + Sync,
    {
        let handled = handler(event, &mut *connection).await;
        handled.map_err(|failed| Failure::Handler { failed, is_lost: false })?;
        Ok(confirm::<DB>(connection, &self.consumer, &event.id).await?)
    }

    /// Deletes the record of a handler that committed by itself and then failed: otherwise the next request would be a duplicate, and
    /// the event lost.
    async fn forget<DB: Database>(&self, connection: &mut DB::Connection, event: &Event, mark: &str) {
        // On a lost connection nothing can be done, and the failure is logged anyway.
        if let Ok(true) = DB::forget(connection, &self.consumer, &event.id, mark).await {
            tracing::error!(
                event = event.id,
                "inbox: handler committed by itself and then failed; its record is deleted"
            );
        }
    }

    /// Returns the response to a transaction that was rolled back.
    fn failed<DB: Database>(&self, event: &Event, failure: Failure) -> Answer {
        let is_down = failure.trouble::<DB>().is_some();
        let unavailable = |error: &(dyn Error + 'static)| {
            tracing::error!(event = event.id, error, "inbox: database not available");
            Answer::new(503, "the receiver's database is not available")
        };
        match failure {
            Failure::InFlight => Answer::new(409, "the event is still being handled").after(self.wait),
            Failure::Handler { failed, .. } if failed.is_never => {
                tracing::warn!(event = event.id, reason = %failed.error, "inbox: event rejected");
                Answer::new(422, format!("the receiver will never accept the event: {}", failed.error))
            }
            Failure::Handler { failed, .. } if is_down => unavailable(&*failed.error),
            Failure::Handler { failed, .. } => {
                let error: &(dyn Error + 'static) = &*failed.error;
                tracing::error!(event = event.id, error, "inbox: handler failed");
                Answer::new(500, "the handler failed")
            }
            Failure::RolledBack => {
                tracing::error!(event = event.id, "inbox: handler ended the transaction, or ignored an error that did");
                Answer::new(500, "the handler failed")
            }
            Failure::Commit(error) if !is_down => {
                tracing::error!(event = event.id, %error, "inbox: commit failed");
                Answer::new(500, "the handler failed")
            }
            Failure::Commit(error) | Failure::Database(error) => unavailable(&error),
        }
    }
}

#[cfg(all(test, feature = "postgres"))]
mod tests {
    use super::*;

    #[test]
    fn an_event_of_an_inner_once_that_is_in_flight_is_a_lock() {
        let failed = HandlerError::from(OnceError::InFlight);
        let failure = Failure::Handler { failed, is_lost: false };
        assert_eq!(failure.trouble::<sqlx::Postgres>(), Some(Trouble::Locked));
    }
}
