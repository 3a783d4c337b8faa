//! The database under torture: a private PostgreSQL or MariaDB that can be killed, or a SQLite file. Beside the outbox there is the
//! application's table. Its rows are the committed events, even after the outbox has deleted them.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use pillarbox::store::mysql::MysqlStore;
use pillarbox::store::postgres::{LogSettings, PostgresStore};
use pillarbox::store::sqlite::SqliteStore;
use pillarbox::store::{Counts, EventView, Filter, Paging, State};
use pillarbox::{Event, Inspect, emit_all};
use pillarbox_testkit::{PrivateMysql, PrivatePostgres};
use sqlx::mysql::MySqlPool;
use uuid::Uuid;

use crate::{Kind, Source};

pub(crate) struct Database {
    server: Server,
    file: PathBuf,
    outbox: Outbox,
}

enum Server {
    Mysql(PrivateMysql),
    Postgres(PrivatePostgres),
    /// A SQLite file has none.
    None,
}

/// The outbox, as used by producers and the verdict.
#[derive(Clone)]
pub(crate) enum Outbox {
    Mysql(MysqlStore, MySqlPool),
    Postgres(PostgresStore),
    Sqlite(SqliteStore),
}

const APPLICATION_ON_POSTGRES: &str =
    "CREATE TABLE application (event_id uuid PRIMARY KEY, seq bigint NOT NULL, aggregate_id text NOT NULL)";
const APPLICATION_ON_MYSQL: &str = "CREATE TABLE application (event_id binary(16) PRIMARY KEY, seq bigint NOT NULL, aggregate_id varchar(100) NOT NULL)";
const APPLICATION_ON_SQLITE: &str =
    "CREATE TABLE application (event_id TEXT PRIMARY KEY, seq INTEGER NOT NULL, aggregate_id TEXT NOT NULL)";

const REFUSE_INSERTS: &str = "CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS \
     'BEGIN RAISE EXCEPTION USING ERRCODE = ''disk_full'', MESSAGE = ''refused''; END'; \
     CREATE OR REPLACE TRIGGER refused BEFORE INSERT ON outbox_event FOR EACH ROW EXECUTE FUNCTION refuse()";
const ACCEPT_INSERTS: &str = "DROP TRIGGER IF EXISTS refused ON outbox_event";

/// An event and its aggregate.
pub(crate) struct Place {
    pub(crate) id: Uuid,
    pub(crate) aggregate_id: String,
}

impl Database {
    pub(crate) async fn start(kind: Kind, source: Source, dir: &Path) -> Result<Self> {
        let file = dir.join("outbox.db");
        let (server, outbox) = match kind {
            Kind::Mysql => {
                // The server's own defaults: a confirmed commit is on disk.
                let server = PrivateMysql::start_with(&[]).await;
                let store = MysqlStore::connect(&server.url()).await?;
                store.migrate().await?;
                let pool = MySqlPool::connect(&server.url()).await?;
                sqlx::query(APPLICATION_ON_MYSQL).execute(&pool).await?;
                (Server::Mysql(server), Outbox::Mysql(store, pool))
            }
            Kind::Postgres => {
                // The server's own defaults: a confirmed commit is on disk.
                let logical = [("wal_level", "logical"), ("max_slot_wal_keep_size", "4GB")];
                let server = PrivatePostgres::start_with(if source == Source::Wal { &logical } else { &[] }).await;
                let store = PostgresStore::connect(&server.url(), "public").await?;
                store.migrate().await?;
                if source == Source::Wal {
                    store.log_enable(&LogSettings::default(), &mut |_| {}).await?;
                }
                sqlx::query(APPLICATION_ON_POSTGRES).execute(store.pool()).await?;
                (Server::Postgres(server), Outbox::Postgres(store))
            }
            Kind::Sqlite => {
                let store = SqliteStore::open(&file).await?;
                store.migrate().await?;
                sqlx::query(APPLICATION_ON_SQLITE).execute(store.pool()).await?;
                (Server::None, Outbox::Sqlite(store))
            }
        };
        Ok(Self { server, file, outbox })
    }

    pub(crate) fn url(&self) -> String {
        match &self.server {
            Server::Mysql(server) => server.url(),
            Server::Postgres(server) => server.url(),
            Server::None => format!("sqlite://{}", self.file.display()),
        }
    }

