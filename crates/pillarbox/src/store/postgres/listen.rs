//! Wake on PostgreSQL: `LISTEN`, and a test that a notification arrives.

use std::time::Duration;

use sqlx::postgres::{PgListener, PgPool};
use uuid::Uuid;

use crate::relay::wake::Waker;
use crate::store::WakeUp;

/// What `emit.sql` and `outbox_emit` notify.
const CHANNEL: &str = "outbox_wake";
/// How long a notification of ours may take to come back.
const PATIENCE: Duration = Duration::from_secs(2);

/// Listens until the waker's relay is gone. A lost connection is made again; what was missed meanwhile, polling finds.
pub(super) async fn start(pool: &PgPool, waker: Waker) -> Result<WakeUp, sqlx::Error> {
    let mut listener = PgListener::connect_with(pool).await?;
    listener.listen(CHANNEL).await?;
    let heard = hears_itself(&mut listener, pool).await?;
    tokio::spawn(listen(listener, waker));
    Ok(if heard { WakeUp::Tested } else { WakeUp::Eaten })
}

/// A transaction pooler hands `LISTEN` to one connection and the rest of the session to another.
async fn hears_itself(listener: &mut PgListener, pool: &PgPool) -> Result<bool, sqlx::Error> {
    let word = Uuid::new_v4().to_string();
    sqlx::query("SELECT pg_notify($1, $2)").bind(CHANNEL).bind(&word).execute(pool).await?;
    let echo = async {
        while listener.recv().await?.payload() != word {}
        Ok::<(), sqlx::Error>(())
    };
    match tokio::time::timeout(PATIENCE, echo).await {
        Ok(heard) => heard.map(|()| true),
        Err(_) => Ok(false),
    }
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
