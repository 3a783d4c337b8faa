//! What differs between databases: statements, and the meaning of errors. One file per database, behind its feature.

#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;

use std::error::Error;
use std::time::Duration;

use sqlx::error::DatabaseError;

/// What is wrong with a database, if it is not the handler's fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[doc(hidden)]
pub enum Trouble {
    /// A deadlock or a serialisation failure: the same transaction may succeed now.
    Conflict,
    /// A lock was not granted in time.
    Locked,
    /// There is no connection. In an error of a handler, it may be the connection to another database.
    Lost,
    /// The database cannot do what was asked.
    Down,
}

/// A database that an inbox can be in: `sqlx::Postgres`, `sqlx::MySql` (also MariaDB) and `sqlx::Sqlite`.
///
/// Implemented by this crate only. The methods are those of its statements, of the same names.
pub trait Database: sqlx::Database + sealed::Sealed {
    #[doc(hidden)]
    const BEGIN: &'static str;
    #[doc(hidden)]
    const LOCKS_KEYS: bool;

    #[doc(hidden)]
    fn create(connection: &mut Self::Connection) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// Returns nothing for a duplicate, and otherwise the mark that [`forget`](Self::forget) knows the row by.
    #[doc(hidden)]
    fn record(
        connection: &mut Self::Connection,
        consumer: &str,
        id: &str,
        wait: Duration,
    ) -> impl Future<Output = Result<Option<String>, sqlx::Error>> + Send;

    #[doc(hidden)]
    fn confirm(
        connection: &mut Self::Connection,
        consumer: &str,
        id: &str,
    ) -> impl Future<Output = Result<bool, sqlx::Error>> + Send;

    /// Deletes the record with this mark if it is there after a rollback, and returns whether it was.
    #[doc(hidden)]
    fn forget(
        connection: &mut Self::Connection,
        consumer: &str,
        id: &str,
        mark: &str,
    ) -> impl Future<Output = Result<bool, sqlx::Error>> + Send;

    #[doc(hidden)]
    fn cleanup(
        connection: &mut Self::Connection,
        keep: Duration,
        batch: i64,
    ) -> impl Future<Output = Result<u64, sqlx::Error>> + Send;

    /// Returns what an error of the server says.
    #[doc(hidden)]
    fn explain(error: &(dyn DatabaseError + 'static)) -> Option<Trouble>;

    /// Returns whether the server has ended a statement that took too long, or that an administrator has cancelled.
    #[doc(hidden)]
    fn is_cancelled(error: &(dyn DatabaseError + 'static)) -> bool;

    /// Returns the driver's own error, if an error is one. A wrapper may have hidden the error of sqlx around it.
    #[doc(hidden)]
    fn driver_error<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e (dyn DatabaseError + 'static)>;
}

mod sealed {
    pub trait Sealed {}
    #[cfg(feature = "mysql")]
    impl Sealed for sqlx::MySql {}
    #[cfg(feature = "postgres")]
    impl Sealed for sqlx::Postgres {}
    #[cfg(feature = "sqlite")]
    impl Sealed for sqlx::Sqlite {}
}

/// Returns what is wrong with the database, by the first cause of an error that says so.
pub(crate) fn trouble<DB: Database>(error: &(dyn Error + 'static)) -> Option<Trouble> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let found = match error.downcast_ref::<sqlx::Error>() {
            Some(error) => of_sqlx::<DB>(error),
            None => DB::driver_error(error).and_then(DB::explain),
        };
        if found.is_some() {
            return found;
        }
        cause = error.source();
    }
    None
}

fn of_sqlx<DB: Database>(error: &sqlx::Error) -> Option<Trouble> {
    match error {
        sqlx::Error::Database(error) => DB::explain(error.as_ref()),
        sqlx::Error::Io(_)
        | sqlx::Error::Tls(_)
        | sqlx::Error::Protocol(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::PoolClosed
        | sqlx::Error::WorkerCrashed => Some(Trouble::Lost),
        _ => None,
    }
}
