//! A database that does not answer: connections that stay open and on which nothing arrives any more.

use std::sync::Arc;
use std::time::Duration;

use pillarbox::delivery::{Change, Verdict};
use pillarbox::store::postgres::{PostgresSettings, PostgresStore};
use pillarbox::store::{Ask, Entry, Marked, Settlement};
use pillarbox::{Claims, Event, Inspect, Relay, RelaySettings};
use pillarbox_testkit::{Proxy, Swallow, TestDatabase, wait_until};

use crate::fixture::{Log, PATIENCE, Place, all_to, impatient, while_running};

/// Less than the server lets a transaction wait for its client.
const SOON: Duration = Duration::from_secs(20);

/// A database, and a proxy before it.
struct Behind {
    database: TestDatabase,
    proxy: Proxy,
    /// Beside the proxy.
    direct: PostgresStore,
}

impl Behind {
    async fn a_proxy() -> Self {
        let database = TestDatabase::create().await;
        let direct = PostgresStore::connect(&database.url(), "public").await.unwrap();
        direct.migrate().await.unwrap();
        let proxy = Proxy::before_postgres(&database.url()).await;
        Self { database, proxy, direct }
    }

    async fn store(&self) -> PostgresStore {
        let settings = PostgresSettings { deadline: Duration::from_secs(1), ..PostgresSettings::default() };
        PostgresStore::connect_with(&self.proxy.url(&self.database.url()), "public", settings).await.unwrap()
    }

    async fn relay(&self, place: &Place) -> Relay {
        Relay::builder(Arc::new(self.store().await))
            .settings(RelaySettings { batch_size: 20, ..impatient() })
            .destination(place.as_destination("a"))
            .route(all_to("a"))
            .build()
            .unwrap()
    }

    async fn emit(&self, count: usize) {
        for number in 0..count {
            self.direct.emit(Event::new("Order", number, "order.placed").repeatable()).await.unwrap();
        }
    }

    async fn delivered(&self) -> u64 {
        self.direct.counts().await.unwrap().delivered
    }
}

/// Every connection of the relay goes silent at once, again and again, and new ones work.
async fn delivers_again(what: Swallow) {
    let behind = Behind::a_proxy().await;
    let place = Place::fine();
    let relay = behind.relay(&place).await;
    while_running(&relay, async {
        for round in 1..=2 {
            behind.emit(50).await;
            wait_until("all are delivered", PATIENCE, async || behind.delivered().await == round * 100 - 50).await;
            assert!(behind.proxy.swallow(what) > 0);
            behind.emit(50).await;
            wait_until("the relay delivers again", PATIENCE, async || behind.delivered().await == round * 100).await;
        }
    })
    .await;
    assert!(place.got().len() >= 200);
}

#[tokio::test]
async fn a_relay_delivers_again_after_its_requests_were_swallowed() {
    delivers_again(Swallow::Requests).await;
}

#[tokio::test]
async fn a_relay_delivers_again_after_the_answers_to_it_were_swallowed() {
    delivers_again(Swallow::Answers).await;
}

#[tokio::test]
async fn a_relay_delivers_again_after_a_network_that_swallowed_everything_and_says_that_nothing_answers() {
    let behind = Behind::a_proxy().await;
    let relay = behind.relay(&Place::fine()).await;
    let (log, guard) = Log::of_warnings();
    while_running(&relay, async {
        behind.emit(1).await;
        wait_until("it is delivered", PATIENCE, async || behind.delivered().await == 1).await;
        behind.proxy.swallow_new(true);
        behind.proxy.swallow(Swallow::Both);
        behind.emit(1).await;
        wait_until("the relay says so", PATIENCE, async || log.text().contains("database does not respond")).await;
        assert_eq!(behind.delivered().await, 1);
        behind.proxy.swallow_new(false);
        behind.proxy.swallow(Swallow::Both);
        wait_until("the relay delivers again", PATIENCE, async || behind.delivered().await == 2).await;
    })
    .await;
    drop(guard);
}

#[tokio::test]
async fn a_statement_that_the_server_works_on_may_take_longer_than_the_deadline() {
    let behind = Behind::a_proxy().await;
    let store = behind.store().await;
    let event = store.emit(Event::new("Order", 1, "order.placed")).await.unwrap();
    let mut other = behind.direct.pool().begin().await.unwrap();
    sqlx::query("UPDATE outbox_event SET updated_at = updated_at").execute(&mut *other).await.unwrap();
    let entry = Entry::Anew { who: "ann", target: "1" };
    let ids = [event.id];
    let (marked, ()) = tokio::join!(store.fail(&ids, "not wanted", entry), async {
        let waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                     AND wait_event_type = 'Lock' AND clock_timestamp() - query_start > '2.5 s'";
        wait_until("it waits for long", PATIENCE, async || {
            sqlx::query_scalar::<_, i64>(waits).fetch_one(behind.direct.pool()).await.unwrap() == 1
        })
        .await;
        other.commit().await.unwrap();
    });
    assert_eq!(marked.unwrap(), [(event.id, Marked::Failed)]);
}

#[tokio::test]
async fn the_locks_of_a_connection_that_went_silent_hold_up_nobody() {
    let behind = Behind::a_proxy().await;
    let store = behind.store().await;
    store.hold_from_now_on();
    behind.emit(6).await;
    let mut settlements: Vec<Settlement> = Vec::new();
    for _ in 0..2 {
        let claim = store.claim(Ask::new(3, 1 << 20, Duration::from_secs(60))).await.unwrap();
        assert_eq!((claim.len(), claim.together().is_some()), (3, true));
        settlements.extend(claim.into_iter().map(|claimed| claimed.settle(Verdict::of(Change::Deliver, 0))));
    }
    behind.proxy.swallow(Swallow::Both);
    // As the relay does it: again, until it works.
    wait_until("they are settled", PATIENCE, async || {
        store.settle(&settlements, false).await.is_ok_and(|lost| lost.is_empty())
    })
    .await;
    assert_eq!(behind.delivered().await, 6);
}

#[tokio::test]
async fn the_locks_of_a_claim_without_an_answer_are_freed_when_the_server_can_be_reached_again() {
    let behind = Behind::a_proxy().await;
    let store = behind.store().await;
    store.hold_from_now_on();
    let claim = async || store.claim(Ask::new(1, 1 << 20, Duration::from_secs(60))).await;
    assert!(claim().await.unwrap().is_empty());
    behind.emit(1).await;
    behind.proxy.swallow_new(true);
    behind.proxy.swallow(Swallow::Answers);
    let (unanswered, ()) = tokio::join!(claim(), async {
        let waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                     AND state = 'idle in transaction'";
        wait_until("the server has claimed", PATIENCE, async || {
            sqlx::query_scalar::<_, i64>(waits).fetch_one(behind.direct.pool()).await.unwrap() == 1
        })
        .await;
        // The server must not see that the client closes its connection.
        behind.proxy.swallow(Swallow::Both);
    });
    unanswered.unwrap_err();
    behind.proxy.swallow_new(false);
    // Sooner than the server ends a transaction without a client by itself.
    wait_until("the event is claimed", SOON, async || claim().await.is_ok_and(|claim| claim.len() == 1)).await;
}
