//! The servers of a database: one, or several of which one is the primary. Each new connection searches for the primary again,
//! and resolves its name again.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sqlx::ConnectOptions;
use sqlx::postgres::PgConnectOptions;
use tokio::sync::mpsc;
use tokio_postgres::Config;
#[cfg(feature = "wal")]
use tokio_postgres_rustls::MakeRustlsConnect;

use super::SQL;
use super::error::Error;
use super::statement::PgQuery;
use super::tls::Tls;
use super::url::{Address, Session, decoded};
use super::wire::Wire;
use crate::error::{DriverError, StoreError};

/// When the kernel takes an unacknowledged connection for lost, and how it tests a silent one.
const UNACKNOWLEDGED: Duration = Duration::from_secs(15);
const KEEPALIVE_AFTER: Duration = Duration::from_secs(10);
const KEEPALIVE_EVERY: Duration = Duration::from_secs(3);
const KEEPALIVES: u32 = 3;

/// The servers that connections go to.
pub(super) struct Servers {
    /// The servers, in the order of the URL.
    hosts: Vec<Host>,
    session: Session,
    connect_timeout: Duration,
    /// The server that responded last. It is tried first.
    last: AtomicUsize,
}

/// One server: the options for the application's pool, and the same for the store's own connections.
struct Host {
    options: PgConnectOptions,
    config: Config,
    tls: Tls,
}

/// Omits the options, which contain a password.
impl fmt::Debug for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Servers").field("addresses", &self.addresses()).finish_non_exhaustive()
    }
}

/// A connection, and the name of its session on the server.
pub(super) struct Connected {
    pub(super) wire: Wire,
    pub(super) name: String,
    /// Gets a message for each notification, and ends with the connection.
    pub(super) notified: mpsc::UnboundedReceiver<()>,
}

impl Host {
    /// Converts the options of sqlx, which also reads libpq's environment variables and password file.
    fn new(options: PgConnectOptions) -> Result<Self, Error> {
        // A pooler rejects start-up settings that it does not know, and nothing here needs more digits. Logging slow statements
        // is left to the server: here their text would only hide the error.
        let options = options.application_name("pillarbox").extra_float_digits(None).disable_statement_logging();
        let mut config = Config::new();
        match options.get_socket() {
            Some(directory) => config.host_path(directory),
            None => config.host(options.get_host().trim_matches(['[', ']'])),
        };
        config.port(options.get_port()).user(options.get_username());
        config.dbname(options.get_database().unwrap_or(options.get_username()));
        if let Some(settings) = options.get_options() {
            config.options(settings);
        }
        // The rest can only be read from a URL, which is right for a plain user and host only.
        let url = options.clone().username("user").host("host").to_url_lossy();
        if let Some(password) = url.password() {
            config.password(decoded(password).map_err(|problem| Error::Value(problem.into()))?);
        }
        let parameter = |name| {
            let (_, value) = url.query_pairs().find(|(known, _)| known == name)?;
            Some(value.strip_prefix("file: ").unwrap_or(&value).to_owned())
        };
        let tls = Tls {
            mode: options.get_ssl_mode(),
            roots: parameter("sslrootcert"),
            client: parameter("sslcert").zip(parameter("sslkey")),
        };
        config.ssl_mode(tls.mode()).tcp_user_timeout(UNACKNOWLEDGED);
        config.keepalives_idle(KEEPALIVE_AFTER).keepalives_interval(KEEPALIVE_EVERY).keepalives_retries(KEEPALIVES);
        Ok(Self { options, config, tls })
    }

    fn address(&self) -> String {
        match self.options.get_socket() {
            Some(socket) => socket.display().to_string(),
            None => format!("{}:{}", self.options.get_host(), self.options.get_port()),
        }
    }
}

