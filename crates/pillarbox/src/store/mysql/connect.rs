//! The connections of a store on MariaDB or MySQL: sessions that are set up alike, with a deadline on every wait. A connection
//! on which something was waited for in vain, or whose transaction was not ended, is closed and never used again.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{fmt, mem};

use futures_util::TryStreamExt;
use sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlRow};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Either, Executor};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::error::Elapsed;
use tokio::time::timeout;

use super::rights::{self, Denied};
use super::server::Server;
use super::statement::queries;
use super::{MysqlSettings, database, url};
use crate::error::{DriverError, StoreError};
use crate::store::sql::Call;

/// A connection that was used within this time is not tested before it is used again.
const FRESH: Duration = Duration::from_secs(1);
/// How long a test of an idle connection may take.
const TEST: Duration = Duration::from_secs(2);
/// The number of times that a statement or a short transaction is repeated after a deadlock.
const REPEATS: u32 = 8;

/// The errors of a server that accepts no writes: `read_only`, `super_read_only`, and a transaction that is read-only.
const READ_ONLY: [u16; 3] = [1290, 1836, 1792];

/// The server did not respond in time.
#[derive(Debug, thiserror::Error)]
#[error("no answer within {0:?}; the connection was closed")]
pub(super) struct Silent(Duration);

/// Idle connections, and how to make others.
pub(super) struct Connections {
    options: MySqlConnectOptions,
    settings: MysqlSettings,
    setup: Arc<str>,
    pub(super) server: Server,
    idle: Mutex<Vec<(MySqlConnection, Instant)>>,
    /// How often [`Connections::forget`] was called.
    forgotten: AtomicU64,
    permits: Arc<Semaphore>,
}

impl fmt::Debug for Connections {
    /// Does not print the options, which contain the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connections").field("server", &self.server).finish_non_exhaustive()
    }
}

impl Connections {
    /// Connects once, and refuses a server that an outbox cannot work on. Each session begins with the statements of `setup`.
    pub(super) async fn open(url: &str, settings: MysqlSettings, setup: &str) -> Result<Arc<Self>, StoreError> {
        let options = url::options(url).map_err(database("reading the database's URL"))?;
        let options =
            options.charset("utf8mb4").pipes_as_concat(false).no_engine_substitution(false).disable_statement_logging();
        let address = format!("{}:{}", options.get_host(), options.get_port());
        let connected = |source| StoreError::Connect { server: "MariaDB or MySQL", address, source };
        let mut first = session(&options, setup, settings.connect_timeout).await.map_err(connected)?;
        let server = Server::read(&mut first).await.map_err(database("reading the server's settings"))?;
        server.check()?;
        Ok(Arc::new(Self {
            options,
            settings,
            setup: setup.into(),
            server,
            idle: Mutex::new(vec![(first, Instant::now())]),
            forgotten: AtomicU64::new(0),
            permits: Arc::new(Semaphore::new(settings.connections.max(1) as usize)),
        }))
    }

    /// Returns a connection that works: an idle one, or a new one.
    pub(super) async fn acquire(self: &Arc<Self>) -> Result<Link, DriverError> {
        let deadline = self.settings.deadline;
        let permit = timeout(deadline, Arc::clone(&self.permits).acquire_owned()).await;
        let permit = permit.map_err(|_| format!("no free connection within {deadline:?}; raise the limit"))??;
        loop {
            let idle = self.lock().pop();
            let Some((mut connection, since)) = idle else { break };
            if since.elapsed() < FRESH || matches!(timeout(TEST, connection.ping()).await, Ok(Ok(()))) {
                return Ok(self.link(connection, permit));
            }
        }
        Ok(self.link(session(&self.options, &self.setup, self.settings.connect_timeout).await?, permit))
    }

    fn link(self: &Arc<Self>, connection: MySqlConnection, permit: OwnedSemaphorePermit) -> Link {
        let epoch = self.forgotten.load(Ordering::Acquire);
        Link {
            connection: Some(connection),
            home: Arc::clone(self),
            epoch,
            is_clean: true,
            is_open: false,
            _permit: permit,
        }
    }

