//! The liveness and readiness of the relay, for orchestrators and people.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pillarbox::{Observed, Observer};
use serde::Serialize;

use crate::store::Source;

/// The timeout of the database check.
const CHECK_LIMIT: Duration = Duration::from_secs(2);
/// The shortest interval between two database checks, however many requests there are.
const CHECK_LASTS: Duration = Duration::from_secs(1);

/// Records when the relay's loop completes a claim, and checks its database.
pub(crate) struct Health {
    source: Arc<Source>,
    turned_at: Mutex<Option<Instant>>,
    /// The time without a completed claim after which the loop counts as hung.
    patience: Duration,
    checked: tokio::sync::Mutex<Option<(Instant, bool)>>,
}

/// The response. It is public, so it has no details; errors are in the log.
#[derive(Debug, Serialize)]
pub(crate) struct Answer {
    /// Whether the relay is healthy.
    pub(crate) ok: bool,
    /// `ok` if the database is reachable and has the tables that this program works on.
    database: &'static str,
    /// The seconds since the loop last completed a claim; `null` before the first one.
    turned_seconds_ago: Option<f64>,
}

impl Health {
    pub(crate) fn new(source: Arc<Source>, patience: Duration) -> Self {
        Self { source, turned_at: Mutex::default(), patience, checked: tokio::sync::Mutex::default() }
    }

    /// Returns whether the relay can work: its database responds, the tables are right, and its loop runs.
    pub(crate) async fn ready(&self) -> Answer {
        let (database, turned) = (self.database().await, self.turned_ago());
        let ok = database && turned.is_some_and(|ago| ago < self.patience);
        answer(ok, database, turned)
    }

    /// Returns whether the relay is alive. It is not if its database responds and its loop has stopped: then a restart
    /// could help. While the database is down the loop cannot run, and a restart would not help.
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
            Err(_) => Err(format!("no response within {CHECK_LIMIT:?}")),
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