    pub(crate) fn outbox(&self) -> Outbox {
        self.outbox.clone()
    }

    /// Restarts the server as after a crash. Returns false for a SQLite file, which has no server.
    pub(crate) async fn crash(&mut self) -> bool {
        match &mut self.server {
            Server::Mysql(server) => server.restart_immediate().await,
            Server::Postgres(server) => server.restart_immediate().await,
            Server::None => return false,
        }
        true
    }

    pub(crate) async fn stop(&mut self) {
        match &mut self.server {
            Server::Mysql(server) => server.stop().await,
            Server::Postgres(server) => server.stop().await,
            Server::None => {}
        }
    }
}

impl Outbox {
    /// Runs one transaction with events and the application's rows that name them. Returns the ids, whether or not the commit
    /// was confirmed.
    pub(crate) async fn transact(&self, events: Vec<Event>, commit: bool) -> Result<Vec<Uuid>> {
        match self {
            Self::Mysql(_, pool) => {
                let mut tx = pool.begin().await?;
                let ids = ids(emit_all(&mut tx, events).await?);
                for id in &ids {
                    sqlx::query("INSERT INTO application SELECT id, seq, aggregate_id FROM outbox_event WHERE id = ?")
                        .bind(id)
                        .execute(&mut *tx)
                        .await?;
                }
                let _ = if commit { tx.commit().await } else { tx.rollback().await };
                Ok(ids)
            }
            Self::Postgres(store) => {
                let mut tx = store.pool().begin().await?;
                let ids = ids(emit_all(&mut tx, events).await?);
                sqlx::query(
                    // An event in the log has no row.
                    "INSERT INTO application SELECT given.id, coalesce(event.seq, 0), coalesce(event.aggregate_id, '') \
                     FROM unnest($1::uuid[]) AS given (id) LEFT JOIN outbox_event AS event ON event.id = given.id",
                )
                .bind(&ids)
                .execute(&mut *tx)
                .await?;
                // If the response is lost with the server, the application's table tells whether the commit succeeded.
                let _ = if commit { tx.commit().await } else { tx.rollback().await };
                Ok(ids)
            }
            Self::Sqlite(store) => {
                let mut tx = store.pool().begin_with("BEGIN IMMEDIATE").await?;
                let ids = ids(emit_all(&mut tx, events).await?);
                for id in &ids {
                    sqlx::query("INSERT INTO application SELECT id, seq, aggregate_id FROM outbox_event WHERE id = ?1")
                        .bind(id.hyphenated().to_string())
                        .execute(&mut *tx)
                        .await?;
                }
                let _ = if commit { tx.commit().await } else { tx.rollback().await };
                Ok(ids)
            }
        }
    }

    /// Returns the committed events, in the order of `seq`.
    pub(crate) async fn committed(&self) -> Result<Vec<Place>> {
        match self {
            Self::Mysql(_, pool) => {
                let rows: Vec<(Uuid, String)> =
                    sqlx::query_as("SELECT event_id, aggregate_id FROM application ORDER BY seq")
                        .fetch_all(pool)
                        .await?;
                Ok(rows.into_iter().map(|(id, aggregate_id)| Place { id, aggregate_id }).collect())
            }
            Self::Postgres(store) => {
                let rows: Vec<(Uuid, String)> =
                    sqlx::query_as("SELECT event_id, aggregate_id FROM application ORDER BY seq")
                        .fetch_all(store.pool())
                        .await?;
                Ok(rows.into_iter().map(|(id, aggregate_id)| Place { id, aggregate_id }).collect())
            }
            Self::Sqlite(store) => {
                let rows: Vec<(String, String)> =
                    sqlx::query_as("SELECT event_id, aggregate_id FROM application ORDER BY seq")
                        .fetch_all(store.pool())
                        .await?;
                rows.into_iter().map(|(id, aggregate_id)| Ok(Place { id: id.parse()?, aggregate_id })).collect()
            }
        }
    }

    /// Returns the number of committed events that were emitted into the log.
    pub(crate) async fn logged(&self) -> Result<i64> {
        self.count("SELECT count(*) FROM application WHERE seq = 0").await
    }