    /// Closes all connections, those in use when they come back: the server has become read-only, and another one may be the
    /// primary.
    pub(super) fn forget(&self) {
        self.forgotten.fetch_add(1, Ordering::AcqRel);
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(MySqlConnection, Instant)>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Opens a session and sets it up.
async fn session(
    options: &MySqlConnectOptions,
    setup: &str,
    deadline: Duration,
) -> Result<MySqlConnection, DriverError> {
    let connect = async {
        let mut connection = options.connect().await?;
        (&mut connection).execute(sqlx::raw_sql(AssertSqlSafe(setup.to_owned()))).await?;
        Ok::<_, sqlx::Error>(connection)
    };
    let connected = timeout(deadline, connect).await.map_err(|_| Silent(deadline))?;
    connected.map_err(|error| rights::explain(error.into(), None))
}

/// What a call returned: the rows of its last statement, and the number of rows that its statements have matched.
#[derive(Debug, Default)]
pub(super) struct Done {
    pub(super) rows: Vec<MySqlRow>,
    pub(super) matched: u64,
}

/// A connection in use. It goes back to the others when it is dropped, unless something was not finished on it.
pub(super) struct Link {
    connection: Option<MySqlConnection>,
    home: Arc<Connections>,
    /// The value of `forgotten` when it was taken.
    epoch: u64,
    /// Whether nothing is under way.
    is_clean: bool,
    /// Whether a transaction is open.
    is_open: bool,
    _permit: OwnedSemaphorePermit,
}

impl Link {
    /// Runs the statements of a call.
    pub(super) async fn run(&mut self, call: &Call) -> Result<Done, DriverError> {
        let (deadline, connection) = self.busy()?;
        let work = async {
            let mut done = Done::default();
            for query in queries(call) {
                done.rows.clear();
                let mut results = (&mut *connection).fetch_many(query);
                while let Some(result) = results.try_next().await? {
                    match result {
                        Either::Left(end) => done.matched += end.rows_affected(),
                        Either::Right(row) => done.rows.push(row),
                    }
                }
            }
            Ok::<_, DriverError>(done)
        };
        let result = timeout(deadline, work).await;
        self.ended(result)
    }

    /// Runs a text of statements without values, and returns how many rows they have matched.
    pub(super) async fn script(&mut self, text: String) -> Result<u64, DriverError> {
        let (deadline, connection) = self.busy()?;
        let result = timeout(deadline, connection.execute(sqlx::raw_sql(AssertSqlSafe(text)))).await;
        self.ended(result.map(|result| result.map(|done| done.rows_affected()).map_err(DriverError::from)))
    }

    pub(super) async fn begin(&mut self) -> Result<(), DriverError> {
        self.is_open = true;
        self.script("BEGIN".to_owned()).await.map(drop)
    }

    /// Marks the session as one that must not be used by others before [`Link::end`].
    pub(super) fn keep(&mut self) {
        self.is_open = true;
    }

    /// Ends the transaction with this statement: COMMIT, ROLLBACK, or one that gives back a lock of the session.
    pub(super) async fn end(&mut self, statement: &str) -> Result<(), DriverError> {
        self.script(statement.to_owned()).await?;
        self.is_open = false;
        Ok(())
    }

    /// Returns the connection for some work, with its deadline. Until [`Link::ended`], dropping the link closes it.
    pub(super) fn busy(&mut self) -> Result<(Duration, &mut MySqlConnection), DriverError> {
        self.is_clean = false;
        let connection = self.connection.as_mut().ok_or("the connection is closed")?;
        Ok((self.home.settings.deadline, connection))
    }

    /// Records how some work ended. After an error of the server itself, the connection is as good as before, unless the server has
    /// become read-only.
    pub(super) fn ended<T>(&mut self, result: Result<Result<T, DriverError>, Elapsed>) -> Result<T, DriverError> {
        let result = result.map_err(|_| Silent(self.home.settings.deadline))?;
        let number = result.as_ref().err().map(number);
        self.is_clean = number.is_none_or(|number| number.is_some());
        if number.flatten().is_some_and(|number| READ_ONLY.contains(&number)) {
            self.home.forget();
        }
        result.map_err(|error| rights::explain(error, Some(&self.home.server)))
    }

    pub(super) fn collation(&self) -> &'static str {
        self.home.server.collation()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let connection = mem::take(&mut self.connection);
        let is_current = self.epoch == self.home.forgotten.load(Ordering::Acquire);
        if let Some(connection) = connection.filter(|_| self.is_clean && !self.is_open && is_current) {
            self.home.lock().push((connection, Instant::now()));
        }
    }
}

/// Returns the server's number of an error.
pub(super) fn number(error: &DriverError) -> Option<u16> {
    let driver = error.downcast_ref::<Denied>().map(Denied::driver).or_else(|| error.downcast_ref());
    let error = driver?.as_database_error()?;
    error.try_downcast_ref::<sqlx::mysql::MySqlDatabaseError>().map(sqlx::mysql::MySqlDatabaseError::number)
}

/// Runs an operation again after a deadlock.
macro_rules! repeating {
    ($operation:expr) => {{
        let mut repeats = $crate::store::mysql::connect::Repeats::default();
        loop {
            match $operation.await {
                Err(error) if repeats.again(&error).await => {}
                result => break result,
            }
        }
    }};
}

pub(super) use repeating;

/// Counts the repeats of one operation.
#[derive(Debug, Default)]
pub(super) struct Repeats(u32);

impl Repeats {
    /// Returns whether to repeat the operation, after a moment: if the server chose it as the victim of a deadlock (1213), or
    /// another transaction held a lock for too long (1205).
    pub(super) async fn again(&mut self, error: &DriverError) -> bool {
        self.0 += 1;
        let again = matches!(number(error), Some(1213 | 1205)) && self.0 <= REPEATS;
        if again {
            let most = 1_u64 << self.0.min(6);
            tokio::time::sleep(Duration::from_millis(rand::random_range(0..=most))).await;
        }
        again
    }
}
