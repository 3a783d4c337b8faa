//! The servers of a database: one, or several of which one is the primary. Each new connection searches for the primary again,
//! and resolves its name again.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{ConnectOptions, Error, Row};

use super::SQL;
use super::url::{Address, Session};
use crate::error::{DriverError, StoreError};

/// The servers that connections go to.
pub(super) struct Servers {
    /// The servers, in the order of the URL.
    hosts: Vec<PgConnectOptions>,
    session: Session,
    connect_timeout: Duration,
    /// The server that responded last. It is tried first.
    last: AtomicUsize,
}

/// Omits the options, which contain a password.
impl fmt::Debug for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Servers").field("addresses", &self.addresses()).finish_non_exhaustive()
    }
}

/// A connection, and the name of its session on the server.
pub(super) struct Connected {
    pub(super) connection: PgConnection,
    pub(super) name: String,
}

impl Servers {
    pub(super) fn parse(url: &str, connect_timeout: Duration) -> Result<Self, StoreError> {
        let unreadable = |source: DriverError| StoreError::Database { doing: "reading the database's URL", source };
        let address = Address::parse(url).map_err(|problem| unreadable(problem.into()))?;
        let mut hosts = Vec::with_capacity(address.hosts.len());
        for host in &address.hosts {
            let options: PgConnectOptions = host.parse().map_err(|error: Error| unreadable(error.into()))?;
            // A pooler rejects start-up settings that it does not know, and nothing here needs more digits. Logging slow
            // statements is left to the server: here their text would only hide the error.
            hosts.push(options.application_name("pillarbox").extra_float_digits(None).disable_statement_logging());
        }
        let connect_timeout = address.connect_timeout.unwrap_or(connect_timeout);
        Ok(Self { hosts, session: address.session, connect_timeout, last: AtomicUsize::new(0) })
    }

    /// Returns host and port of each server.
    pub(super) fn addresses(&self) -> String {
        self.hosts.iter().map(address).collect::<Vec<_>>().join(", ")
    }

    /// Returns the server that responded last.
    pub(super) fn current(&self) -> PgConnectOptions {
        self.hosts[self.place(0)].clone()
    }

    /// Returns how long it may take to try all servers.
    pub(super) fn longest(&self) -> Duration {
        self.connect_timeout * u32::try_from(self.hosts.len()).unwrap_or(u32::MAX)
    }

    pub(super) fn connect_timeout(&self) -> Duration {
        self.connect_timeout
    }

    /// Lets the next connection begin with the next server, because the last one cannot be used.
    pub(super) fn turn_away(&self) {
        self.last.store(self.place(1), Ordering::Relaxed);
    }

    fn place(&self, step: usize) -> usize {
        (self.last.load(Ordering::Relaxed) + step) % self.hosts.len()
    }

    /// Connects to the first server that accepts the wanted kind of session.
    pub(super) async fn connect(&self) -> Result<Connected, Error> {
        let mut failures = Vec::new();
        for step in 0..self.hosts.len() {
            let place = self.place(step);
            let host = &self.hosts[place];
            let failure = match tokio::time::timeout(self.connect_timeout, self.connect_to(host)).await {
                Ok(Ok(connected)) => {
                    self.last.store(place, Ordering::Relaxed);
                    return Ok(connected);
                }
                Ok(Err(error)) => error,
                Err(_) => silent(self.connect_timeout),
            };
            failures.push((address(host), failure));
        }
        Err(all_failed(failures))
    }

    async fn connect_to(&self, host: &PgConnectOptions) -> Result<Connected, Error> {
        let name = format!("pillarbox/{:08x}", rand::random::<u32>());
        let mut connection = host.clone().application_name(&name).connect().await?;
        prepare(&mut connection, self.session).await?;
        Ok(Connected { connection, name })
    }

    pub(super) fn session(&self) -> Session {
        self.session
    }
}

/// Sets the session settings of a new connection, and rejects a server that is not of the wanted kind.
pub(super) async fn prepare(connection: &mut PgConnection, session: Session) -> Result<(), Error> {
    let question = match session {
        Session::Any => None,
        Session::ReadWrite => Some("SELECT current_setting('transaction_read_only')::bool"),
        Session::Primary => Some("SELECT pg_is_in_recovery()"),
    };
    if let Some(question) = question
        && sqlx::raw_sql(question).fetch_one(&mut *connection).await?.try_get::<bool, _>(0)?
    {
        return Err(Error::Io(io::Error::other(READ_ONLY)));
    }
    // A server that does not know one of the settings works without them.
    let settings = sqlx::raw_sql(SQL.session);
    match settings.execute(connection).await {
        Err(error @ Error::Database(_)) => {
            tracing::debug!(%error, "the server does not take the session's settings");
            Ok(())
        }
        told => told.map(|_| ()),
    }
}

const READ_ONLY: &str = "it is read-only, a standby perhaps";

fn address(host: &PgConnectOptions) -> String {
    match host.get_socket() {
        Some(socket) => socket.display().to_string(),
        None => format!("{}:{}", host.get_host(), host.get_port()),
    }
}

/// Returns the error of one server, or a summary of the errors of several.
fn all_failed(mut failures: Vec<(String, Error)>) -> Error {
    match failures.len() {
        1 => failures.remove(0).1,
        _ => {
            let told: Vec<String> = failures.iter().map(|(address, error)| format!("{address}: {error}")).collect();
            Error::Io(io::Error::other(format!("no server can be used: {}", told.join("; "))))
        }
    }
}

/// Returns the error of a wait that timed out.
pub(super) fn silent(after: Duration) -> Error {
    Error::Io(io::Error::new(
        io::ErrorKind::TimedOut,
        format!("the database does not answer: nothing came within {after:.1?}; its connection is closed"),
    ))
}

/// Returns whether the connection that returned this error can no longer be used.
pub(super) fn is_fatal(error: &Error) -> bool {
    match error {
        Error::Io(_) | Error::Tls(_) | Error::Protocol(_) | Error::WorkerCrashed => true,
        Error::Database(error) => {
            let ends = error.try_downcast_ref::<sqlx::postgres::PgDatabaseError>().is_some_and(|error| {
                use sqlx::postgres::PgSeverity::{Fatal, Panic};
                matches!(error.severity(), Fatal | Panic)
            });
            ends || is_read_only(error.as_ref()) || error.code().is_some_and(|code| is_lost(&code))
        }
        _ => false,
    }
}

/// Returns whether the server refuses writes. A server that becomes a standby keeps its connections and does so.
pub(super) fn is_read_only(error: &(dyn sqlx::error::DatabaseError + 'static)) -> bool {
    error.code().is_some_and(|code| code == "25006")
}

/// Returns whether the code is a connection exception, or the end of a server or a session.
fn is_lost(code: &str) -> bool {
    code.starts_with("08") || code.starts_with("57P") || code == "25P03"
}

/// Returns whether the error may be temporary: a server is starting, or a primary is being elected.
pub(super) fn is_passing(error: &Error) -> bool {
    match error {
        Error::Io(_) => true,
        Error::Database(error) => error.code().is_some_and(|code| is_lost(&code) || code == "53300"),
        _ => false,
    }
}
