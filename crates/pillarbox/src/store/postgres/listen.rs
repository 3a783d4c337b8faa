//! Wake on PostgreSQL: `LISTEN`, and a test that a notification arrives. It retries until this works, and again whenever the
//! connection is lost or goes silent. Meanwhile polling finds the events.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::timeout;
use uuid::Uuid;

use super::error::Error;
use super::link::Link;
use super::pinned::Pinned;
use super::wire::Wire;
use crate::relay::wake::Waker;
use crate::store::WakeUp;

/// The channel that `emit.sql` and `outbox_emit` notify.
const CHANNEL: &str = "outbox_wake";
/// The timeout of a test notification.
const PATIENCE: Duration = Duration::from_secs(2);
/// The number of checks for a pooler. The second check finds an idle pooler; a busy pooler can pass some checks by chance.
const LOOKS: u32 = 10;
/// The backoff between two attempts to listen.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// A connection that listens.
struct Listener {
    wire: Wire,
    /// Gets a message for each notification, and ends with the connection.
    notified: mpsc::UnboundedReceiver<()>,
}

/// Listens until the waker's relay is gone. Returns whether notifications work now. The waker is told when that changes.
///
/// `direct` is set when no transaction pooler is in between.
pub(super) async fn start(pool: &Pinned, direct: &Arc<AtomicBool>, waker: Waker) -> Result<WakeUp, Error> {
    // Await one attempt, so that a relay begins with the right polling interval.
    let first = connect(pool).await;
    let told = match &first {
        Ok(Some(_)) => Ok(WakeUp::Tested),
        Ok(None) => Ok(WakeUp::Eaten),
        Err(error) => Err(Error::Io(std::io::Error::other(error.to_string()))),
    };
    direct.store(matches!(first, Ok(Some(_))), Ordering::Relaxed);
    // Behind a transaction pooler, each further attempt fails cheaply. A slow moment looks the same, so the attempts go on.
    tokio::spawn(keep_listening(pool.clone(), Arc::clone(direct), first, waker));
    told
}

/// Returns whether a connection keeps its own server process between transactions. Behind a transaction pooler, `LISTEN`
/// would be useless and harmful: the next client of that server connection gets notifications that it never asked for, and
/// some drivers treat them as an error.
pub(super) async fn sessions_are_ours(pool: &Pinned) -> Result<bool, Error> {
    let mut one = pool.link().await?;
    let ours = server_process(&mut one).await?;
    for _ in 0..LOOKS {
        // A transaction keeps its server connection, so the pooler has one less connection with which it passes by chance.
        let mut other = pool.begin().await?;
        if server_process(&mut other).await? == ours || server_process(&mut one).await? != ours {
            return Ok(false);
        }
        other.rollback().await?;
    }
    Ok(true)
}

async fn server_process(link: &mut Link) -> Result<i32, Error> {
    Ok(link.row("SELECT pg_backend_pid()").await?.try_get(0)?)
}

/// Returns a connection that listens and was tested; `None` if notifications do not arrive.
async fn connect(pool: &Pinned) -> Result<Option<Listener>, Error> {
    if !sessions_are_ours(pool).await? {
        return Ok(None);
    }
    let connected = pool.connections().connect_to_listen().await?;
    let mut listener = Listener { wire: connected.wire, notified: connected.notified };
    if !hears_itself(&mut listener, pool).await? {
        return Ok(None);
    }
    within(pool, listener.wire.run(&format!("LISTEN {CHANNEL}"))).await?;
    Ok(Some(listener))
}

/// Returns whether a test notification arrives. The channel is unique, so a leftover `LISTEN` harms no other client.
async fn hears_itself(listener: &mut Listener, pool: &Pinned) -> Result<bool, Error> {
    let channel = format!("outbox_test_{}", Uuid::new_v4().simple());
    within(pool, listener.wire.run(&format!("LISTEN {channel}"))).await?;
    let echo = async {
        pool.link().await?.run(&format!("NOTIFY {channel}")).await?;
        // `None`: the connection was lost, which says nothing about a pooler.
        listener.notified.recv().await.ok_or_else(Error::lost)
    };
    let heard = match timeout(PATIENCE, echo).await {
        Ok(heard) => heard.map(|()| true)?,
        Err(_) => false,
    };
    within(pool, listener.wire.run(&format!("UNLISTEN {channel}"))).await?;
    Ok(heard)
}

async fn keep_listening(pool: Pinned, direct: Arc<AtomicBool>, first: Result<Option<Listener>, Error>, waker: Waker) {
    let mut pause = FIRST_PAUSE;
    let mut tried = first;
    loop {
        if let Ok(Some(listener)) = tried {
            direct.store(true, Ordering::Relaxed);
            waker.set_notified(true);
            let Some(error) = listen(&pool, listener, &waker).await else { return };
            tracing::warn!(%error, "notifications interrupted; polling until they work again");
            waker.set_notified(false);
            pause = FIRST_PAUSE;
        }
        tokio::select! {
            () = waker.relay_gone() => return,
            () = tokio::time::sleep(pause) => {}
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
        tried = tokio::select! {
            () = waker.relay_gone() => return,
            tried = connect(&pool) => tried,
        };
        if let Ok(Some(_)) = tried {
            // Wake for events whose notifications were missed.
            waker.wake();
            tracing::info!("notifications work again");
        }
    }
}

/// Listens until the relay is gone, or returns the error that interrupted it. A connection that stays silent for a while is
/// tested. If it does not respond, it is closed.
async fn listen(pool: &Pinned, mut listener: Listener, waker: &Waker) -> Option<Error> {
    let silence = pool.connections().deadline();
    loop {
        let heard = tokio::select! {
            () = waker.relay_gone() => return None,
            heard = timeout(silence, listener.notified.recv()) => heard,
        };
        match heard {
            Ok(Some(())) => waker.wake(),
            Ok(None) => return Some(Error::lost()),
            Err(_) => {
                if let Err(error) = within(pool, listener.wire.ping()).await {
                    return Some(error);
                }
            }
        }
    }
}

async fn within<T>(pool: &Pinned, work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let deadline = pool.connections().deadline();
    timeout(deadline, work).await.unwrap_or_else(|_| Err(Error::silent(deadline)))
}
