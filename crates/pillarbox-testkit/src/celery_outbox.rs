//! An outbox of django-celery-outbox: its tables in a database of their own, its tasks, and the rows that its own relay would
//! select.

use std::time::Duration;

use chrono::{DateTime, Utc};
use pillarbox::store::celery_outbox::{CeleryOutboxSettings, CeleryOutboxStore};
use sqlx::mysql::{MySqlConnectOptions, MySqlPool, MySqlPoolOptions};
use sqlx::postgres::{PgPool, PgPoolOptions};
use sqlx::{AssertSqlSafe, Executor};

use crate::{TestDatabase, TestMysql};

/// The query of django-celery-outbox's relay (`MessageSelector`), in SQL.
const SELECTED_POSTGRES: &str = "
SELECT id FROM celery_outbox
WHERE (updated_at IS NULL OR retry_after <= statement_timestamp()
       OR (updated_at <= statement_timestamp() - $1 * interval '1 second' AND retry_after IS NULL))
  AND schema_version >= 1 AND schema_version <= 1
ORDER BY id
LIMIT $2
FOR UPDATE SKIP LOCKED";
const SELECTED_MYSQL: &str = "
SELECT id FROM celery_outbox
WHERE (updated_at IS NULL OR retry_after <= current_timestamp(6)
       OR (updated_at <= current_timestamp(6) - INTERVAL ? * 1e6 MICROSECOND AND retry_after IS NULL))
  AND schema_version >= 1 AND schema_version <= 1
ORDER BY id
LIMIT ?
FOR UPDATE SKIP LOCKED";

const ADD_POSTGRES: &str = "
INSERT INTO celery_outbox (created_at, updated_at, retries, retry_after, task_id, task_name, args, kwargs, options,
                           schema_version)
SELECT clock_timestamp(), NULL, 0, NULL, 'task-' || number, 'orders.process', jsonb_build_array(number), '{}',
       '{\"ignore_result\": false}', 1
FROM generate_series(1, $1) AS number";
/// Django writes `created_at` in UTC, and leaves other times to the session.
const ADD_MYSQL: &str = "
INSERT INTO celery_outbox (created_at, updated_at, retries, retry_after, task_id, task_name, args, kwargs, options,
                           schema_version)
SELECT utc_timestamp(6), NULL, 0, NULL, concat('task-', number), 'orders.process', json_array(number), '{}',
       '{\"ignore_result\": false}', 1
FROM json_table(?, '$[*]' COLUMNS (number FOR ORDINALITY)) AS numbers";

/// The database of a test's outbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum On {
    /// PostgreSQL.
    Postgres,
    /// MariaDB.
    Mysql,
}

impl On {
    /// Returns the statements that create the tables, as the package's migrations do.
    pub fn tables(self) -> &'static str {
        match self {
            Self::Postgres => include_str!("celery_outbox/postgres.sql"),
            Self::Mysql => include_str!("celery_outbox/mysql.sql"),
        }
    }
}

#[derive(Debug)]
enum Database {
    Postgres(TestDatabase, PgPool),
    Mysql(TestMysql, MySqlPool),
}

/// One test's outbox. Its statements keep to what both databases understand: `current_timestamp(6) - INTERVAL '1' HOUR`.
#[derive(Debug)]
pub struct CeleryOutbox {
    database: Database,
}

/// A transaction that holds locks.
#[derive(Debug)]
pub enum Locks {
    /// On PostgreSQL.
    Postgres(sqlx::Transaction<'static, sqlx::Postgres>),
    /// On MariaDB.
    Mysql(sqlx::Transaction<'static, sqlx::MySql>),
}

/// Runs an expression with the pool of the database.
macro_rules! with {
    ($outbox:expr, $pool:ident => $body:expr) => {
        match &$outbox.database {
            Database::Postgres(_, $pool) => $body,
            Database::Mysql(_, $pool) => $body,
        }
    };
}

/// The columns of `celery_outbox` that change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskRow {
    /// The row's id.
    pub id: i64,
    /// When the task was claimed or failed.
    pub updated_at: Option<DateTime<Utc>>,
    /// The number of failed attempts.
    pub retries: i16,
    /// When the task is due again.
    pub retry_after: Option<DateTime<Utc>>,
}

impl CeleryOutbox {
    /// Creates the tables in a fresh database of PostgreSQL.
    ///
    /// # Panics
    /// When there is no server, or it refuses.
    pub async fn create() -> Self {
        Self::create_on(On::Postgres).await
    }

