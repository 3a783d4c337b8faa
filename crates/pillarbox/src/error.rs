//! Errors that callers of this crate see: what was wrong, where, and what to do. None contains a secret.

use crate::event::InvalidEvent;

/// The error of a driver or a database.
pub type DriverError = Box<dyn std::error::Error + Send + Sync>;

/// The reason why an event was not emitted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmitError {
    /// The event is invalid. Nothing was sent, and the transaction is unchanged.
    #[error("the event was not emitted: {0}")]
    Invalid(#[from] InvalidEvent),
    /// Such an event exists already. Nothing was written, and the transaction is usable.
    #[error(
        "an event {event_type:?} with the idempotency key {idempotency_key:?} exists already; if it may happen more \
         than once to an aggregate, use Event::repeatable() or another key; to ignore duplicates, use emit_once"
    )]
    Duplicate {
        /// The type of the refused event.
        event_type: String,
        /// The key of the refused event.
        idempotency_key: String,
    },
    /// The connection has no open transaction, so the event would not be committed with the data.
    #[error("emit was called outside a transaction; begin one, and write your data and the event in it")]
    NoTransaction,
    /// The database or its driver failed.
    #[error("emit failed: {error}{hint}", error = .0, hint = hint(.0.as_ref()))]
    Driver(#[source] DriverError),
}

/// Returns a hint if the tables are missing, the most common first error.
fn hint(error: &(dyn std::error::Error + 'static)) -> &'static str {
    let text = error.to_string();
    let missing = ["does not exist", "no such table", "doesn't exist"].iter().any(|part| text.contains(part));
    if missing && text.contains("outbox_") { "; create the outbox's tables with `pillarbox migrate`" } else { "" }
}

/// The reason why an operation of a store failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The database or its driver failed.
    #[error("{doing}: {source}")]
    Database {
        /// The operation that failed.
        doing: &'static str,
        /// The driver's error.
        #[source]
        source: DriverError,
    },
    /// The database server does not respond, or refuses the connection.
    #[error("connection to {server} at {address} failed: {source}; check database.url and that the server runs")]
    Connect {
        /// The kind of the server.
        server: &'static str,
        /// Host and port, or the directory of the socket.
        address: String,
        /// The driver's error.
        #[source]
        source: DriverError,
    },
    /// The tables are missing, or too old for this program.
    #[error("the outbox's tables are {found}, this program needs version {needed}; run `pillarbox migrate`")]
    NotMigrated {
        /// The state or version that was found.
        found: String,
        /// The version that this program needs.
        needed: i32,
    },
    /// The tables are too new for this program.
    #[error(
        "the outbox's tables are at version {found}, which needs pillarbox {least} or newer; this is {ours}: install \
         a newer pillarbox"
    )]
    ProgramTooOld {
        /// The version of the schema.
        found: i32,
        /// The oldest version of the program that supports it.
        least: String,
        /// The version of this program.
        ours: &'static str,
    },
    /// The tables of django-celery-outbox are missing, or too old for this program.
    #[error(
        "{what} in schema {schema:?}: run `manage.py migrate django_celery_outbox` with django-celery-outbox 0.4.3, \
         and check that the database URL and schema are those of the Django project"
    )]
    NotAdoptable {
        /// The missing part.
        what: String,
        /// The schema that was searched.
        schema: String,
    },
    /// The tables of django-celery-outbox are too new for this program.
    #[error(
        "{table:?} has the unknown column {column:?}, which needs a value: the tables are from a django-celery-outbox \
         newer than 0.4.3; install a newer pillarbox"
    )]
    TooNewToAdopt {
        /// The name of the table.
        table: String,
        /// The name of the column.
        column: String,
    },
    /// A cursor of a list is invalid.
    #[error(transparent)]
    BadCursor(#[from] crate::store::BadCursor),
    /// A name is not valid for a schema.
    #[error(
        "{name:?} is not a valid schema name: use at most 63 letters, digits and underscores, and do not start with a \
         digit"
    )]
    BadSchemaName {
        /// The name as it was given.
        name: String,
    },
    /// A row cannot be read.
    #[error("event {id} cannot be read: {what}")]
    BadRow {
        /// The id of the event.
        id: String,
        /// What is wrong with the row.
        what: String,
    },
    /// An event could not be emitted.
    #[error(transparent)]
    Emit(#[from] EmitError),
}

/// The reason why a relay could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A route names a destination that does not exist.
    #[error("the route for {pattern:?} goes to {destination:?}, which is not a destination; choose one of: {known}")]
    UnknownDestination {
        /// The route's pattern.
        pattern: String,
        /// The name in the route.
        destination: String,
        /// The names of the existing destinations.
        known: String,
    },
    /// Two destinations have the same name.
    #[error("there are two destinations named {name:?}; names must be unique")]
    SameName {
        /// The name.
        name: String,
    },
    /// The name is reserved or invalid.
    #[error("a destination cannot be named {name:?}; choose another name")]
    ReservedName {
        /// The name.
        name: String,
    },
    /// A lease can run out during a send.
    #[error(
        "the lease ({lease:?}) must be at least a tenth longer than the timeout of destination {destination:?} \
         ({timeout:?}), or its events could be sent twice; raise relay.lease or lower the timeout"
    )]
    LeaseTooShort {
        /// The relay's lease.
        lease: std::time::Duration,
        /// The name of the destination.
        destination: String,
        /// Its timeout.
        timeout: std::time::Duration,
    },
    /// A setting is invalid.
    #[error("{setting} is {value}: {why}")]
    BadSetting {
        /// The name of the setting.
        setting: &'static str,
        /// The given value.
        value: String,
        /// What the value must be.
        why: &'static str,
    },
}
