//! The leader: takes the lead when it is free, streams the slot, and keeps the ledger moving until the relay stops or another leads.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use tokio::sync::watch;
use uuid::Uuid;

use super::beat::{BEAT, Beating, beat};
use super::content::Prefix;
use super::ledger::{Ledger, MOST_EVENTS, Which};
use super::log::{Log, lock};
use super::reader::Reading;
use super::row::Layout;
use super::snapshot::Snapshot;
use crate::clock;
use crate::error::StoreError;
use crate::relay::wake::Waker;
use crate::store::postgres::lead::{Lead, Slot};
use crate::store::postgres::lsn::Lsn;
use crate::store::postgres::replication::Subscription;

mod slot;
mod transaction;

use slot::check;
use transaction::Partial;

/// How often the relay looks for what is to be spilled.
const TICK: Duration = Duration::from_millis(50);
/// The pause after a spill that failed.
const SPILL_AGAIN: Duration = Duration::from_millis(500);
/// The pauses between two looks whether a commit is visible.
const FIRST_LOOK: Duration = Duration::from_millis(1);
const LONGEST_LOOK: Duration = Duration::from_millis(50);
/// The pause after a look that failed.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// The looks without a pause at a commit that comes after a rest. The server sends a commit a moment before others see it, and a
/// timer's shortest pause is longer than that moment.
const QUICK_LOOKS: u32 = 8;
/// The pauses between two tries to connect.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Leads, or waits to lead, until the relay stops.
pub(super) async fn keep_leading(log: Arc<Log>, waker: Waker, mut stop: watch::Receiver<bool>) {
    let mut me = Uuid::new_v4();
    let mut told = None;
    loop {
        let began = clock::now();
        match log.store.log_lead(me, log.lease_length(), log.settings.table.as_ref()).await {
            Ok(Some(lead)) => {
                told = None;
                tracing::info!(epoch = lead.epoch, slot = lead.slot, "this relay reads the log");
                log.begin_lead(lead.clone(), began + log.lease_length(), &waker);
                let leading = Leader::new(Arc::clone(&log), lead).run(&waker, &mut stop);
                if AssertUnwindSafe(leading).catch_unwind().await.is_err() {
                    tracing::error!("reading the log panicked; a relay begins again when the lease is over");
                    // As after a death: what it was sending is waited for, and the event that it fell over is found.
                    me = Uuid::new_v4();
                }
                log.end_lead();
            }
            Ok(None) => match why_not(&log).await {
                Ok(why) => tell(&mut told, &why),
                Err(error) => tell(&mut told, &error.to_string()),
            },
            Err(error) => tell(&mut told, &format!("the log cannot be read: {error}")),
        }
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => return,
            () = waker.relay_gone() => return,
            () = tokio::time::sleep(BEAT) => {}
        }
    }
}

/// Returns why this relay does not lead.
async fn why_not(log: &Log) -> Result<String, StoreError> {
    if !log.store.log_is_enabled().await? {
        return Ok("the log is not enabled; run `pillarbox wal enable`".to_owned());
    }
    let table = log.settings.table.as_ref();
    let published = log.store.log_published(table, None).await?;
    Ok(match published.strangers(table).first() {
        Some(stranger) => unexpected(stranger),
        None => "another relay reads the log; this one works on the table".to_owned(),
    })
}

fn unexpected(table: &str) -> String {
    format!(
        "the log contains rows of {table}, which this relay's configuration does not name, so it must not read them; set [source] tables = true \
         and table = {table:?}, or see `pillarbox doctor`"
    )
}

/// Logs a state once.
fn tell(told: &mut Option<String>, state: &str) {
    if told.as_deref() != Some(state) {
        tracing::info!(state, "this relay does not read the log");
        *told = Some(state.to_owned());
    }
}

/// The reason why a stream is not read on.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The log contains rows of a table that this relay does not know.
    #[error("{}", unexpected(.0))]
    Stranger(String),
}

