//! The leader's heartbeat: renews its lease, stores its position, and keeps the gate for emits open while all is well.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::task::AbortHandle;

use super::log::{Behind, Log, lock};
use crate::clock;
use crate::error::StoreError;
use crate::store::postgres::lead::{Lead, SYNCHRONOUS, Telling};

/// The interval of heartbeats. The gate stays open for five times as long.
pub(super) const BEAT: Duration = Duration::from_secs(1);
/// How long a heartbeat may take before the stream is closed.
const SLOW: Duration = Duration::from_secs(2);
/// How long an event may be open before emits go into the table: it cannot be spilled, or is not visible.
const STUCK: Duration = Duration::from_secs(10);

/// The number of beats between two looks at the outbox table.
const LOOK_AT_TABLE: u32 = 5;

/// The heartbeats of a lead. They end when the value is dropped, also by a panic: otherwise nobody else would ever lead.
pub(super) struct Beating(AbortHandle);

impl Beating {
    pub(super) fn start(log: &Arc<Log>, lead: &Lead) -> Self {
        Self(tokio::spawn(keep_beating(Arc::clone(log), lead.clone())).abort_handle())
    }
}

impl Drop for Beating {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Beats until this relay no longer leads.
async fn keep_beating(log: Arc<Log>, lead: Lead) {
    let mut told: Option<Option<String>> = None;
    for number in 1_u32.. {
        let began = clock::now();
        let mut beating = pin!(beat(&log, &lead, None));
        let beaten = match tokio::time::timeout(SLOW, beating.as_mut()).await {
            Ok(beaten) => beaten,
            Err(_) => {
                rest_reading(&log);
                beating.await
            }
        };
        match beaten {
            Ok(true) => {
                tell(&log, &mut told);
                if number.is_multiple_of(LOOK_AT_TABLE)
                    && let Err(error) = log.look_at_table().await
                {
                    tracing::warn!(%error, "looking at the outbox table failed");
                }
            }
            Ok(false) => {
                tracing::warn!(
                    "this relay no longer reads the log: another one does, a standby was promoted, or the log was disabled"
                );
                return log.end_lead();
            }
            Err(error) => {
                rest_reading(&log);
                tracing::warn!(%error, "heartbeat of the log's leader failed");
            }
        }
        tokio::time::sleep(BEAT.saturating_sub(clock::since(began))).await;
    }
}

/// Closes the stream until the database responds again. A server that shuts down waits for the stream to confirm everything, and
/// the position cannot be stored any more.
fn rest_reading(log: &Log) {
    log.beats.store(false, Ordering::Relaxed);
    log.changed.notify_one();
}

/// Beats once. With `closed`, closes the gate for that reason. Returns whether this relay still leads.
pub(super) async fn beat(log: &Log, lead: &Lead, closed: Option<&str>) -> Result<bool, StoreError> {
    let began = clock::now();
    let (position, oldest) = {
        let ledger = log.ledger();
        (ledger.confirmed(), ledger.oldest_commit())
    };
    // Nothing is open, and the stream has passed what was the end of the log a beat ago.
    let is_up_to_date = oldest.is_none() && lock(&log.behind).is_some_and(|before| position >= before.end);
    let closed = closed.map(str::to_owned).or_else(|| closed_by(log, began));
    let server = lock(&log.server).clone();
    let doubt = lock(&log.doubt).clone();
    let (closed, doubt) = (closed.as_deref(), doubt.as_deref());
    let accepts_loss = log.settings.accept_failover_loss;
    let told = Telling { position, oldest, is_up_to_date, closed, doubt, server: server.as_ref(), accepts_loss };
    let Some(beat) = log.store.log_beat(lead, log.lease_length(), told).await? else { return Ok(false) };
    log.renewed_until(began + log.lease_length());
    log.stored(&beat);
    *lock(&log.closed) = beat.closed;
    *lock(&log.behind) = Some(Behind {
        bytes: beat.lag,
        time: if is_up_to_date { Duration::ZERO } else { beat.behind },
        left: beat.left,
        keep: beat.keep,
        end: beat.end,
    });
    if beat.is_synchronous {
        *lock(&log.problem) = Some(SYNCHRONOUS.to_owned());
        rest_reading(log);
    } else {
        log.beats.store(true, Ordering::Relaxed);
    }
    if beat.leaving {
        tracing::debug!("the log is being disabled; it is drained");
    }
    Ok(true)
}

/// Returns the reason why this relay wants emits to go into the table.
fn closed_by(log: &Log, now: Instant) -> Option<String> {
    if let Some(problem) = lock(&log.problem).clone() {
        return Some(problem);
    }
    if let Some(error) = log.failing() {
        return Some(format!("events of the log cannot be written into the table: {error}"));
    }
    if !log.is_order_known() {
        return Some("the relay has not claimed yet".to_owned());
    }
    if log.is_ordered() {
        return Some("order is \"aggregate\", for which events must be in the table".to_owned());
    }
    let oldest = log.ledger().oldest().map(|since| now.saturating_duration_since(since));
    oldest
        .filter(|age| *age > STUCK)
        .map(|age| format!("an event of the log is neither delivered nor in the table after {} s", age.as_secs()))
}

/// Logs when the gate opens or closes.
fn tell(log: &Log, told: &mut Option<Option<String>>) {
    let closed = lock(&log.closed).clone();
    let kind =
        |text: &Option<String>| text.as_ref().map(|text| text.split([';', ':']).next().unwrap_or_default().to_owned());
    if told.as_ref().map(kind) == Some(kind(&closed)) {
        return;
    }
    match &closed {
        None => tracing::info!("gate is open: repeatable events are emitted into the log"),
        Some(reason) => tracing::warn!(reason, "gate is closed: events are emitted into the table"),
    }
    *told = Some(closed);
}
