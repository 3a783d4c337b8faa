//! Errors that callers of this crate see: what was wrong, where, and what to do. None of them contains a secret.

use crate::event::InvalidEvent;

/// What a driver or a database said.
pub type DriverError = Box<dyn std::error::Error + Send + Sync>;

/// Why an event was not emitted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmitError {
    /// Refused before anything was sent; the transaction is as it was.
    #[error("the event was not emitted: {0}")]
    Invalid(#[from] InvalidEvent),
    /// There is such an event already. Nothing was written; the transaction is usable.
    #[error(
        "an event {event_type:?} with the idempotency key {idempotency_key:?} exists already; if it may happen again \
         to the same aggregate, say so with Event::repeatable() or give it a key of its own; if telling it once is \
         enough, use emit_once"
    )]
    Duplicate {
        /// Of the event that was to be emitted.
        event_type: String,
        /// Of the event that was to be emitted.
        idempotency_key: String,
    },
    /// The connection has no open transaction, so the event would not share the fate of the data.
    #[error("emit was called outside a transaction; begin one, and write your data and the event in it")]
    NoTransaction,
    /// The database or its driver.
    #[error("the outbox could not be written: {error}{hint}", error = .0, hint = hint(.0.as_ref()))]
    Driver(#[source] DriverError),
}

/// The first thing that goes wrong for a newcomer is that nobody has made the table.
fn hint(error: &(dyn std::error::Error + 'static)) -> &'static str {
    let text = error.to_string();
    let missing = text.contains("does not exist") || text.contains("no such table");
    if missing && text.contains("outbox_") { "; create the outbox's tables with `pillarbox migrate`" } else { "" }
}

/// Why a store could not do what it was asked to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The database or its driver, while doing this.
    #[error("{doing}: {source}")]
    Database {
        /// What was being done.
        doing: &'static str,
        /// What it said.
        #[source]
        source: DriverError,
    },
    /// The database's server does not answer, or does not let us in.
    #[error("no connection to PostgreSQL at {address}: {source}; is it running, and is the database's URL right?")]
    Connect {
        /// Host and port, or the socket's directory.
        address: String,
        /// What it said.
        #[source]
        source: DriverError,
    },
    /// The tables are not there, or too old for this program.
    #[error("the outbox's tables are {found}, this program needs version {needed}; run `pillarbox migrate`")]
    NotMigrated {
        /// What is there.
        found: String,
        /// What this program works on.
        needed: i32,
    },
    /// The tables are too new for this program.
    #[error(
        "the outbox's tables are at version {found}, which needs pillarbox {least} or newer; this is {ours}: install \
         a newer pillarbox"
    )]
    ProgramTooOld {
        /// The schema's version.
        found: i32,
        /// The least version of the program that works on it.
        least: String,
        /// The version of this program.
        ours: &'static str,
    },
    /// The tables of django-celery-outbox are not there, or too old for this program.
    #[error(
        "{what} in schema {schema:?}: run `manage.py migrate django_celery_outbox` with django-celery-outbox 0.4.3, and \
         look whether the database's URL and schema are those of the Django project"
    )]
    NotAdoptable {
        /// What is missing.
        what: String,
        /// Where it was looked for.
        schema: String,
    },
    /// The tables of django-celery-outbox are too new for this program.
    #[error(
        "{table:?} has a column {column:?} that must be written and that this program does not know: the tables are of a \
         newer django-celery-outbox than 0.4.3; install a newer pillarbox"
    )]
    TooNewToAdopt {
        /// Which table.
        table: String,
        /// Which column.
        column: String,
    },
    /// A place in a list that is not there.
    #[error(transparent)]
    BadCursor(#[from] crate::store::BadCursor),
    /// A name that cannot be a schema's.
    #[error(
        "{name:?} cannot be a schema's name: letters, digits and underscores, not starting with a digit, at most 63"
    )]
    BadSchemaName {
        /// As it was given.
        name: String,
    },
    /// A row that Pillarbox cannot read.
    #[error("event {id} cannot be read: {what}")]
    BadRow {
        /// Which.
        id: String,
        /// What is wrong with it.
        what: String,
    },
    /// An event could not be emitted.
    #[error(transparent)]
    Emit(#[from] EmitError),
}

/// Why a relay could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A route names a destination that is not there.
    #[error("the route for {pattern:?} goes to {destination:?}, which is not a destination; there are: {known}")]
    UnknownDestination {
        /// The route's pattern.
        pattern: String,
        /// As the route names it.
        destination: String,
        /// Those there are.
        known: String,
    },
    /// Two destinations of one name.
    #[error("there are two destinations named {name:?}; names must be unique")]
    SameName {
        /// The name.
        name: String,
    },
    /// A name with a meaning of its own.
    #[error("a destination cannot be named {name:?}; choose another name")]
    ReservedName {
        /// The name.
        name: String,
    },
    /// A lease that can run out while a send is under way.
    #[error(
        "the lease ({lease:?}) must be longer, by a tenth at least, than the timeout of destination {destination:?} ({timeout:?}), or its \
         events could be sent twice; raise relay.lease or lower the timeout"
    )]
    LeaseTooShort {
        /// The relay's lease.
        lease: std::time::Duration,
        /// Which destination.
        destination: String,
        /// Its timeout.
        timeout: std::time::Duration,
    },
    /// A setting without sense.
    #[error("{setting} is {value}: {why}")]
    BadSetting {
        /// Which.
        setting: &'static str,
        /// As given.
        value: String,
        /// What it must be.
        why: &'static str,
    },
}