    /// Returns how often a relay has begun to lead, if the source is the log.
    pub(crate) async fn leaders(&self) -> Result<Option<i64>> {
        let Self::Postgres(store) = self else { return Ok(None) };
        Ok(sqlx::query_scalar("SELECT epoch FROM outbox_log").fetch_optional(store.pool()).await?)
    }

    /// Returns whether the log was read up to a position, or is not read at all.
    async fn is_read(&self, end: &str) -> Result<bool> {
        let Self::Postgres(store) = self else { return Ok(true) };
        let read = "SELECT coalesce(bool_and(confirmed >= $1::pg_lsn), true) FROM outbox_log";
        Ok(sqlx::query_scalar(read).bind(end).fetch_one(store.pool()).await?)
    }

    async fn end_of_log(&self) -> Result<String> {
        let Self::Postgres(store) = self else { return Ok(String::new()) };
        Ok(sqlx::query_scalar("SELECT pg_current_wal_insert_lsn()::text").fetch_one(store.pool()).await?)
    }

    /// Refuses inserts into the outbox, as a full disk does, or accepts them again. Events of the log can then not be spilled.
    pub(crate) async fn refuse_inserts(&self, refuse: bool) -> Result<()> {
        let Self::Postgres(store) = self else { bail!("only PostgreSQL has a log to spill from") };
        sqlx::raw_sql(if refuse { REFUSE_INSERTS } else { ACCEPT_INSERTS }).execute(store.pool()).await?;
        Ok(())
    }

    /// Returns the number of parked deliveries of fan-outs.
    pub(crate) async fn parked_deliveries(&self) -> Result<i64> {
        self.count("SELECT count(*) FROM outbox_delivery WHERE parked").await
    }

    /// Returns the number of deliveries whose event was deleted.
    pub(crate) async fn orphans(&self) -> Result<i64> {
        self.count("SELECT count(*) FROM outbox_delivery WHERE event_id NOT IN (SELECT id FROM outbox_event)").await
    }

    async fn count(&self, statement: &'static str) -> Result<i64> {
        Ok(match self {
            Self::Mysql(_, pool) => sqlx::query_scalar(statement).fetch_one(pool).await?,
            Self::Postgres(store) => sqlx::query_scalar(statement).fetch_one(store.pool()).await?,
            Self::Sqlite(store) => sqlx::query_scalar(statement).fetch_one(store.pool()).await?,
        })
    }

    /// Returns the ids of the dead letters.
    pub(crate) async fn failed(&self) -> Result<HashSet<Uuid>> {
        let filter = Filter { state: Some(State::Failed), ..Filter::default() };
        Ok(self.all(&filter).await?.into_iter().map(|event| event.id).collect())
    }

    /// Returns all events that match, page by page.
    async fn all(&self, filter: &Filter) -> Result<Vec<EventView>> {
        let mut events = Vec::new();
        let mut turn = Paging::first(10_000);
        loop {
            let page = self.inspect().list(filter, &turn).await?;
            events.extend(page.events);
            match page.next {
                Some(next) => turn = turn.after(next),
                None => return Ok(events),
            }
        }
    }

    pub(crate) async fn counts(&self) -> Result<Counts> {
        Ok(self.inspect().counts().await?)
    }

    pub(crate) async fn wait_until_settled(&self, patience: Duration) -> Result<()> {
        let began = Instant::now();
        let mut end = None;
        loop {
            if end.is_none() {
                end = self.end_of_log().await.ok();
            }
            let is_read = match &end {
                Some(end) => self.is_read(end).await.unwrap_or(false),
                None => false,
            };
            // A server that has just restarted may refuse for a moment.
            match self.counts().await {
                Ok(counts) if is_read && counts.pending() == 0 => return Ok(()),
                answer if began.elapsed() > patience => {
                    bail!("after {patience:?} there are still events on their way: {answer:?}")
                }
                _ => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    }

    fn inspect(&self) -> &dyn Inspect {
        match self {
            Self::Mysql(store, _) => store,
            Self::Postgres(store) => store,
            Self::Sqlite(store) => store,
        }
    }
}

fn ids(emitted: Vec<pillarbox::Emitted>) -> Vec<Uuid> {
    emitted.into_iter().map(|emitted| emitted.id).collect()
}
