//! The log as the relay's calls and the leader's task share it: the ledger, the lead, the turn of the table, and the spill.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, mpsc};
use uuid::Uuid;

use super::WalSettings;
use super::ledger::{Batch, Ledger, Which};
use super::told::Told;
use crate::clock;
use crate::error::StoreError;
use crate::event::StoredEvent;
use crate::relay::wake::Waker;
use crate::store::postgres::PostgresStore;
use crate::store::postgres::lead::{Beat, Lead};
use crate::store::postgres::lsn::Lsn;
use crate::store::postgres::replication::Identity;
use crate::store::postgres::spill::{Form, Spill};
use crate::store::{Ask, Order, Ticket};

/// How often the table is asked while the log has events.
const TABLE_EVERY: Duration = Duration::from_millis(100);
/// The shortest time between two questions to a table that had nothing.
const TABLE_REST: Duration = Duration::from_millis(2);

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The metrics of the log, since the store was opened.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct LogMetrics {
    /// Events that were delivered without a row.
    pub delivered: u64,
    /// Events that went into the table.
    pub spilled: u64,
    /// Messages that claim to be events, but do not carry the secret.
    pub forged: u64,
    /// Messages that carry the secret, and rows of the outbox table, that cannot be read. Each is a dead letter.
    pub unreadable: u64,
    /// The bytes of the log that are not confirmed, if this relay leads.
    pub lag_bytes: Option<u64>,
    /// The age of the oldest commit with an event that is neither delivered nor in the table, if this relay leads. It is zero if there is
    /// none.
    pub lag: Option<Duration>,
    /// The bytes that can still be written before the slot may be lost, if this relay leads and the server says so.
    pub left_bytes: Option<u64>,
    /// The server's `max_slot_wal_keep_size`, if this relay leads and there is a limit.
    pub keep_bytes: Option<u64>,
    /// Whether this relay leads.
    pub leads: bool,
    /// The reason why emits go into the table, if this relay leads.
    pub closed: Option<String>,
    /// The reason why rows of [`WalSettings::table`] are not in the log, if this relay leads.
    pub table_problem: Option<String>,
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) delivered: AtomicU64,
    pub(super) spilled: AtomicU64,
    pub(super) forged: AtomicU64,
    pub(super) unreadable: AtomicU64,
}

/// How far this relay is behind, by the last heartbeat.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Behind {
    pub(super) bytes: u64,
    pub(super) time: Duration,
    pub(super) left: Option<u64>,
    pub(super) keep: Option<u64>,
    /// The end of the log then.
    pub(super) end: Lsn,
}

#[derive(Debug)]
pub(super) struct Log {
    pub(super) store: PostgresStore,
    pub(super) settings: WalSettings,
    ledger: Mutex<Ledger>,
    /// The lead, and until when this relay has it by its own clock.
    lead: Mutex<Option<(Lead, Instant)>>,
    /// Held while a spill is written, and shared by whoever waits for that or must not meet one.
    pub(super) spilling: tokio::sync::RwLock<()>,
    /// The reason why the last spill failed.
    failing: Mutex<Option<String>>,
    /// The reason why the stream cannot be read.
    pub(super) problem: Mutex<Option<String>>,
    /// The reason not to trust the stream that is read. The server may know a better one.
    pub(super) doubt: Mutex<Option<String>>,
    /// The reason why rows of the outbox table are not in the log.
    table_problem: Mutex<Option<String>>,
    /// The reason why the gate is closed.
    pub(super) closed: Mutex<Option<String>>,
    /// The server that is streamed.
    pub(super) server: Mutex<Option<Identity>>,
    pub(super) counters: Counters,
    pub(super) behind: Mutex<Option<Behind>>,
    /// Notified when the ledger may have room, or something is to be spilled.
    pub(super) changed: Notify,
    waker: Mutex<Option<Waker>>,
    turn: Mutex<Turn>,
    order: AtomicU8,
    /// The position that the server may be told.
    told: Mutex<Told>,
    /// Whether the last heartbeat of the leader reached the database.
    pub(super) beats: AtomicBool,
    give_back: mpsc::UnboundedSender<Ticket>,
}

/// The turn of the table among claims.
#[derive(Debug, Default)]
struct Turn {
    asked_at: Option<Instant>,
    found: bool,
    /// Whether the log had the last claim.
    log_was_last: bool,
}

const UNKNOWN: u8 = 0;
const UNORDERED: u8 = 1;
const ORDERED: u8 = 2;

