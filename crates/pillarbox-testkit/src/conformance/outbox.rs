//! The basis of the checks: the outbox of one test, on any database, and a relay's operations in one line.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use pillarbox::delivery::{Answer, Change, Delivery, Verdict, judge};
use pillarbox::store::{Ask, Claim, Claimed, Entry, EventDetail, Settlement, Ticket};
use pillarbox::{Emitted, Event, Inspect, RetryPolicy, SendError, Store, StoreError};
use uuid::{NoContext, Timestamp, Uuid};

/// The outbox of one test.
#[async_trait]
pub trait Outbox: Send + Sync {
    /// Returns the store for relays.
    fn store(&self) -> Arc<dyn Store>;

    /// Returns the store for people.
    fn inspect(&self) -> Arc<dyn Inspect>;

    /// Returns another handle on the same database, with its own connections, as in another process.
    async fn another(&self) -> Arc<dyn Store>;

    /// Emits in one transaction, which commits.
    async fn emit(&self, events: Vec<Event>) -> Vec<Emitted>;

    /// Emits in one transaction, which rolls back.
    async fn emit_and_roll_back(&self, events: Vec<Event>) -> Vec<Emitted>;

    /// Returns the time of the database's clock.
    async fn now(&self) -> DateTime<Utc>;

    /// Moves all times of an event this far into the past.
    async fn age(&self, event: Uuid, by: Duration);

    /// Gives an event another id.
    async fn rename(&self, event: Uuid, id: Uuid);

    /// Moves a relay's heartbeat this far into the past.
    async fn age_relay(&self, relay: Uuid, by: Duration);

    /// Returns the number of rows of a table.
    async fn rows(&self, table: &str) -> u64;

    /// Drops all tables.
    async fn forget_schema(&self);

    /// Migrates through a handle of its own, and returns the number of applied migrations.
    async fn migrate(&self) -> Result<usize, StoreError>;

    /// Records a migration that this program does not know.
    async fn pretend_migration(&self, version: i32, least_program: &str);
}

/// A lease that does not expire during a test.
pub const LEASE: Duration = Duration::from_secs(300);

/// A claim of all due events, with a long lease.
pub const ASK: Ask<'static> = Ask::new(1000, usize::MAX, LEASE);

/// An audit entry of a person.
pub const BY_ANN: Entry<'static> = Entry::Anew { who: "ann", target: "what was asked for" };

/// The destination of the checks.
pub const PLACE: &str = "runner";

/// Returns an event with an aggregate of its own, so that no two are duplicates.
pub fn event(number: usize) -> Event {
    Event::new("Order", number, "order.placed")
}

impl dyn Outbox + '_ {
    /// Emits this many events in one transaction.
    pub async fn emit_many(&self, count: usize) -> Vec<Emitted> {
        self.emit((0..count).map(event).collect()).await
    }

    /// Emits one event.
    pub async fn emit_one(&self) -> Emitted {
        self.emit_event(Event::new("Order", Uuid::new_v4(), "order.placed")).await
    }

    /// Emits this event.
    pub async fn emit_event(&self, event: Event) -> Emitted {
        self.emit(vec![event]).await.pop().expect("one event was emitted")
    }

    /// Claims all due events.
    pub async fn claim(&self) -> Claim {
        self.claim_with(ASK).await
    }

    /// Claims with these parameters.
    pub async fn claim_with(&self, ask: Ask<'_>) -> Claim {
        self.store().claim(ask).await.expect("a claim")
    }

    /// Claims the one event that is due.
    pub async fn claim_one(&self) -> Claimed {
        let claim = self.claim().await;
        assert_eq!(claim.len(), 1, "one event is due");
        claim.into_iter().next().expect("one event")
    }

    /// Claims all due events as a relay that dies: the lease has already expired, and nothing is given back.
    pub async fn claim_and_die(&self) -> Vec<Ticket> {
        let claim = self.claim_with(Ask { lease: Duration::ZERO, ..ASK }).await;
        let tickets = claim.iter().map(Claimed::ticket).collect();
        std::mem::forget(claim);
        tickets
    }

    /// Settles, and asserts that all leases still held.
    pub async fn settle(&self, settlements: Vec<Settlement>) {
        assert_eq!(self.try_settle(settlements).await, [], "all were ours");
    }

    /// Settles, and returns the tickets of lost leases.
    pub async fn try_settle(&self, settlements: Vec<Settlement>) -> Vec<Ticket> {
        self.store().settle(&settlements, false).await.expect("a settle")
    }

    /// Claims the one event that is due and settles it with this change.
    pub async fn claim_and_settle(&self, change: Change) {
        let claimed = self.claim_one().await;
        let attempts = claimed.event().attempts;
        self.settle(vec![claimed.settle(Verdict::of(change, attempts))]).await;
    }

    /// Backdates an event, as if it had been emitted earlier. Its id follows time, too; returns the new id.
    pub async fn backdate(&self, event: Uuid, by: Duration) -> Uuid {
        self.age(event, by).await;
        let moment = self.get(event).await.event.created_at;
        let moment = (moment.timestamp().unsigned_abs(), moment.timestamp_subsec_nanos());
        let id = Uuid::new_v7(Timestamp::from_unix(NoContext, moment.0, moment.1));
        self.rename(event, id).await;
        id
    }

    /// Returns an event with all its details.
    pub async fn get(&self, id: Uuid) -> EventDetail {
        self.inspect().get(id).await.expect("a look at an event").expect("the event is there")
    }
}

/// Settles an event as delivered.
pub fn deliver(claimed: Claimed) -> Settlement {
    claimed.settle(Verdict::of(Change::Deliver, 0))
}

/// Returns the change to a dead letter.
pub fn fail() -> Change {
    Change::Fail { error: "broken".to_owned() }
}

/// Returns the change that parks an event on a destination.
pub fn park(on: &str) -> Change {
    Change::Park { on: on.to_owned(), error: "down".to_owned() }
}

/// Returns a failed attempt.
pub fn failed(message: &str) -> Answer {
    Answer::Failed { error: SendError::retry(message), took: Duration::from_millis(7) }
}

/// Judges a round as the relay does. `answers` are the results of the destinations that the event is routed to.
pub fn judged(claimed: &Claimed, destinations: &[&str], answers: Vec<(&str, Answer)>) -> Verdict {
    let kept = !claimed.deliveries().is_empty();
    let open = |name: &&str| Delivery::open(*name, claimed.event().attempts);
    let before = if kept { claimed.deliveries().to_vec() } else { destinations.iter().map(open).collect() };
    let answers: Vec<_> = answers.into_iter().map(|(name, answer)| (name.to_owned(), answer)).collect();
    judge(&before, kept, &answers, &RetryPolicy::default(), claimed.event().max_attempts, 0.0)
}
