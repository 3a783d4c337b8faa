//! The database of a measurement: PostgreSQL or MariaDB, by its URL.

use std::sync::Arc;

use anyhow::Result;
use pillarbox::store::mysql::MysqlStore;
use pillarbox::store::postgres::PostgresStore;
use pillarbox::{Event, Inspect, Store, emit, emit_all};
use sqlx::mysql::MySqlPool;

/// An outbox, and the application's own connections to its database.
#[derive(Clone)]
pub(crate) enum Database {
    Postgres(PostgresStore),
    Mysql(MysqlStore, MySqlPool),
}

/// Returns whether a URL names MariaDB or MySQL.
pub(crate) fn is_mysql(url: &str) -> bool {
    url.starts_with("mysql:")
}

impl Database {
    /// Opens an outbox, and creates missing tables.
    pub(crate) async fn open(url: &str) -> Result<Self> {
        if is_mysql(url) {
            let store = MysqlStore::connect(url).await?;
            store.migrate().await?;
            return Ok(Self::Mysql(store, MySqlPool::connect(url).await?));
        }
        let store = PostgresStore::connect(url, "public").await?;
        store.migrate().await?;
        Ok(Self::Postgres(store))
    }

    pub(crate) fn store(&self) -> Arc<dyn Store> {
        match self {
            Self::Postgres(store) => Arc::new(store.clone()),
            Self::Mysql(store, _) => Arc::new(store.clone()),
        }
    }

    pub(crate) fn inspect(&self) -> &dyn Inspect {
        match self {
            Self::Postgres(store) => store,
            Self::Mysql(store, _) => store,
        }
    }

    /// Emits in one transaction of the application.
    pub(crate) async fn emit(&self, mut events: Vec<Event>) -> Result<()> {
        macro_rules! in_transaction {
            ($pool:expr) => {{
                let mut tx = $pool.begin().await?;
                match events.pop() {
                    Some(event) if events.is_empty() => emit(&mut tx, event).await.map(drop)?,
                    last => emit_all(&mut tx, events.into_iter().chain(last)).await.map(drop)?,
                }
                tx.commit().await?;
            }};
        }
        match self {
            Self::Postgres(store) => in_transaction!(store.pool()),
            Self::Mysql(_, pool) => in_transaction!(pool),
        }
        Ok(())
    }
}