impl Log {
    pub(super) fn new(store: PostgresStore, settings: WalSettings, give_back: mpsc::UnboundedSender<Ticket>) -> Self {
        Self {
            store,
            settings,
            ledger: Mutex::default(),
            lead: Mutex::default(),
            spilling: tokio::sync::RwLock::default(),
            failing: Mutex::default(),
            problem: Mutex::default(),
            doubt: Mutex::default(),
            table_problem: Mutex::default(),
            closed: Mutex::default(),
            server: Mutex::default(),
            counters: Counters::default(),
            behind: Mutex::default(),
            changed: Notify::new(),
            waker: Mutex::default(),
            turn: Mutex::default(),
            order: AtomicU8::new(UNKNOWN),
            told: Mutex::default(),
            beats: AtomicBool::new(false),
            give_back,
        }
    }

    pub(super) fn metrics(&self) -> LogMetrics {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let leads = lock(&self.lead).is_some();
        let behind = lock(&self.behind).filter(|_| leads);
        LogMetrics {
            delivered: count(&self.counters.delivered),
            spilled: count(&self.counters.spilled),
            forged: count(&self.counters.forged),
            unreadable: count(&self.counters.unreadable),
            lag_bytes: behind.map(|behind| behind.bytes),
            lag: behind.map(|behind| behind.time),
            left_bytes: behind.and_then(|behind| behind.left),
            keep_bytes: behind.and_then(|behind| behind.keep),
            leads,
            closed: lock(&self.closed).clone().filter(|_| leads),
            table_problem: lock(&self.table_problem).clone().filter(|_| leads),
        }
    }

    // The lead.

    pub(super) fn lead(&self) -> Option<Lead> {
        lock(&self.lead).as_ref().map(|(lead, _)| lead.clone())
    }

    pub(super) fn leads_until(&self) -> Option<Instant> {
        lock(&self.lead).as_ref().map(|(_, until)| *until)
    }

    pub(super) fn begin_lead(&self, lead: Lead, until: Instant, waker: &Waker) {
        *lock(&self.waker) = Some(waker.clone());
        *lock(&self.ledger) = Ledger::default();
        *lock(&self.server) = None;
        *lock(&self.behind) = None;
        *lock(&self.told) = Told::default();
        self.forget_failure();
        *lock(&self.lead) = Some((lead, until));
    }

    pub(super) fn renewed_until(&self, until: Instant) {
        if let Some((_, before)) = lock(&self.lead).as_mut() {
            *before = until;
        }
    }

    /// Ends the lead. Events that are still being sent are no longer this relay's.
    pub(super) fn end_lead(&self) {
        *lock(&self.lead) = None;
        *lock(&self.ledger) = Ledger::default();
        self.forget_failure();
        self.changed.notify_one();
    }

    /// Returns the position that the server may be told when the log was received up to `received`.
    pub(super) fn tell(&self, received: Lsn) -> Lsn {
        lock(&self.told).tell(received)
    }

    pub(super) fn stored(&self, beat: &Beat) {
        lock(&self.told).store(beat.confirmed, beat.end, beat.waits);
    }

