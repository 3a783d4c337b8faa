//! Emits one event through each driver, in the driver's own transaction. The macro `query!` of sqlx reads `DATABASE_URL` when
//! this file is compiled, so it shows that the macro works beside this library.

use diesel::prelude::*;
use pillarbox::store::postgres::PostgresStore;
use pillarbox::{Event, Inspect, emit};
use sea_orm::{Database, TransactionTrait};
use sqlx::PgPool;
use tokio_postgres::NoTls;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Result<()> {
    let url = std::env::var("DATABASE_URL")?;
    let store = PostgresStore::connect(&url, "public").await?;
    store.migrate().await?;
    by_sqlx(&url).await?;
    by_tokio_postgres(&url).await?;
    by_sea_orm(&url).await?;
    tokio::task::spawn_blocking(move || by_diesel(&url)).await??;
    println!("{} events are due", store.counts().await?.due);
    Ok(())
}

fn event(driver: &str) -> Event {
    Event::new("Driver", driver, "driver.tried").repeatable()
}

async fn by_sqlx(url: &str) -> Result<()> {
    let pool = PgPool::connect(url).await?;
    let mut tx = pool.begin().await?;
    let found = sqlx::query!("SELECT count(*) AS \"databases!\" FROM pg_database").fetch_one(&mut *tx).await?;
    println!("{} databases", found.databases);
    emit(&mut tx, event("sqlx")).await?;
    tx.commit().await?;
    Ok(())
}

async fn by_tokio_postgres(url: &str) -> Result<()> {
    let (mut client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    let mut tx = client.transaction().await?;
    emit(&mut tx, event("tokio-postgres")).await?;
    tx.commit().await?;
    Ok(())
}

async fn by_sea_orm(url: &str) -> Result<()> {
    let connection = Database::connect(url).await?;
    let mut tx = connection.begin().await?;
    emit(&mut tx, event("sea-orm")).await?;
    tx.commit().await?;
    Ok(())
}

fn by_diesel(url: &str) -> Result<()> {
    let mut connection = PgConnection::establish(url)?;
    connection.transaction(|tx| {
        pillarbox::emit::blocking::emit(tx, event("diesel"))?;
        Ok(())
    })
}
