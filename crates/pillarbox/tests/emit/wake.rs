//! NOTIFY is sent by emit only when a relay has said that it is idle, and lately: it costs writers dearly.

use std::time::Duration;

use pillarbox::store::Heartbeat;
use pillarbox::{Event, Fleet, emit, emit_all};
use pillarbox_testkit::conformance::{Outbox, PostgresOutbox};
use sqlx::postgres::PgListener;
use uuid::Uuid;

/// Of emitting.
const WAYS: usize = 5;

struct Ear {
    outbox: PostgresOutbox,
    listener: PgListener,
}

impl Ear {
    async fn new() -> Self {
        let outbox = PostgresOutbox::create().await;
        let mut listener = PgListener::connect(&outbox.url()).await.unwrap();
        listener.listen("outbox_wake").await.unwrap();
        Self { outbox, listener }
    }

    /// How many notifications came since the last time: all of them stand before the word that is sent now.
    async fn heard(&mut self) -> usize {
        let word = Uuid::new_v4().to_string();
        sqlx::query("SELECT pg_notify('outbox_wake', $1)").bind(&word).execute(self.outbox.pool()).await.unwrap();
        let mut count = 0;
        while self.listener.recv().await.unwrap().payload() != word {
            count += 1;
        }
        count
    }

    /// Each statement that emits has its own gate: one event or many, with keys of their own or given ones, and SQL.
    async fn emit_in_every_way(&self) {
        for many in [1, 2] {
            for own in [true, false] {
                let event = || {
                    let event = Event::new("Order", 1, "order.placed");
                    if own { event.repeatable() } else { event.idempotency_key(Uuid::new_v4()) }
                };
                let mut tx = self.outbox.pool().begin().await.unwrap();
                if many == 1 {
                    emit(&mut tx, event()).await.unwrap();
                } else {
                    emit_all(&mut tx, (0..many).map(|_| event())).await.unwrap();
                }
                tx.commit().await.unwrap();
            }
        }
        sqlx::query("SELECT outbox_emit('Order', '1', 'order.placed', idempotency_key => $1)")
            .bind(Uuid::new_v4().to_string())
            .execute(self.outbox.pool())
            .await
            .unwrap();
    }

    async fn heartbeat(&self, id: Uuid, idle: bool) {
        let heartbeat = Heartbeat { id, host: "box-1".to_owned(), in_flight: 0, idle, configuration: None };
        self.outbox.postgres().heartbeat(&heartbeat).await.unwrap();
    }
}

#[tokio::test]
async fn an_idle_relay_is_notified_and_a_busy_or_dead_one_is_not() {
    let mut ear = Ear::new().await;
    let relay = Uuid::new_v4();
    ear.emit_in_every_way().await;
    assert_eq!(ear.heard().await, 0, "no relay");
    ear.heartbeat(relay, false).await;
    ear.emit_in_every_way().await;
    assert_eq!(ear.heard().await, 0, "a busy relay");
    ear.heartbeat(relay, true).await;
    ear.emit_in_every_way().await;
    assert_eq!(ear.heard().await, WAYS, "an idle relay, once for each way of emitting");
    ear.outbox.age_relay(relay, Duration::from_secs(60)).await;
    ear.emit_in_every_way().await;
    assert_eq!(ear.heard().await, 0, "a relay that has not said for a while that it lives");
}

#[tokio::test]
async fn one_of_several_that_is_idle_is_enough() {
    let mut ear = Ear::new().await;
    let [one, other] = [Uuid::new_v4(), Uuid::new_v4()];
    ear.heartbeat(one, true).await;
    ear.heartbeat(other, true).await;
    ear.heartbeat(one, false).await;
    ear.emit_in_every_way().await;
    assert_eq!(ear.heard().await, WAYS, "the other is idle still");
    ear.heartbeat(one, true).await;
    ear.outbox.postgres().farewell(other).await.unwrap();
    ear.emit_in_every_way().await;
    assert_eq!(ear.heard().await, WAYS, "one is idle again");
    ear.outbox.postgres().farewell(one).await.unwrap();
    ear.emit_in_every_way().await;
    assert_eq!(ear.heard().await, 0, "both are gone");
}

#[tokio::test]
async fn what_is_not_emitted_notifies_nobody() {
    let mut ear = Ear::new().await;
    ear.heartbeat(Uuid::new_v4(), true).await;
    let mut tx = ear.outbox.pool().begin().await.unwrap();
    emit(&mut tx, Event::new("Order", 1, "order.placed")).await.unwrap();
    tx.rollback().await.unwrap();
    assert_eq!(ear.heard().await, 0, "rolled back");

    let outbox: &dyn Outbox = &ear.outbox;
    outbox.emit_event(Event::new("Order", 1, "order.placed")).await;
    assert_eq!(ear.heard().await, 1);
    let mut tx = ear.outbox.pool().begin().await.unwrap();
    emit(&mut tx, Event::new("Order", 1, "order.placed")).await.unwrap_err();
    tx.commit().await.unwrap();
    assert_eq!(ear.heard().await, 0, "a duplicate");
}

#[tokio::test]
async fn many_events_and_many_relays_are_one_notification() {
    let mut ear = Ear::new().await;
    for _ in 0..3 {
        ear.heartbeat(Uuid::new_v4(), true).await;
    }
    let outbox: &dyn Outbox = &ear.outbox;
    outbox.emit_many(50).await;
    assert_eq!(ear.heard().await, 1);
}
