//! Records an event in a transaction of the caller, without HTTP: for consumers of Kafka, NATS and RabbitMQ.

use std::time::Duration;

use sqlx::{Pool, Transaction};

use crate::database::{Database, Trouble, trouble};
use crate::names;

/// How long a duplicate waits: shorter than a relay's timeout, which is 10 seconds by default.
pub const WAIT: Duration = Duration::from_secs(5);
/// How long events are remembered: longer than an outbox keeps a failed event, which is 30 days by default. Until then, a person can
/// retry it.
pub const KEEP: Duration = Duration::from_secs(60 * 24 * 60 * 60);
const BATCH: i64 = 1000;

/// Why an event was not recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OnceError {
    /// Another transaction is handling the same event. Roll back, and take the event again later.
    #[error("the event is still being handled by another transaction")]
    InFlight,
    /// The record of the event is no longer in the transaction: the handler ended it, or ignored an error that did.
    #[error("the handler ended the transaction, or ignored an error of the database that did; it cannot be committed")]
    RolledBack,
    /// The consumer or the id is empty, too long, or has other than visible ASCII characters.
    #[error(
        "a consumer has 1 to 100 visible ASCII characters and an id 1 to 255, but they are {consumer:?} and {id:?}"
    )]
    Name {
        /// The consumer.
        consumer: String,
        /// The id of the event.
        id: String,
    },
    /// The database failed.
    #[error("the inbox's database failed")]
    Database(#[from] sqlx::Error),
}

/// Records an event in the caller's transaction, and returns whether it is new. A duplicate must not be handled.
///
/// Handle a new event in the same transaction, and commit: the record and the handler's rows become visible together. Roll
/// back after any error, also of your own statements; PostgreSQL would roll back silently in place of the commit. [`once_with`] notices
/// that. While another transaction holds the same event, this waits, for 5 seconds at most.
pub async fn once<DB: Database>(
    transaction: &mut Transaction<'_, DB>,
    consumer: &str,
    id: &str,
) -> Result<bool, OnceError> {
    if !names::is_consumer(consumer) || !names::is_id(id) {
        return Err(OnceError::Name { consumer: consumer.to_owned(), id: id.to_owned() });
    }
    Ok(record::<DB>(transaction, consumer, id, WAIT).await?.is_some())
}

/// Records an event in the caller's transaction and runs the handler in it; returns false for a duplicate, which is not handled.
///
/// Commit if this returns `Ok`, and roll back otherwise. The handler's errors are returned as they are. As in [`once`], a duplicate
/// waits. If a commit would not record the event, because the handler ended the transaction or ignored an error of
/// the database, this returns [`OnceError::RolledBack`].
///
/// ```no_run
/// # async fn consume(pool: &sqlx::PgPool, id: &str, message: &str) -> Result<(), Box<dyn std::error::Error>> {
/// # type Error = Box<dyn std::error::Error>;
/// let mut transaction = pool.begin().await?;
/// pillarbox_inbox::once_with(&mut transaction, "billing", id, async |tx| {
///     sqlx::query("INSERT INTO invoice (text) VALUES ($1)").bind(message).execute(tx).await?;
///     Ok::<_, Error>(())
/// })
/// .await?;
/// transaction.commit().await?;
/// # Ok(())
/// # }
/// ```
pub async fn once_with<DB, E>(
    transaction: &mut Transaction<'_, DB>,
    consumer: &str,
    id: &str,
    handler: impl AsyncFnOnce(&mut DB::Connection) -> Result<(), E>,
) -> Result<bool, E>
where
    DB: Database,
    E: From<OnceError>,
{
    if !once(transaction, consumer, id).await? {
        return Ok(false);
    }
    handler(&mut *transaction).await?;
    confirm::<DB>(transaction, consumer, id).await?;
    Ok(true)
}

/// As [`once`], with names that were checked. Returns the mark of the row for [`Database::forget`].
pub(crate) async fn record<DB: Database>(
    connection: &mut DB::Connection,
    consumer: &str,
    id: &str,
    wait: Duration,
) -> Result<Option<String>, OnceError> {
    DB::record(connection, consumer, id, wait).await.map_err(|error| {
        // Any writer locks the whole of an SQLite database, so it does not mean that the event is being handled. A statement timeout
        // that is shorter than the wait ends the same wait.
        let is_cancelled = error.as_database_error().is_some_and(DB::is_cancelled);
        if DB::LOCKS_KEYS && (is_cancelled || trouble::<DB>(&error) == Some(Trouble::Locked)) {
            OnceError::InFlight
        } else {
            OnceError::Database(error)
        }
    })
}

/// Returns an error if a commit would not record the event.
pub(crate) async fn confirm<DB: Database>(
    connection: &mut DB::Connection,
    consumer: &str,
    id: &str,
) -> Result<(), OnceError> {
    match DB::confirm(connection, consumer, id).await {
        Ok(true) => Ok(()),
        Err(error) if trouble::<DB>(&error).is_some() => Err(OnceError::Database(error)),
        Ok(false) | Err(_) => Err(OnceError::RolledBack),
    }
}

/// Creates the table `inbox_event` if it does not exist.
pub async fn create_table<DB: Database>(pool: &Pool<DB>) -> Result<(), sqlx::Error> {
    DB::create(&mut *pool.acquire().await?).await
}

/// Deletes records that are older than `keep`, in batches, and returns their number. [`KEEP`] is a good choice.
///
/// An event that is sent again after its record was deleted is handled again.
pub async fn cleanup<DB: Database>(pool: &Pool<DB>, keep: Duration) -> Result<u64, sqlx::Error> {
    let mut connection = pool.acquire().await?;
    let mut deleted = 0;
    loop {
        let rows = DB::cleanup(&mut connection, keep, BATCH).await?;
        deleted += rows;
        if rows < BATCH.unsigned_abs() {
            return Ok(deleted);
        }
    }
}
