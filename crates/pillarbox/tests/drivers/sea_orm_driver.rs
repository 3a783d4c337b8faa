//! sea-orm, on PostgreSQL, MariaDB and SQLite.

use pillarbox::{EmitError, Event, emit};
use sea_orm::{DatabaseConnection, TransactionTrait};

use crate::fixture::{Answer, Driver, End, Fixture, Mysql, Postgres, Sqlite, Step, take};

pub(crate) struct SeaOrmPostgres(DatabaseConnection);

impl Driver for SeaOrmPostgres {
    type Database = Postgres;

    async fn connect(url: &str) -> Self {
        Self(sea_orm::Database::connect(url).await.unwrap())
    }

    async fn transaction(&mut self, steps: Vec<Step>, end: End) -> Vec<Answer> {
        transaction(&self.0, steps, end).await
    }
}

pub(crate) struct SeaOrmMysql(DatabaseConnection);

impl Driver for SeaOrmMysql {
    type Database = Mysql;

    async fn connect(url: &str) -> Self {
        Self(sea_orm::Database::connect(url).await.unwrap())
    }

    async fn transaction(&mut self, steps: Vec<Step>, end: End) -> Vec<Answer> {
        transaction(&self.0, steps, end).await
    }
}

pub(crate) struct SeaOrmSqlite(DatabaseConnection);

impl Driver for SeaOrmSqlite {
    type Database = Sqlite;

    async fn connect(url: &str) -> Self {
        Self(sea_orm::Database::connect(url).await.unwrap())
    }

    async fn transaction(&mut self, steps: Vec<Step>, end: End) -> Vec<Answer> {
        transaction(&self.0, steps, end).await
    }
}

async fn transaction(connection: &DatabaseConnection, steps: Vec<Step>, end: End) -> Vec<Answer> {
    let mut tx = connection.begin().await.unwrap();
    let answers = take(&mut tx, steps).await;
    match end {
        End::Commit => tx.commit().await.unwrap(),
        End::Rollback => tx.rollback().await.unwrap(),
    }
    answers
}

#[tokio::test]
async fn a_closure_emits_through_the_reference_it_gets() {
    let mut outbox = Fixture::<SeaOrmPostgres>::open().await;
    let connection = outbox.driver().0.clone();
    let place = |event_type: &'static str, end: End| {
        connection.transaction::<_, (), EmitError>(move |mut tx| {
            Box::pin(async move {
                emit(&mut tx, Event::new("Order", 1, event_type)).await?;
                if end == End::Rollback { Err(EmitError::NoTransaction) } else { Ok(()) }
            })
        })
    };
    place("order.placed", End::Commit).await.unwrap();
    place("order.lost", End::Rollback).await.unwrap_err();
    assert_eq!(outbox.claimed_types().await, ["order.placed"]);
}