/// The reason why a leader stops.
enum End {
    /// The relay stops.
    Stop,
    /// Another relay leads.
    Deposed,
}

pub(super) struct Leader {
    log: Arc<Log>,
    lead: Lead,
    prefix: Prefix,
    reading: Option<Reading>,
    /// Whether the ledger is that of a stream that broke, and is continued.
    continues: bool,
    partial: Option<Partial>,
    /// The tables whose rows this stream has, by their ids.
    layouts: HashMap<u32, Layout>,
    /// Whether another relay has to read on.
    gives_up: bool,
    snapshot: Snapshot,
    look_at: Option<Instant>,
    look_pause: Duration,
    looked_at: Option<Instant>,
    quick_looks: u32,
    spill_at: Instant,
    connect_at: Instant,
    connect_pause: Duration,
    /// Where the stream began, until it has brought something. Until then emits go into the table, and the next try to connect waits
    /// longer: a stream can break at the same place each time.
    unproven: Option<Lsn>,
    /// Why the last stream broke, until another one brings something.
    broke: Option<String>,
    /// The number of events that the last leader may have had when it died. They are spilled: in the table, a lost lease is
    /// counted, so that an event that kills its relays is found.
    suspects: usize,
}

impl Leader {
    fn new(log: Arc<Log>, lead: Lead) -> Self {
        Self {
            prefix: Prefix::new(&lead.secret),
            suspects: if lead.after_a_death { MOST_EVENTS } else { 0 },
            log,
            lead,
            reading: None,
            continues: false,
            partial: None,
            layouts: HashMap::new(),
            gives_up: false,
            snapshot: Snapshot::default(),
            look_at: None,
            look_pause: FIRST_LOOK,
            looked_at: None,
            quick_looks: 0,
            spill_at: clock::now(),
            connect_at: clock::now(),
            connect_pause: FIRST_PAUSE,
            unproven: None,
            broke: None,
        }
    }