impl Servers {
    pub(super) fn parse(url: &str, connect_timeout: Duration) -> Result<Self, StoreError> {
        let unreadable = |source: DriverError| StoreError::Database { doing: "reading the database's URL", source };
        let address = Address::parse(url).map_err(|problem| unreadable(problem.into()))?;
        let mut hosts = Vec::with_capacity(address.hosts.len());
        for host in &address.hosts {
            let options: PgConnectOptions = host.parse().map_err(|error: sqlx::Error| unreadable(error.into()))?;
            hosts.push(Host::new(options).map_err(|error| unreadable(error.into()))?);
        }
        let connect_timeout = address.connect_timeout.unwrap_or(connect_timeout);
        Ok(Self { hosts, session: address.session, connect_timeout, last: AtomicUsize::new(0) })
    }

    /// Returns the server of an application's pool.
    pub(super) fn of_pool(options: &PgConnectOptions, connect_timeout: Duration) -> Result<Self, StoreError> {
        let host = Host::new(options.clone()).map_err(super::database("reading the pool's options"))?;
        Ok(Self { hosts: vec![host], session: Session::Any, connect_timeout, last: AtomicUsize::new(0) })
    }

    /// Returns host and port of each server.
    pub(super) fn addresses(&self) -> String {
        self.hosts.iter().map(Host::address).collect::<Vec<_>>().join(", ")
    }

    /// Returns the server that responded last.
    pub(super) fn current(&self) -> PgConnectOptions {
        self.hosts[self.place(0)].options.clone()
    }

    pub(super) fn are_several(&self) -> bool {
        self.hosts.len() > 1
    }

    /// Returns how long it may take to try all servers.
    pub(super) fn longest(&self) -> Duration {
        self.connect_timeout * u32::try_from(self.hosts.len()).unwrap_or(u32::MAX)
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
                Err(_) => Error::silent(self.connect_timeout),
            };
            failures.push((host.address(), failure));
        }
        Err(all_failed(failures))
    }

    async fn connect_to(&self, host: &Host) -> Result<Connected, Error> {
        let name = format!("pillarbox/{:08x}", rand::random::<u32>());
        let mut config = host.config.clone();
        config.application_name(&name);
        let (mut wire, notified) = Wire::connect(&config, host.tls.connector()?).await?;
        prepare(&mut wire, self.session).await?;
        Ok(Connected { wire, name, notified })
    }

    /// Returns address, settings and encryption of each server, beginning with the one that responded last.
    #[cfg(feature = "wal")]
    pub(super) fn each(&self) -> impl Iterator<Item = (String, &Config, Result<MakeRustlsConnect, Error>)> {
        (0..self.hosts.len()).map(|step| {
            let host = &self.hosts[self.place(step)];
            (host.address(), &host.config, host.tls.connector())
        })
    }

    pub(super) fn session(&self) -> Session {
        self.session
    }
}

/// Sets the session settings of a new connection, and rejects a server that is not of the wanted kind.
async fn prepare(wire: &mut Wire, session: Session) -> Result<(), Error> {
    if let Some(question) = session.question() {
        let answer = wire.ask(None, PgQuery::new(question), None).await?;
        if answer.rows.first().ok_or(Error::NoRow)?.try_get(0)? {
            return Err(Error::Io(io::Error::other(READ_ONLY)));
        }
    }
    // A server that does not know one of the settings works without them.
    match wire.run(SQL.session).await {
        Err(error @ Error::Server(_)) => {
            tracing::debug!(%error, "the server rejects the session settings");
            Ok(())
        }
        told => told,
    }
}

pub(super) const READ_ONLY: &str = "it is read-only; it may be a standby";

/// Returns the error of one server, or a summary of the errors of several.
fn all_failed(mut failures: Vec<(String, Error)>) -> Error {
    match failures.len() {
        1 => failures.remove(0).1,
        _ => {
            let told: Vec<String> = failures.iter().map(|(address, error)| format!("{address}: {error}")).collect();
            Error::Io(io::Error::other(format!("no usable server: {}", told.join("; "))))
        }
    }
}
