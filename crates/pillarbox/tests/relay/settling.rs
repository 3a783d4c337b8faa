//! Settles that fail are kept, and nothing is claimed meanwhile.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use pillarbox::store::{
    Ask, Claim, Cleaned, EventKind, Heartbeat, ParkedEvent, ParkedPlace, Retention, Settlement, Swept, Ticket, WakeUp,
};
use pillarbox::{Claims, Fleet, Parking, Relay, RelaySettings, Status, Store, StoreError, Waker};
use pillarbox_testkit::wait_until;
use tokio::sync::Semaphore;
use uuid::Uuid;

use crate::fixture::{Outbox, PATIENCE, Place, all_to, impatient, while_running};

/// A store whose settles fail while the test says so, and of which a verb can be made to never come back.
#[derive(Clone)]
pub(crate) struct Flaky {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) fails: Arc<AtomicUsize>,
    pub(crate) claims: Arc<AtomicUsize>,
    pub(crate) renewals: Arc<AtomicUsize>,
    pub(crate) silent_on: Option<&'static str>,
    /// The relays that asked to be woken.
    pub(crate) wakers: Arc<Mutex<Vec<Waker>>>,
    /// Bytes of payload that were claimed and not settled yet: now, and at most.
    pub(crate) held: Arc<AtomicUsize>,
    pub(crate) most_held: Arc<AtomicUsize>,
    /// Settles with events of this type fail.
    pub(crate) refuses: Option<&'static str>,
    /// Settles with events of this type wait until there is a permit, and claims are to be settled together.
    pub(crate) waits: Option<(&'static str, Arc<Semaphore>)>,
}

impl Flaky {
    pub(crate) fn over(outbox: &Outbox) -> Self {
        let store = Arc::clone(&outbox.store) as Arc<dyn Store>;
        let zero = || Arc::new(AtomicUsize::new(0));
        Self {
            store,
            fails: zero(),
            claims: zero(),
            renewals: zero(),
            silent_on: None,
            wakers: Arc::default(),
            held: zero(),
            most_held: zero(),
            refuses: None,
            waits: None,
        }
    }

    async fn answers(&self, verb: &str) {
        if self.silent_on == Some(verb) {
            std::future::pending::<()>().await;
        }
    }
}

#[async_trait]
impl Claims for Flaky {
    fn can_order(&self) -> bool {
        self.store.can_order()
    }
    async fn claim(&self, ask: Ask<'_>) -> Result<Claim, StoreError> {
        self.claims.fetch_add(1, Ordering::SeqCst);
        self.answers("claim").await;
        let claim = self.store.claim(ask).await?;
        let bytes: usize = claim.iter().map(|claimed| claimed.event().payload.get().len()).sum();
        let held = self.held.fetch_add(bytes, Ordering::SeqCst) + bytes;
        self.most_held.fetch_max(held, Ordering::SeqCst);
        Ok(if self.waits.is_some() { claim.settled_together(PATIENCE) } else { claim })
    }
    async fn settle(&self, settlements: &[Settlement], delete: bool) -> Result<Vec<Ticket>, StoreError> {
        let has = |event_type: &str| settlements.iter().any(|one| one.event().event_type == event_type);
        if let Some((event_type, permits)) = &self.waits
            && has(event_type)
        {
            permits.acquire().await.unwrap().forget();
        }
        let left = self.fails.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        let refused = self.refuses.is_some_and(has);
        if left.is_ok() || refused {
            return Err(StoreError::Database { doing: "settling events", source: "on purpose".into() });
        }
        let lost = self.store.settle(settlements, delete).await?;
        let bytes: usize = settlements.iter().map(|settlement| settlement.event().payload.get().len()).sum();
        self.held.fetch_sub(bytes, Ordering::SeqCst);
        Ok(lost)
    }
    async fn renew(&self, tickets: &[Ticket], lease: Duration) -> Result<Vec<Ticket>, StoreError> {
        self.renewals.fetch_add(1, Ordering::SeqCst);
        self.answers("renew").await;
        self.store.renew(tickets, lease).await
    }
    async fn next_due(&self) -> Result<Option<Duration>, StoreError> {
        self.store.next_due().await
    }
    async fn remaining(&self) -> Result<u64, StoreError> {
        self.store.remaining().await
    }
    async fn wake(&self, waker: Waker) -> Result<WakeUp, StoreError> {
        self.wakers.lock().unwrap().push(waker.clone());
        self.answers("wake").await;
        self.store.wake(waker).await
    }
}

#[async_trait]
impl Parking for Flaky {
    async fn parked_on(&self) -> Result<Vec<String>, StoreError> {
        self.store.parked_on().await
    }
    async fn parked_kinds(&self, on: &str) -> Result<Vec<EventKind>, StoreError> {
        self.store.parked_kinds(on).await
    }
    async fn parked_events(
        &self,
        on: &str,
        kind: &EventKind,
        after: &ParkedPlace,
        limit: usize,
    ) -> Result<Vec<ParkedEvent>, StoreError> {
        self.store.parked_events(on, kind, after, limit).await
    }
    async fn unpark_these(&self, on: &str, ids: &[Uuid]) -> Result<u64, StoreError> {
        self.store.unpark_these(on, ids).await
    }
    async fn unpark(&self, on: &str, kind: Option<&EventKind>, limit: usize) -> Result<u64, StoreError> {
        self.store.unpark(on, kind, limit).await
    }
}

