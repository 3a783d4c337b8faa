//! Behind a transaction pooler: notifications do not arrive, and a session is not a session.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use pillarbox::store::Heartbeat;
use pillarbox::store::postgres::PostgresStore;
use pillarbox::{Claims, Event, Fleet, Inspect, Parking, Relay, RelaySettings, emit, emit_once};
use pillarbox_testkit::{PgBouncer, TestDatabase, wait_until};
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use uuid::Uuid;

use crate::fixture::{Log, PATIENCE, Place, all_to, impatient, sorted, while_running};

/// A database, and a pooler before it with several server connections open.
struct Behind {
    database: TestDatabase,
    pooler: PgBouncer,
    /// As an application behind a pooler must have it.
    application: PgPool,
}

impl Behind {
    async fn a_pooler() -> Self {
        let database = TestDatabase::create().await;
        let pooler = PgBouncer::start(&database.url()).await;
        let options =
            PgConnectOptions::from_str(pooler.url()).unwrap().extra_float_digits(None).statement_cache_capacity(0);
        let application = PgPoolOptions::new().max_connections(8).connect_with(options).await.unwrap();
        // Each open transaction holds a server connection, so the pooler must open them all.
        let open = join_all((0..4).map(|_| application.begin())).await;
        assert!(open.iter().all(Result::is_ok));
        Self { database, pooler, application }
    }

    async fn store(&self) -> PostgresStore {
        PostgresStore::connect(self.pooler.url(), "public").await.unwrap()
    }

    async fn emit(&self, orders: std::ops::Range<usize>) -> Vec<Uuid> {
        join_all(orders.map(|order| async move {
            let mut tx = self.application.begin().await.unwrap();
            let emitted = emit(&mut tx, Event::new("Order", order, "order.placed")).await.unwrap();
            let again = emit_once(&mut tx, Event::new("Order", order, "order.placed")).await.unwrap();
            tx.commit().await.unwrap();
            assert_eq!(again.id, emitted.id);
            emitted.id
        }))
        .await
    }
}

#[tokio::test]
async fn a_relay_says_that_notifications_do_not_arrive_and_delivers_by_polling() {
    let behind = Behind::a_pooler().await;
    let store = behind.store().await;
    assert!(!store.migrate().await.unwrap().is_empty());
    assert!(behind.store().await.migrate().await.unwrap().is_empty());
    let place = Place::fine();
    let relay = Relay::builder(Arc::new(store.clone()))
        .settings(RelaySettings { poll_interval: Duration::from_secs(3600), batch_size: 20, ..impatient() })
        .destination(place.as_destination("a"))
        .route(all_to("a"))
        .build()
        .unwrap();
    let (log, guard) = Log::of_warnings();
    while_running(&relay, async {
        let mut emitted = behind.emit(0..200).await;
        wait_until("all are delivered", PATIENCE, async || store.counts().await.unwrap().delivered == 200).await;
        // Only a poll can find this one: the next by the settings is an hour away.
        emitted.extend(behind.emit(200..201).await);
        wait_until("it is delivered", PATIENCE, async || store.counts().await.unwrap().delivered == 201).await;
        assert_eq!(sorted(place.got()), sorted(emitted));
        let relays = store.counts().await.unwrap().relays;
        assert_eq!(relays.iter().map(|relay| relay.idle).collect::<Vec<_>>(), [false], "nobody need notify it");
    })
    .await;
    drop(guard);
    let text = log.text();
    // The application's own pool may say that it was slow.
    let lines: Vec<&str> = text.lines().filter(|line| line.contains(" pillarbox::")).collect();
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert!(
        lines[0].contains("notifications do not arrive") && lines[0].contains("polling every 200ms instead"),
        "{lines:?}"
    );
}

/// Statements that the pooler tore apart would run each other's text.
#[tokio::test]
async fn statements_of_many_sessions_do_not_meet() {
    let behind = Behind::a_pooler().await;
    let stores = join_all((0..4).map(|_| behind.store())).await;
    stores[0].migrate().await.unwrap();
    let people =
        join_all((0..40).map(|order| stores[order % 4].emit(Event::new("Order", order, "order.placed")))).await;
    assert!(people.iter().all(Result::is_ok), "{people:?}");
    let busy = stores.iter().map(|store| async move {
        for _ in 0..25 {
            let heartbeat = Heartbeat {
                id: Uuid::new_v4(),
                host: "box-1".to_owned(),
                in_flight: 0,
                idle: false,
                configuration: None,
            };
            let all =
                tokio::join!(store.heartbeat(&heartbeat), store.remaining(), store.parked_kinds("a"), store.check());
            assert_eq!((all.0.unwrap(), all.1.unwrap(), all.2.unwrap(), all.3.unwrap()), ((), 40, Vec::new(), ()));
            store.farewell(heartbeat.id).await.unwrap();
        }
    });
    join_all(busy).await;
    assert_eq!(stores[0].counts().await.unwrap().relays.len(), 0);
    drop(stores);
    behind.application.close().await;
    behind.database.close().await;
}