    async fn run(mut self, waker: &Waker, stop: &mut watch::Receiver<bool>) {
        self.log.beats.store(true, Ordering::Relaxed);
        *lock(&self.log.problem) = Some("the relay is not connected to the slot".to_owned());
        let beating = Beating::start(&self.log, &self.lead);
        let end = tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => End::Stop,
            () = waker.relay_gone() => End::Stop,
            end = self.read() => end,
        };
        drop(beating);
        self.reading = None;
        self.partial = None;
        if let End::Stop = end {
            self.leave().await;
        }
    }

    /// Reads and spills until another relay leads. It may be cancelled: whatever it was doing is done again by the next leader.
    async fn read(&mut self) -> End {
        let log = Arc::clone(&self.log);
        loop {
            // Here, and not beside the frames: under load there is always another frame.
            if self.spill_at <= clock::now() {
                // An error is logged and kept by the spill.
                let pause = if log.spill(Which::Due).await.is_ok() { TICK } else { SPILL_AGAIN };
                if !log.ledger().has_doubts() {
                    log.forget_failure();
                }
                self.spill_at = clock::now() + pause;
            }
            if !log.is_current(&self.lead) {
                return End::Deposed;
            }
            if self.gives_up {
                return End::Stop;
            }
            if !log.beats.load(Ordering::Relaxed) {
                self.disconnect();
            }
            let has_room = self.partial.is_some() || (log.ledger().has_room() && log.failing().is_none());
            let (look_at, connect_at, spill_at) = (self.look_at, self.connect_at, self.spill_at);
            tokio::select! {
                biased;
                () = at(look_at) => self.look().await,
                frames = next(&mut self.reading), if has_room => self.took(frames).await,
                () = at(Some(spill_at)) => {}
                () = log.changed.notified() => {}
                () = at(Some(connect_at)), if self.reading.is_none() && log.beats.load(Ordering::Relaxed) => {
                    self.connect().await;
                }
            }
        }
    }

    async fn took(&mut self, frames: Option<Result<Vec<super::frame::Frame>, super::reader::ReadError>>) {
        let error = match frames {
            Some(Ok(frames)) => match self.handle(frames).await {
                Ok(()) => return self.note_progress(),
                Err(error) => {
                    self.gives_up = matches!(error, Trouble::Stranger(_));
                    error.to_string()
                }
            },
            Some(Err(error)) => error.to_string(),
            None => "the stream ended".to_owned(),
        };
        tracing::warn!(error, "the log's stream broke");
        self.disconnect();
        let broke = format!("the log's stream broke: {error}");
        *lock(&self.log.problem) = Some(broke.clone());
        self.broke = Some(broke);
    }

    /// Trusts the stream once it has brought something.
    fn note_progress(&mut self) {
        let read_until = self.log.ledger().read_until();
        if self.unproven.take_if(|began| read_until > *began).is_some() {
            self.connect_pause = FIRST_PAUSE;
            self.broke = None;
            *lock(&self.log.doubt) = None;
        }
    }

    fn disconnect(&mut self) {
        if self.reading.take().is_some() {
            *lock(&self.log.problem) = Some("the relay is not connected to the slot".to_owned());
        }
        // Its transaction comes again.
        self.partial = None;
        // An error may have come before the look at what had arrived.
        if self.look_at.is_none() && self.log.ledger().hidden_since().is_some() {
            self.plan_look();
        }
        // After a crash the server gives the numbers of transactions that were not written to others.
        self.snapshot = Snapshot::default();
        self.wait_to_connect();
    }

    fn wait_to_connect(&mut self) {
        self.connect_at = clock::now() + self.connect_pause;
        self.connect_pause = (self.connect_pause * 2).min(LONGEST_PAUSE);
    }

    /// Connects, or notes why that is impossible.
    async fn connect(&mut self) {
        let Err(problem) = self.try_connect().await else { return };
        self.wait_to_connect();
        let mut told = lock(&self.log.problem);
        if told.as_ref() != Some(&problem) {
            tracing::error!(problem, "the log cannot be read; events are emitted into the table");
        }
        *told = Some(problem);
    }

    async fn try_connect(&mut self) -> Result<(), String> {
        let told = |error: StoreError| error.to_string();
        let Some(slot) = self.log.store.log_slot(&self.lead).await.map_err(told)? else {
            self.log.end_lead();
            return Err("another relay leads, or a standby was promoted".to_owned());
        };
        check(&slot, &self.lead, self.log.settings.table.as_ref())?;
        if slot.was_streamed {
            return Err("the last leader's connection to the slot is being ended".to_owned());
        }
        // A server whose storage was set back ends before what was read.
        if !self.continues || self.log.ledger().read_until() > slot.end {
            self.begin_ledger(&slot);
        }
        let wanted = Subscription {
            slot: self.lead.slot.clone(),
            publication: self.lead.publication.clone(),
            from: self.log.ledger().read_until(),
        };
        let streamed = self.log.store.log_stream(self.log.settings.url.as_deref(), &wanted).await;
        let (stream, identity) =
            streamed.map_err(|error| format!("the slot {} cannot be read: {error}", wanted.slot))?;
        if slot.system.as_ref().is_some_and(|system| *system != identity.system) {
            return Err(format!(
                "the stored position belongs to another server (system identifier {}, this one is {}): was the database \
                 restored from a dump? Disable and enable the log",
                slot.system.unwrap_or_default(),
                identity.system
            ));
        }
        if u32::from_str_radix(&self.lead.timeline, 16).ok() != identity.timeline.parse().ok() {
            // Positions after a promotion are of other events.
            return Err(format!(
                "the server of the slot is on timeline {}, the server of the tables on {}; check that [source] url leads to the same server, unless \
                 one was promoted just now",
                identity.timeline,
                self.lead.timeline.trim_start_matches('0')
            ));
        }
        *lock(&self.log.server) = Some(identity);
        self.log.store.log_timeline(&self.lead).await.map_err(told)?;
        self.continues = true;
        // The server describes its tables anew.
        self.layouts.clear();
        self.log.look_at_table().await.map_err(told)?;
        self.unproven = Some(wanted.from);
        *lock(&self.log.problem) = None;
        let doubt = || "the stream of the log has brought nothing yet".to_owned();
        *lock(&self.log.doubt) = Some(self.broke.clone().unwrap_or_else(doubt));
        self.reading = Some(Reading::start(stream, &self.log));
        tracing::info!(slot = wanted.slot, from = %wanted.from, "reading the log");
        Ok(())
    }

    /// Begins with an empty ledger at the stored position.
    fn begin_ledger(&mut self, slot: &Slot) {
        let position = slot.confirmed.or(slot.flushed).unwrap_or_default();
        *self.log.ledger() = Ledger::new(position);
        self.log.forget_failure();
        self.look_at = None;
    }

    /// Forgets what was read and not settled: it is read again.
    fn begin_again(&mut self) {
        self.continues = false;
        self.disconnect();
    }

    /// Looks whether commits are visible by now, and hands their events out.
    async fn look(&mut self) {
        self.look_at = None;
        if self.log.ledger().hidden_since().is_none() {
            return;
        }
        match self.log.store.log_snapshot().await {
            Ok(text) => match Snapshot::read(&text) {
                Some(snapshot) => self.snapshot = snapshot,
                None => tracing::error!(text, "a snapshot cannot be read"),
            },
            Err(error) => {
                tracing::warn!(%error, "reading which transactions are visible failed");
                self.look_at = Some(clock::now() + LOOK_AGAIN);
                return;
            }
        }
        let now = clock::now();
        self.looked_at = Some(now);
        if !self.reveal() {
            return;
        }
        let pause = match self.quick_looks.checked_sub(1) {
            Some(left) => {
                self.quick_looks = left;
                Duration::ZERO
            }
            None => {
                let longer = (self.look_pause * 2).min(LONGEST_LOOK);
                std::mem::replace(&mut self.look_pause, longer)
            }
        };
        self.look_at = Some(now + pause);
    }

    /// Plans the first look at transactions that have just arrived: at once after a rest, but not more than once in a millisecond, so
    /// that under load one look is for many.
    fn plan_look(&mut self) {
        let now = clock::now();
        let resting = self.looked_at.map(|at| at + FIRST_LOOK).filter(|until| *until > now);
        self.quick_looks = if resting.is_none() { QUICK_LOOKS } else { 0 };
        self.look_at = Some(resting.unwrap_or(now));
    }

    /// Hands out the events that the last snapshot sees. Returns whether others wait to be visible.
    fn reveal(&mut self) -> bool {
        let (revealed, hidden) = {
            let mut ledger = self.log.ledger();
            (ledger.reveal(&self.snapshot), ledger.hidden_since().is_some())
        };
        if revealed > 0 {
            self.look_pause = FIRST_LOOK;
            self.log.wake();
        }
        hidden
    }

    /// Stops gracefully: closes the gate, spills what is open, stores the position and gives the lead back. What is not visible yet
    /// stays in the log.
    async fn leave(&mut self) {
        let left = async {
            beat(&self.log, &self.lead, Some("the relay stops")).await?;
            self.log.spill(Which::Everything).await?;
            let position = self.log.ledger().confirmed();
            self.log.store.log_leave(&self.lead, position).await
        };
        match left.await {
            Ok(Some(position)) => tracing::info!(%position, "this relay has stopped reading the log"),
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(%error, "giving the lead of the log back failed; another relay leads when its lease is over");
            }
        }
    }
}

/// Waits for a moment. A timer waits for a millisecond even if its moment has come.
async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) if moment <= clock::now() => {}
        Some(moment) => tokio::time::sleep_until(moment.into()).await,
        None => std::future::pending().await,
    }
}

async fn next(reading: &mut Option<Reading>) -> Option<Result<Vec<super::frame::Frame>, super::reader::ReadError>> {
    match reading {
        Some(reading) => reading.next().await,
        None => std::future::pending().await,
    }
}
