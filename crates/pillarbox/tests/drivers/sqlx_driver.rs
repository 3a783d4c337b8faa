//! sqlx, on PostgreSQL, MariaDB and SQLite.

use sqlx::{MySqlPool, PgPool, SqlitePool};

use crate::fixture::{Answer, Driver, End, Mysql, Postgres, Sqlite, Step, take};

pub(crate) struct SqlxPostgres(PgPool);

impl Driver for SqlxPostgres {
    type Database = Postgres;

    async fn connect(url: &str) -> Self {
        Self(PgPool::connect(url).await.unwrap())
    }

    async fn transaction(&mut self, steps: Vec<Step>, end: End) -> Vec<Answer> {
        let mut tx = self.0.begin().await.unwrap();
        let answers = take(&mut tx, steps).await;
        match end {
            End::Commit => tx.commit().await.unwrap(),
            End::Rollback => tx.rollback().await.unwrap(),
        }
        answers
    }
}

pub(crate) struct SqlxSqlite(SqlitePool);

impl Driver for SqlxSqlite {
    type Database = Sqlite;

    async fn connect(url: &str) -> Self {
        Self(SqlitePool::connect(url).await.unwrap())
    }

    async fn transaction(&mut self, steps: Vec<Step>, end: End) -> Vec<Answer> {
        let mut tx = self.0.begin().await.unwrap();
        let answers = take(&mut tx, steps).await;
        match end {
            End::Commit => tx.commit().await.unwrap(),
            End::Rollback => tx.rollback().await.unwrap(),
        }
        answers
    }
}

pub(crate) struct SqlxMysql(MySqlPool);

impl Driver for SqlxMysql {
    type Database = Mysql;

    async fn connect(url: &str) -> Self {
        Self(MySqlPool::connect(url).await.unwrap())
    }

    async fn transaction(&mut self, steps: Vec<Step>, end: End) -> Vec<Answer> {
        let mut tx = self.0.begin().await.unwrap();
        let answers = take(&mut tx, steps).await;
        match end {
            End::Commit => tx.commit().await.unwrap(),
            End::Rollback => tx.rollback().await.unwrap(),
        }
        answers
    }
}
