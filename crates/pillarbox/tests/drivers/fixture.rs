//! An outbox of one test, and a driver to emit into it.

use std::sync::Arc;
use std::time::Duration;

use pillarbox::celery::{self, Signature, Task};
use pillarbox::emit::{self, Transaction};
use pillarbox::store::mysql::MysqlStore;
use pillarbox::store::postgres::PostgresStore;
use pillarbox::store::sqlite::SqliteStore;
use pillarbox::store::{Ask, EventDetail};
use pillarbox::{Claims, EmitError, Emitted, Event, Inspect, Store, StoredEvent};
use pillarbox_testkit::{TestDatabase, TestMysql};
use tempfile::TempDir;
use uuid::Uuid;

/// What is done in a transaction.
pub(crate) enum Step {
    Emit(Event),
    Once(Event),
    All(Vec<Event>),
    Task(Box<Task>),
    Workflow(Signature),
}

/// How a transaction ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Commit,
    Rollback,
}

pub(crate) type Answer = Result<Vec<Emitted>, EmitError>;

/// A connection of the driver's own.
pub(crate) trait Driver: Sized {
    type Database: Database;

    async fn connect(url: &str) -> Self;

    /// Takes the steps in one transaction, each one whatever came of those before it, and ends it.
    async fn transaction(&mut self, steps: Vec<Step>, end: End) -> Vec<Answer>;
}

/// The steps, in any transaction that can await.
pub(crate) async fn take<T: Transaction>(tx: &mut T, steps: Vec<Step>) -> Vec<Answer> {
    let mut answers = Vec::new();
    for step in steps {
        answers.push(match step {
            Step::Emit(event) => emit::emit(tx, event).await.map(|emitted| vec![emitted]),
            Step::Once(event) => emit::emit_once(tx, event).await.map(|emitted| vec![emitted]),
            Step::All(events) => emit::emit_all(tx, events).await,
            Step::Task(task) => celery::send_task(tx, *task).await.map(|_| Vec::new()),
            Step::Workflow(workflow) => celery::send(tx, workflow).await.map(|_| Vec::new()),
        });
    }
    answers
}

/// A database of one test, with the outbox's tables.
pub(crate) trait Database: Sized {
    type Store: Store + Inspect;

    async fn create() -> (Self, Arc<Self::Store>);

    fn url(&self) -> String;
}

pub(crate) struct Postgres(TestDatabase);

impl Database for Postgres {
    type Store = PostgresStore;

    async fn create() -> (Self, Arc<PostgresStore>) {
        let database = TestDatabase::create().await;
        let store = PostgresStore::connect(&database.url(), "public").await.unwrap();
        store.migrate().await.unwrap();
        (Self(database), Arc::new(store))
    }

    fn url(&self) -> String {
        self.0.url()
    }
}

pub(crate) struct Mysql(TestMysql);

impl Database for Mysql {
    type Store = MysqlStore;

    async fn create() -> (Self, Arc<MysqlStore>) {
        let database = TestMysql::create().await;
        let store = MysqlStore::connect(&database.url()).await.unwrap();
        store.migrate().await.unwrap();
        (Self(database), Arc::new(store))
    }

    fn url(&self) -> String {
        self.0.url()
    }
}

pub(crate) struct Sqlite(TempDir);

impl Database for Sqlite {
    type Store = SqliteStore;

    async fn create() -> (Self, Arc<SqliteStore>) {
        let database = Self(TempDir::new().unwrap());
        let store = SqliteStore::open(database.0.path().join("outbox.db")).await.unwrap();
        store.migrate().await.unwrap();
        (database, Arc::new(store))
    }

    fn url(&self) -> String {
        format!("sqlite://{}", self.0.path().join("outbox.db").display())
    }
}

/// An empty outbox and a driver connected to it.
pub(crate) struct Fixture<D: Driver> {
    driver: D,
    store: Arc<<D::Database as Database>::Store>,
    // Dropped last: it takes the database with it.
    _database: D::Database,
}

impl<D: Driver> Fixture<D> {
    pub(crate) async fn open() -> Self {
        let (database, store) = D::Database::create().await;
        Self { driver: D::connect(&database.url()).await, store, _database: database }
    }

    /// The driver's connection, outside of any transaction.
    pub(crate) fn driver(&mut self) -> &mut D {
        &mut self.driver
    }

    pub(crate) async fn commit(&mut self, steps: Vec<Step>) -> Vec<Answer> {
        self.driver.transaction(steps, End::Commit).await
    }

    pub(crate) async fn roll_back(&mut self, steps: Vec<Step>) -> Vec<Answer> {
        self.driver.transaction(steps, End::Rollback).await
    }

    /// What a relay would get now.
    pub(crate) async fn claim(&self) -> Vec<Arc<StoredEvent>> {
        let ask = Ask::new(100, 1 << 20, Duration::from_secs(300));
        self.store.claim(ask).await.unwrap().iter().map(|claimed| Arc::clone(claimed.event())).collect()
    }

    /// The types of what a relay would get now, in its order.
    pub(crate) async fn claimed_types(&self) -> Vec<String> {
        self.claim().await.iter().map(|event| event.event_type.clone()).collect()
    }

    pub(crate) async fn get(&self, id: Uuid) -> EventDetail {
        self.store.get(id).await.unwrap().expect("the event is in the table")
    }
}
