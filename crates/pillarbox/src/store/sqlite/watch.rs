//! Wake on SQLite: a number that changes when another connection has committed, looked at often because it is cheap.

use std::time::Duration;

use sqlx::sqlite::{SqliteConnection, SqlitePool};

use crate::relay::wake::Waker;
use crate::store::WakeUp;

/// How often the number is looked at. One look reads a page of shared memory, no more.
const INTERVAL: Duration = Duration::from_millis(5);

/// Watches until the waker's relay is gone.
pub(super) async fn start(pool: &SqlitePool, waker: Waker) -> Result<WakeUp, sqlx::Error> {
    let mut connection = pool.acquire().await?.detach();
    let mut seen = data_version(&mut connection).await?;
    tokio::spawn(async move {
        loop {
            tokio::select! {
                () = waker.relay_gone() => return,
                () = tokio::time::sleep(INTERVAL) => {}
            }
            match data_version(&mut connection).await {
                Ok(version) if version == seen => {}
                Ok(version) => {
                    seen = version;
                    waker.wake();
                }
                Err(error) => {
                    tracing::warn!(%error, "the database's file is watched no more; polling goes on");
                    return;
                }
            }
        }
    });
    Ok(WakeUp::Tested)
}

async fn data_version(connection: &mut SqliteConnection) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar(include_str!("../../../sql/sqlite/data_version.sql")).fetch_one(connection).await
}
