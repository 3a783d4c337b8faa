//! diesel, blocking, on PostgreSQL and MariaDB.

use diesel::connection::LoadConnection;
use diesel::connection::{AnsiTransactionManager, TransactionManager};
use diesel::{Connection, MysqlConnection, PgConnection};
use pillarbox::celery::blocking;
use pillarbox::emit::blocking::{Dialect, emit, emit_all, emit_once};
use pillarbox::{EmitError, Event};

use crate::fixture::{Answer, Driver, End, Fixture, Mysql, Postgres, Step};

pub(crate) struct Diesel(PgConnection);

impl Driver for Diesel {
    type Database = Postgres;

    async fn connect(url: &str) -> Self {
        Self(PgConnection::establish(url).unwrap())
    }

    async fn transaction(&mut self, steps: Vec<Step>, end: End) -> Vec<Answer> {
        transaction(&mut self.0, steps, end)
    }
}

pub(crate) struct DieselMysql(MysqlConnection);

impl Driver for DieselMysql {
    type Database = Mysql;

    async fn connect(url: &str) -> Self {
        Self(MysqlConnection::establish(url).unwrap())
    }

    async fn transaction(&mut self, steps: Vec<Step>, end: End) -> Vec<Answer> {
        transaction(&mut self.0, steps, end)
    }
}

fn transaction<C>(connection: &mut C, steps: Vec<Step>, end: End) -> Vec<Answer>
where
    C: LoadConnection<Backend: Dialect, TransactionManager = AnsiTransactionManager>,
    AnsiTransactionManager: TransactionManager<C>,
{
    AnsiTransactionManager::begin_transaction(connection).unwrap();
    let answers = steps.into_iter().map(|step| take(connection, step)).collect();
    match end {
        End::Commit => AnsiTransactionManager::commit_transaction(connection).unwrap(),
        End::Rollback => AnsiTransactionManager::rollback_transaction(connection).unwrap(),
    }
    answers
}

fn take(connection: &mut impl LoadConnection<Backend: Dialect>, step: Step) -> Answer {
    match step {
        Step::Emit(event) => emit(connection, event).map(|emitted| vec![emitted]),
        Step::Once(event) => emit_once(connection, event).map(|emitted| vec![emitted]),
        Step::All(events) => emit_all(connection, events),
        Step::Task(task) => blocking::send_task(connection, *task).map(|_| Vec::new()),
        Step::Workflow(workflow) => blocking::send(connection, workflow).map(|_| Vec::new()),
    }
}

#[tokio::test]
async fn without_a_transaction_nothing_is_emitted() {
    let mut outbox = Fixture::<Diesel>::open().await;
    let placed = || Event::new("Order", 1, "order.placed");
    let connection = &mut outbox.driver().0;
    assert!(matches!(emit(connection, placed()), Err(EmitError::NoTransaction)));
    assert!(matches!(emit_once(connection, placed()), Err(EmitError::NoTransaction)));
    assert!(matches!(emit_all(connection, [placed()]), Err(EmitError::NoTransaction)));
    assert!(outbox.claim().await.is_empty());
}

#[tokio::test]
async fn a_closure_s_error_rolls_back_what_it_emitted_also_in_a_nested_one() {
    let mut outbox = Fixture::<Diesel>::open().await;
    let connection = &mut outbox.driver().0;
    let outer: Result<(), Box<dyn std::error::Error>> = connection.transaction(|tx| {
        emit(tx, Event::new("Order", 1, "order.outer"))?;
        let inner: Result<(), Box<dyn std::error::Error>> = tx.transaction(|tx| {
            emit(tx, Event::new("Order", 1, "order.inner"))?;
            Err("the inner one fails".into())
        });
        assert_eq!(inner.unwrap_err().to_string(), "the inner one fails");
        Ok(())
    });
    outer.unwrap();
    assert_eq!(outbox.claimed_types().await, ["order.outer"]);
}