#[async_trait]
impl Fleet for Flaky {
    async fn check(&self) -> Result<(), StoreError> {
        self.store.check().await
    }
    async fn heartbeat(&self, heartbeat: &Heartbeat) -> Result<(), StoreError> {
        self.store.heartbeat(heartbeat).await
    }
    async fn farewell(&self, relay: Uuid) -> Result<(), StoreError> {
        self.answers("farewell").await;
        self.store.farewell(relay).await
    }
    async fn sweep(&self) -> Result<Vec<Swept>, StoreError> {
        self.store.sweep().await
    }
    async fn cleanup(&self, retention: &Retention) -> Result<Cleaned, StoreError> {
        self.store.cleanup(retention).await
    }
}

#[tokio::test]
async fn a_settle_that_fails_is_kept_and_nothing_is_claimed_meanwhile() {
    let outbox = Outbox::new().await;
    let id = outbox.emit("order.placed", 1).await[0];
    let store = Flaky::over(&outbox);
    let (fails, claims) = (Arc::clone(&store.fails), Arc::clone(&store.claims));
    fails.store(6, Ordering::SeqCst);
    let place = Place::fine();
    let relay = Relay::builder(Arc::new(store))
        .settings(impatient())
        .destination(place.as_destination("a"))
        .route(all_to("a"))
        .build()
        .unwrap();
    while_running(&relay, async {
        wait_until("the settle has failed", PATIENCE, async || fails.load(Ordering::SeqCst) < 6).await;
        let before = claims.load(Ordering::SeqCst);
        wait_until("it has failed again and again", PATIENCE, async || fails.load(Ordering::SeqCst) <= 3).await;
        // At most the claim that was under way when the first settle failed. More failures are to come.
        assert!(claims.load(Ordering::SeqCst) <= before + 1);
        wait_until("it is settled", PATIENCE, async || outbox.counts().await.delivered == 1).await;
    })
    .await;
    assert_eq!(place.got(), [id]);
    assert_eq!(outbox.get(id).await.event.status, Status::Delivered);
}

/// Each claim that is settled as a whole has a transaction of its own: none waits for another.
#[tokio::test]
async fn a_claim_that_is_settled_slowly_does_not_hold_up_the_others() {
    let outbox = Outbox::new().await;
    outbox.emit("slow", 1).await;
    outbox.emit("order.placed", 3).await;
    let permits = Arc::new(Semaphore::new(0));
    let store = Flaky { waits: Some(("slow", Arc::clone(&permits))), ..Flaky::over(&outbox) };
    let place = Place::fine();
    let relay = Relay::builder(Arc::new(store))
        .settings(RelaySettings { batch_size: 1, ..impatient() })
        .destination(place.as_destination("a"))
        .route(all_to("a"))
        .build()
        .unwrap();
    while_running(&relay, async {
        wait_until("the others are settled", PATIENCE, async || outbox.counts().await.delivered == 3).await;
        permits.add_permits(1);
        wait_until("it is settled, too", PATIENCE, async || outbox.counts().await.delivered == 4).await;
    })
    .await;
    assert_eq!(place.got().len(), 4);
}

/// The relay waits for it also when it stops.
#[tokio::test]
async fn a_claim_that_is_being_settled_when_the_relay_stops_is_waited_for() {
    let outbox = Outbox::new().await;
    let id = outbox.emit("slow", 1).await[0];
    let permits = Arc::new(Semaphore::new(0));
    let store = Flaky { waits: Some(("slow", Arc::clone(&permits))), ..Flaky::over(&outbox) };
    let place = Place::fine();
    let relay = Relay::builder(Arc::new(store))
        .settings(impatient())
        .destination(place.as_destination("a"))
        .route(all_to("a"))
        .build()
        .unwrap();
    let stop = async { wait_until("it is sent", PATIENCE, async || place.got() == [id]).await };
    let (ran, ()) = tokio::join!(relay.run(stop), async {
        wait_until("it is sent", PATIENCE, async || place.got() == [id]).await;
        permits.add_permits(1);
    });
    ran.unwrap();
    assert_eq!(outbox.get(id).await.event.status, Status::Delivered);
}

#[tokio::test]
async fn what_the_database_never_takes_of_one_event_does_not_stop_the_others() {
    let outbox = Outbox::new().await;
    let cursed = outbox.emit("cursed", 1).await[0];
    outbox.emit("order.placed", 5).await;
    let store = Flaky { refuses: Some("cursed"), ..Flaky::over(&outbox) };
    let place = Place::fine();
    let relay = Relay::builder(Arc::new(store))
        .settings(impatient())
        .destination(place.as_destination("a"))
        .route(all_to("a"))
        .build()
        .unwrap();
    while_running(&relay, async {
        wait_until("the others are settled", PATIENCE, async || outbox.counts().await.delivered == 5).await;
        outbox.emit("order.placed", 5).await;
        wait_until("it goes on claiming", PATIENCE, async || outbox.counts().await.delivered == 10).await;
    })
    .await;
    assert_eq!(outbox.get(cursed).await.event.status, Status::Pending);
}