    /// Creates the tables in a fresh database.
    ///
    /// # Panics
    /// When there is no server, or it refuses.
    pub async fn create_on(on: On) -> Self {
        let outbox = Self::create_empty(on).await;
        outbox.execute(on.tables()).await;
        outbox
    }

    /// Creates a fresh database without the tables.
    ///
    /// # Panics
    /// When there is no server, or it refuses.
    pub async fn create_empty(on: On) -> Self {
        let database = match on {
            On::Postgres => {
                let database = TestDatabase::create().await;
                let pool = PgPoolOptions::new().max_connections(8).connect(&database.url()).await;
                Database::Postgres(database, pool.expect("the database answers"))
            }
            On::Mysql => {
                let database = TestMysql::create().await;
                let options: MySqlConnectOptions = database.url().parse().expect("the URL is right");
                // Django's sessions, too, have the time zone of the server.
                let pool = MySqlPoolOptions::new().max_connections(8).connect_with(options.timezone(None)).await;
                Database::Mysql(database, pool.expect("the database answers"))
            }
        };
        let outbox = Self { database };
        if on == On::Mysql {
            outbox.execute("ALTER DATABASE CHARACTER SET utf8mb4").await;
        }
        outbox
    }

    /// Returns the database's kind.
    pub fn on(&self) -> On {
        match self.database {
            Database::Postgres(..) => On::Postgres,
            Database::Mysql(..) => On::Mysql,
        }
    }

    /// Returns the database's URL.
    pub fn url(&self) -> String {
        match &self.database {
            Database::Postgres(database, _) => database.url(),
            Database::Mysql(database, _) => database.url(),
        }
    }

    /// Returns the name of the schema that the tables are in.
    pub fn schema(&self) -> &str {
        match &self.database {
            Database::Postgres(..) => "public",
            Database::Mysql(database, _) => database.name(),
        }
    }

    /// Returns the pool of an outbox on PostgreSQL.
    ///
    /// # Panics
    /// On another database.
    pub fn postgres(&self) -> &PgPool {
        match &self.database {
            Database::Postgres(_, pool) => pool,
            Database::Mysql(..) => panic!("the outbox is not on PostgreSQL"),
        }
    }

    /// Returns the pool of an outbox on MariaDB.
    ///
    /// # Panics
    /// On another database.
    pub fn mysql(&self) -> &MySqlPool {
        match &self.database {
            Database::Postgres(..) => panic!("the outbox is not on MariaDB"),
            Database::Mysql(_, pool) => pool,
        }
    }

    /// Opens a store with its own connections, as another process would.
    ///
    /// # Panics
    /// When the database does not respond.
    pub async fn store(&self, settings: CeleryOutboxSettings) -> CeleryOutboxStore {
        let store = match self.on() {
            On::Postgres => CeleryOutboxStore::connect(&self.url(), "public", settings).await,
            On::Mysql => CeleryOutboxStore::connect_mysql(&self.url(), settings).await,
        };
        store.expect("the store connects")
    }

    /// Runs statements.
    ///
    /// # Panics
    /// When the database refuses them.
    pub async fn execute(&self, statements: &str) {
        loop {
            let statements = sqlx::raw_sql(AssertSqlSafe(statements.to_owned()));
            match with!(self, pool => pool.execute(statements).await.map(drop)) {
                Ok(()) => return,
                Err(error) => assert!(is_deadlock(&error), "the statements are right: {error}"),
            }
        }
    }

    /// Returns the number that a statement returns.
    ///
    /// # Panics
    /// When the database refuses it.
    pub async fn number(&self, statement: &str) -> i64 {
        let statement = AssertSqlSafe(statement.to_owned());
        with!(self, pool => sqlx::query_scalar(statement).fetch_one(pool).await).expect("the statement is right")
    }

    /// Runs a statement that locks rows, and keeps the locks until the value is dropped.
    ///
    /// # Panics
    /// When the database refuses it.
    pub async fn lock(&self, statement: &str) -> Locks {
        let statement = AssertSqlSafe(statement.to_owned());
        let locks = async {
            Ok::<_, sqlx::Error>(match &self.database {
                Database::Postgres(_, pool) => {
                    let mut tx = pool.begin().await?;
                    tx.execute(statement).await?;
                    Locks::Postgres(tx)
                }
                Database::Mysql(_, pool) => {
                    let mut tx = pool.begin().await?;
                    tx.execute(statement).await?;
                    Locks::Mysql(tx)
                }
            })
        };
        locks.await.expect("the statement is right")
    }

