//! Wake on SQLite: polls a number that changes when another connection commits. The read is cheap, so it is frequent.

use std::time::Duration;

use sqlx::sqlite::{SqliteConnection, SqlitePool};

use super::SQL;
use crate::relay::wake::Waker;
use crate::store::WakeUp;

/// The polling interval while the number changes. A read touches one page of shared memory, but runs on another thread: 200
/// reads a second cost two thirds of a percent of a core.
const INTERVAL: Duration = Duration::from_millis(5);
/// The number of reads without a change after which the interval doubles. It doubles twice at most.
const LOOKS: u32 = 20;

/// Returns the interval after this many reads without a change.
fn pause(looks: u32) -> Duration {
    INTERVAL * (1 << (looks / LOOKS).min(2))
}

/// Watches until the waker's relay is gone.
pub(super) async fn start(pool: &SqlitePool, waker: Waker) -> Result<WakeUp, sqlx::Error> {
    let mut connection = pool.acquire().await?.detach();
    let mut seen = data_version(&mut connection).await?;
    tokio::spawn(async move {
        let mut in_vain: u32 = 0;
        loop {
            tokio::select! {
                () = waker.relay_gone() => return,
                () = tokio::time::sleep(pause(in_vain)) => {}
            }
            match data_version(&mut connection).await {
                Ok(version) if version == seen => in_vain = in_vain.saturating_add(1),
                Ok(version) => {
                    seen = version;
                    in_vain = 0;
                    waker.wake();
                }
                Err(error) => {
                    tracing::warn!(%error, "file watch lost; polling instead");
                    return;
                }
            }
        }
    });
    Ok(WakeUp::Tested)
}

async fn data_version(connection: &mut SqliteConnection) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar(SQL.data_version).fetch_one(connection).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_while_nothing_comes_and_not_beyond_twenty_milliseconds() {
        let pauses = [0, 19, 20, 39, 40, 1000, u32::MAX].map(|looks| pause(looks).as_millis());
        assert_eq!(pauses, [5, 5, 10, 10, 20, 20, 20]);
    }
}
