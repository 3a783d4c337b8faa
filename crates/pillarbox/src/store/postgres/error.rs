//! Errors of connections and statements on PostgreSQL, and what follows from them for the connection.

use std::io;
use std::time::Duration;

use tokio_postgres::error::{DbError, Severity, SqlState};

use crate::error::DriverError;

/// The error of a connection or a statement.
#[derive(Debug, thiserror::Error)]
pub(in crate::store) enum Error {
    /// The server refused a statement or a session.
    #[error("error returned from database: {}", .0.message())]
    Server(Box<DbError>),
    /// The driver failed: the connection, its encryption, or a value that it cannot read.
    #[error("{}", chain(.0))]
    Driver(tokio_postgres::Error),
    /// The connection failed, was lost, or did not respond.
    #[error("error communicating with database: {0}")]
    Io(#[from] io::Error),
    /// All connections were in use for too long.
    #[error("no connection became free in time; are there enough of them ([database] connections)?")]
    Busy,
    /// The application closed the pool.
    #[error("the pool of connections is closed")]
    Closed,
    /// A statement that returns a row returned none.
    #[error("the statement returned no row")]
    NoRow,
    /// A value cannot be sent or read.
    #[error("{0}")]
    Value(DriverError),
}

impl From<tokio_postgres::Error> for Error {
    fn from(error: tokio_postgres::Error) -> Self {
        match error.as_db_error() {
            Some(refused) => Self::Server(Box::new(refused.clone())),
            None => Self::Driver(error),
        }
    }
}

/// Returns the driver's error with its causes. It says only "error connecting to server" by itself.
fn chain(error: &tokio_postgres::Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

impl Error {
    /// Returns the server's code; `None` if the error is not the server's.
    pub(in crate::store) fn code(&self) -> Option<&str> {
        match self {
            Self::Server(refused) => Some(refused.code().code()),
            _ => None,
        }
    }

    /// Returns the error of a wait that timed out.
    pub(super) fn silent(after: Duration) -> Self {
        let text = format!("database does not respond: no data within {after:.1?}; the connection is closed");
        Self::Io(io::Error::new(io::ErrorKind::TimedOut, text))
    }

    /// Returns the error of a connection that is gone.
    pub(super) fn lost() -> Self {
        Self::Io(io::Error::new(io::ErrorKind::NotConnected, "database connection lost"))
    }

    /// Returns whether the connection that returned this error can no longer be used.
    pub(super) fn is_fatal(&self) -> bool {
        match self {
            Self::Io(_) | Self::Driver(_) => true,
            Self::Server(refused) => {
                let ends = matches!(refused.parsed_severity(), Some(Severity::Fatal | Severity::Panic));
                ends || self.is_read_only() || is_lost(refused.code())
            }
            _ => false,
        }
    }

    /// Returns whether the server refuses writes. A server that becomes a standby keeps its connections and does so.
    pub(super) fn is_read_only(&self) -> bool {
        self.code() == Some(SqlState::READ_ONLY_SQL_TRANSACTION.code())
    }

    /// Returns whether the error may be temporary: a server is starting, or a primary is being elected.
    pub(super) fn is_passing(&self) -> bool {
        match self {
            Self::Io(_) => true,
            Self::Driver(error) => error.is_closed() || has_io_cause(error),
            Self::Server(refused) => is_lost(refused.code()) || *refused.code() == SqlState::TOO_MANY_CONNECTIONS,
            _ => false,
        }
    }

    /// Returns whether the connection does not know a kept statement: a pooler is in between, or the table was altered.
    pub(super) fn is_of_kept_statement(&self) -> bool {
        matches!(self.code(), Some("26000" | "42P05" | "0A000"))
    }
}

fn has_io_cause(error: &tokio_postgres::Error) -> bool {
    let cause = std::error::Error::source(error);
    cause.is_some_and(<dyn std::error::Error>::is::<io::Error>)
}

/// Returns whether the code is a connection exception, or the end of a server or a session.
fn is_lost(code: &SqlState) -> bool {
    code.code().starts_with("08") || code.code().starts_with("57P") || code.code() == "25P03"
}
