//! An application with an outbox: a table of its own, and transactions that write to both.

use pillarbox::emit::Transaction;
use pillarbox_testkit::conformance::{MysqlOutbox, Outbox, PostgresOutbox, SqliteOutbox};
use sqlx::{Executor, MySql, Postgres, Sqlite};

const TABLE: &str = "CREATE TABLE shop_order (id bigint PRIMARY KEY)";

pub(crate) trait Shop: Outbox + Sized {
    type Tx: Transaction;

    async fn open() -> Self;
    async fn begin(&self) -> Self::Tx;
    /// Writes the application's own data.
    async fn place(tx: &mut Self::Tx, order: i64);
    async fn commit(tx: Self::Tx);
    async fn roll_back(tx: Self::Tx);

    async fn orders(&self) -> u64 {
        self.rows("shop_order").await
    }

    async fn events(&self) -> u64 {
        self.rows("outbox_event").await
    }
}

impl Shop for PostgresOutbox {
    type Tx = sqlx::Transaction<'static, Postgres>;

    async fn open() -> Self {
        let outbox = Self::create().await;
        outbox.execute(TABLE).await;
        outbox
    }

    async fn begin(&self) -> Self::Tx {
        self.pool().begin().await.unwrap()
    }

    async fn place(tx: &mut Self::Tx, order: i64) {
        tx.execute(sqlx::query("INSERT INTO shop_order VALUES ($1)").bind(order)).await.unwrap();
    }

    async fn commit(tx: Self::Tx) {
        tx.commit().await.unwrap();
    }

    async fn roll_back(tx: Self::Tx) {
        tx.rollback().await.unwrap();
    }
}

impl Shop for SqliteOutbox {
    type Tx = sqlx::Transaction<'static, Sqlite>;

    async fn open() -> Self {
        let outbox = Self::create().await;
        outbox.execute(TABLE).await;
        outbox
    }

    async fn begin(&self) -> Self::Tx {
        self.pool().begin().await.unwrap()
    }

    async fn place(tx: &mut Self::Tx, order: i64) {
        tx.execute(sqlx::query("INSERT INTO shop_order VALUES (?1)").bind(order)).await.unwrap();
    }

    async fn commit(tx: Self::Tx) {
        tx.commit().await.unwrap();
    }

    async fn roll_back(tx: Self::Tx) {
        tx.rollback().await.unwrap();
    }
}

impl Shop for MysqlOutbox {
    type Tx = sqlx::Transaction<'static, MySql>;

    async fn open() -> Self {
        let outbox = Self::create().await;
        outbox.execute(TABLE).await;
        outbox
    }

    async fn begin(&self) -> Self::Tx {
        self.pool().begin().await.unwrap()
    }

    async fn place(tx: &mut Self::Tx, order: i64) {
        tx.execute(sqlx::query("INSERT INTO shop_order VALUES (?)").bind(order)).await.unwrap();
    }

    async fn commit(tx: Self::Tx) {
        tx.commit().await.unwrap();
    }

    async fn roll_back(tx: Self::Tx) {
        tx.rollback().await.unwrap();
    }
}