    /// Adds tasks, and returns their ids in order.
    ///
    /// # Panics
    /// When the database refuses them.
    pub async fn add(&self, count: i32) -> Vec<i64> {
        let last = self.number("SELECT coalesce(max(id), 0) FROM celery_outbox").await;
        match &self.database {
            Database::Postgres(_, pool) => sqlx::query(ADD_POSTGRES).bind(count).execute(pool).await.map(drop),
            Database::Mysql(_, pool) => {
                let numbers = format!("{:?}", vec![0; usize::try_from(count).unwrap_or_default()]);
                sqlx::query(ADD_MYSQL).bind(numbers).execute(pool).await.map(drop)
            }
        }
        .expect("tasks are added");
        let added = AssertSqlSafe(format!("SELECT id FROM celery_outbox WHERE id > {last} ORDER BY id"));
        with!(self, pool => sqlx::query_scalar(added).fetch_all(pool).await).expect("the table can be read")
    }

    /// Returns the tasks in the table, in order.
    ///
    /// # Panics
    /// When the database does not respond.
    pub async fn rows(&self) -> Vec<TaskRow> {
        type Moment = Option<DateTime<Utc>>;
        let text = "SELECT id, updated_at, retries, retry_after FROM celery_outbox ORDER BY id";
        let rows: Vec<(i64, Moment, i16, Moment)> =
            with!(self, pool => sqlx::query_as(text).fetch_all(pool).await).expect("the table can be read");
        let row = |(id, updated_at, retries, retry_after)| TaskRow { id, updated_at, retries, retry_after };
        rows.into_iter().map(row).collect()
    }

    /// Returns the ids that the package's own relay would select now.
    ///
    /// # Panics
    /// When the database does not respond.
    pub async fn selected(&self, stale: Duration) -> Vec<i64> {
        let stale = stale.as_secs_f64();
        let ids: Result<Vec<i64>, _> = match &self.database {
            Database::Postgres(_, pool) => {
                sqlx::query_scalar(SELECTED_POSTGRES).bind(stale).bind(i32::MAX).fetch_all(pool).await
            }
            Database::Mysql(_, pool) => {
                sqlx::query_scalar(SELECTED_MYSQL).bind(stale).bind(i32::MAX).fetch_all(pool).await
            }
        };
        let mut ids = ids.expect("the table can be read");
        ids.sort_unstable();
        ids
    }

    /// Selects a batch as the package's own relay does, and marks it as in flight. After a deadlock, which MariaDB ends by an
    /// error, it selects again, as that relay does in its next round.
    ///
    /// # Panics
    /// When the database does not respond.
    pub async fn select_as_its_relay(&self, stale: Duration, limit: i32) -> Vec<i64> {
        loop {
            match self.try_select_as_its_relay(stale, limit).await {
                Ok(ids) => return ids,
                Err(error) => assert!(is_deadlock(&error), "the table can be read and written: {error}"),
            }
        }
    }

    async fn try_select_as_its_relay(&self, stale: Duration, limit: i32) -> Result<Vec<i64>, sqlx::Error> {
        macro_rules! select {
            ($pool:expr, $selected:expr) => {{
                let mut tx = $pool.begin().await?;
                let select = sqlx::query_scalar($selected).bind(stale.as_secs_f64()).bind(limit);
                let ids: Vec<i64> = select.fetch_all(&mut *tx).await?;
                if !ids.is_empty() {
                    let update =
                        format!("UPDATE celery_outbox SET updated_at = current_timestamp(6) WHERE {}", among(&ids));
                    tx.execute(AssertSqlSafe(update)).await?;
                }
                tx.commit().await?;
                ids
            }};
        }
        Ok(match &self.database {
            Database::Postgres(_, pool) => select!(pool, SELECTED_POSTGRES),
            Database::Mysql(_, pool) => select!(pool, SELECTED_MYSQL),
        })
    }

    /// Returns the dead letters: task id, retries, reason.
    ///
    /// # Panics
    /// When the database does not respond.
    pub async fn dead_letters(&self) -> Vec<(String, i16, Option<String>)> {
        let text = "SELECT task_id, retries, failure_reason FROM celery_outbox_dead_letter ORDER BY id";
        with!(self, pool => sqlx::query_as(text).fetch_all(pool).await).expect("the table can be read")
    }
}

/// Returns the condition that a row is one of these.
pub fn among(ids: &[i64]) -> String {
    let ids: Vec<String> = ids.iter().map(i64::to_string).collect();
    format!("id IN ({})", ids.join(", "))
}

fn is_deadlock(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(|error| error.code().as_deref() == Some("40001"))
}
