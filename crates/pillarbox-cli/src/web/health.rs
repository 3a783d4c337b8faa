//! Whether the relay lives and can work, for those who restart it or send traffic to it: orchestrators, and people.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pillarbox::{Observed, Observer};
use serde::Serialize;

use crate::store::Source;

/// A database that takes longer to answer is not one to rely on.
const CHECK_LIMIT: Duration = Duration::from_secs(2);
/// However often it is asked, the database is looked at no more often than this.
const CHECK_LASTS: Duration = Duration::from_secs(1);

/// Hears when the relay's loop turns, and asks its database.
pub(crate) struct Health {
    source: Arc<Source>,
    turned_at: Mutex<Option<Instant>>,
    /// A loop that has not turned for so long hangs.
    patience: Duration,
    checked: tokio::sync::Mutex<Option<(Instant, bool)>>,
}

/// The public answer. It has no details, because anybody may ask: errors are in the log.
#[derive(Debug, Serialize)]
pub(crate) struct Answer {
    /// All is well.
    pub(crate) ok: bool,
    /// `ok`: reachable, with the tables that this program works on.
    database: &'static str,
    /// How long ago the loop last turned; `null` before it has.
    turned_seconds_ago: Option<f64>,
}

impl Health {
    pub(crate) fn new(source: Arc<Source>, patience: Duration) -> Self {
        Self { source, turned_at: Mutex::default(), patience, checked: tokio::sync::Mutex::default() }
    }

    /// Whether it can work: its database answers, the tables are right, and its loop turns.
    pub(crate) async fn ready(&self) -> Answer {
        let (database, turned) = (self.database().await, self.turned_ago());
        let ok = database && turned.is_some_and(|ago| ago < self.patience);
        answer(ok, database, turned)
    }

    /// Whether restarting it could help: its database answers, and its loop does not turn. While the database is away the
    /// loop cannot, and a new one could not either.
    pub(crate) async fn alive(&self) -> Answer {
        let (database, turned) = (self.database().await, self.turned_ago());
        let hangs = database && turned.is_some_and(|ago| ago >= self.patience);
        answer(!hangs, database, turned)
    }

    fn turned_ago(&self) -> Option<Duration> {
        let turned_at = *self.turned_at.lock().unwrap_or_else(PoisonError::into_inner);
        turned_at.map(|at| at.elapsed())
    }

    async fn database(&self) -> bool {
        let mut checked = self.checked.lock().await;
        let last = *checked;
        if let Some((at, ok)) = last
            && at.elapsed() < CHECK_LASTS
        {
            return ok;
        }
        let store = self.source.store();
        let answer = match tokio::time::timeout(CHECK_LIMIT, store.check()).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("no answer within {CHECK_LIMIT:?}")),
        };
        *checked = Some((Instant::now(), answer.is_ok()));
        match (&answer, last.is_none_or(|(_, ok)| ok)) {
            (Err(error), true) => tracing::warn!(%error, "health check failed: the database is not usable"),
            (Ok(()), false) => tracing::info!("health check passes again"),
            _ => {}
        }
        answer.is_ok()
    }
}

fn answer(ok: bool, database: bool, turned: Option<Duration>) -> Answer {
    let database = if database { "ok" } else { "not ok: see the log" };
    Answer { ok, database, turned_seconds_ago: turned.map(|ago| ago.as_secs_f64()) }
}

impl Observer for Health {
    fn turned(&self) -> Observed {
        *self.turned_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        Ok(())
    }
}
