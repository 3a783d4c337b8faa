//! Wake on PostgreSQL: `LISTEN`, and a test that a notification arrives.

use std::time::Duration;

use sqlx::postgres::{PgConnection, PgListener, PgPool};
use sqlx::{AssertSqlSafe, Executor, Row};
use uuid::Uuid;

use crate::relay::wake::Waker;
use crate::store::WakeUp;

/// What `emit.sql` and `outbox_emit` notify.
const CHANNEL: &str = "outbox_wake";
/// How long a notification of ours may take to come back.
const PATIENCE: Duration = Duration::from_secs(2);
/// A pooler that is idle is found with the second look; one that is busy hides behind chance, but not so often.
const LOOKS: u32 = 10;

/// Listens until the waker's relay is gone. A lost connection is made again; what was missed meanwhile, polling finds.
pub(super) async fn start(pool: &PgPool, waker: Waker) -> Result<WakeUp, sqlx::Error> {
    if !sessions_are_ours(pool).await? {
        return Ok(WakeUp::Eaten);
    }
    let mut listener = PgListener::connect_with(pool).await?;
    if !hears_itself(&mut listener, pool).await? {
        return Ok(WakeUp::Eaten);
    }
    listener.listen(CHANNEL).await?;
    tokio::spawn(listen(listener, waker));
    Ok(WakeUp::Tested)
}

/// Whether a connection keeps its server process between transactions, and for itself. Behind a transaction pooler
/// `LISTEN` would not only be in vain: whoever gets that server connection next gets notifications that it never asked
/// for, and sqlx takes them for an error.
pub(super) async fn sessions_are_ours(pool: &PgPool) -> Result<bool, sqlx::Error> {
    let mut one = pool.acquire().await?;
    let ours = server_process(&mut one).await?;
    for _ in 0..LOOKS {
        // A transaction keeps its server connection, so a pooler has one less to be right with by chance.
        let mut other = pool.begin().await?;
        if server_process(&mut other).await? == ours || server_process(&mut one).await? != ours {
            return Ok(false);
        }
        other.rollback().await?;
    }
    Ok(true)
}

async fn server_process(connection: &mut PgConnection) -> Result<i32, sqlx::Error> {
    sqlx::raw_sql("SELECT pg_backend_pid()").fetch_one(connection).await?.try_get(0)
}

/// Through a channel that nobody else knows: if the test leaves it behind somewhere, it harms nobody.
async fn hears_itself(listener: &mut PgListener, pool: &PgPool) -> Result<bool, sqlx::Error> {
    let channel = format!("outbox_test_{}", Uuid::new_v4().simple());
    listener.listen(&channel).await?;
    let echo = async {
        pool.execute(sqlx::raw_sql(AssertSqlSafe(format!("NOTIFY {channel}")))).await?;
        listener.recv().await
    };
    let heard = match tokio::time::timeout(PATIENCE, echo).await {
        Ok(heard) => heard.map(|_| true),
        Err(_) => Ok(false),
    };
    listener.unlisten(&channel).await?;
    heard
}

async fn listen(mut listener: PgListener, waker: Waker) {
    /// Before a connection that could not be made is tried again.
    const PAUSE: Duration = Duration::from_secs(1);
    loop {
        let heard = tokio::select! {
            () = waker.relay_gone() => return,
            heard = listener.recv() => heard,
        };
        match heard {
            Ok(_) => waker.wake(),
            Err(error) => {
                tracing::warn!(%error, "notifications are interrupted; polling goes on");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}