    pub(super) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        lock(&self.ledger)
    }

    pub(super) fn lease_length(&self) -> Duration {
        self.settings.lease
    }

    pub(super) fn give_back_channel(&self) -> mpsc::UnboundedSender<Ticket> {
        self.give_back.clone()
    }

    pub(super) fn wake(&self) {
        if let Some(waker) = lock(&self.waker).as_ref() {
            waker.wake();
        }
    }

    /// Returns whether this lead has not ended.
    pub(super) fn is_current(&self, lead: &Lead) -> bool {
        self.lead().is_some_and(|current| current.epoch == lead.epoch)
    }

    /// Returns why the last spill failed, if it did.
    pub(super) fn failing(&self) -> Option<String> {
        lock(&self.failing).clone()
    }

    /// Forgets why a spill failed whose events are no longer in the ledger.
    pub(super) fn forget_failure(&self) {
        *lock(&self.failing) = None;
    }

    // The outbox table of the application.

    /// Looks whether its rows are in the log. What is missing was never written, so messages and other rows are read on.
    pub(super) async fn look_at_table(&self) -> Result<(), StoreError> {
        let Some(table) = &self.settings.table else { return Ok(()) };
        let problem = self.store.log_published(Some(table), None).await?.missing(table);
        let mut told = lock(&self.table_problem);
        if *told != problem {
            match &problem {
                Some(problem) => tracing::error!(problem, "rows of the outbox table are not in the log"),
                None => tracing::info!(%table, "rows of the outbox table are in the log"),
            }
            *told = problem;
        }
        Ok(())
    }

    // The order.

    pub(super) fn note_order(&self, order: Order) {
        self.order.store(if order == Order::None { UNORDERED } else { ORDERED }, Ordering::Relaxed);
    }

    pub(super) fn is_ordered(&self) -> bool {
        self.order.load(Ordering::Relaxed) == ORDERED
    }

    pub(super) fn is_order_known(&self) -> bool {
        self.order.load(Ordering::Relaxed) != UNKNOWN
    }

    // Claims.

    pub(super) fn has_ready(&self) -> bool {
        self.ledger().ready() > 0 && !self.is_ordered()
    }

    /// Returns whether the next claim is the table's, though the log may have events: both are served in turn.
    pub(super) fn is_tables_turn(&self, whole: bool) -> bool {
        let turn = lock(&self.turn);
        let rested = turn.asked_at.is_none_or(|at| clock::since(at) > TABLE_EVERY);
        whole || (turn.log_was_last && (turn.found || rested))
    }

    /// Returns whether the table is asked when the log has nothing. It may have been asked just now.
    pub(super) fn asks_table(&self, whole: bool) -> bool {
        let turn = lock(&self.turn);
        whole || turn.found || turn.asked_at.is_none_or(|at| clock::since(at) > TABLE_REST)
    }

    pub(super) fn asked_table(&self, found: bool) {
        *lock(&self.turn) = Turn { asked_at: Some(clock::now()), found, log_was_last: false };
    }

    pub(super) fn take(&self, ask: &Ask<'_>, token: Uuid) -> Vec<Arc<StoredEvent>> {
        let taken = self.ledger().take(ask.limit, ask.bytes, token, ask.lease, clock::now());
        if !taken.is_empty() {
            lock(&self.turn).log_was_last = true;
            self.changed.notify_one();
        }
        taken
    }

    /// Gives back events that were claimed from the log. Those that have been spilled since are the table's.
    pub(super) async fn give_back(&self, tickets: &[Ticket]) {
        // A spill that is being written decides whether the event is in the log or in the table.
        while tickets.iter().any(|ticket| self.ledger().is_spilling(*ticket)) {
            drop(self.spilling.read().await);
        }
        let now = clock::now();
        let mut ledger = self.ledger();
        for ticket in tickets {
            if ledger.holds(*ticket) {
                ledger.give_back(*ticket, now);
            } else {
                self.store.give_back(*ticket);
            }
        }
    }

    // Spill.

    /// Spills events, if there are some to spill. Returns their number.
    pub(super) async fn spill(&self, which: Which<'_>) -> Result<usize, StoreError> {
        let _one_at_a_time = self.spilling.write().await;
        let Some(lead) = self.lead() else { return Ok(0) };
        let Some(batch) = self.ledger().begin_spill(which, clock::now()) else { return Ok(0) };
        let mut abandon = Abandon { log: self, batch: &batch, written: false };
        let spilled = self.store.log_spill(&lead, batch.until, &batch.events).await;
        if !self.is_current(&lead) {
            // The ledger is another one, which knows nothing of this batch.
            abandon.written = true;
            return spilled.map(|_| 0);
        }
        match spilled {
            Ok(Spill::Done) => {
                abandon.written = true;
                drop(abandon);
                self.spilled(&batch);
                Ok(batch.events.len())
            }
            Ok(Spill::Deposed) => {
                abandon.written = true;
                drop(abandon);
                self.end_lead();
                Ok(0)
            }
            Err(error) => {
                let text = error.to_string();
                let before = lock(&self.failing).replace(text);
                if before.is_none() {
                    tracing::error!(
                        %error,
                        "spill failed: events of the log cannot be written into the table; reading stops until they can"
                    );
                }
                Err(error)
            }
        }
    }

    fn spilled(&self, batch: &Batch) {
        self.ledger().end_spill(batch);
        self.counters.spilled.fetch_add(batch.events.len() as u64, Ordering::Relaxed);
        if lock(&self.failing).take().is_some() {
            tracing::info!("spill works again");
        }
        if batch.events.iter().any(|event| event.form.is_due()) {
            lock(&self.turn).asked_at = None;
            self.wake();
        }
        let slow = batch.events.iter().filter(|event| matches!(event.form, Form::Leased { .. })).count();
        tracing::debug!(events = batch.events.len(), being_sent = slow, until = %batch.until, "events spilled");
        self.changed.notify_one();
    }
}

/// Ends a spill that was not written, also when it is cancelled.
struct Abandon<'a> {
    log: &'a Log,
    batch: &'a Batch,
    written: bool,
}

impl Drop for Abandon<'_> {
    fn drop(&mut self) {
        if !self.written {
            self.log.ledger().abandon_spill(self.batch);
        }
    }
}
