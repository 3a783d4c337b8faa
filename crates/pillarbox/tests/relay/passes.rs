//! One pass at a time: routing, retries, dead letters, fan-out, eager mode.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use pillarbox::relay::BreakerSettings;
use pillarbox::sink::Receipt;
use pillarbox::store::{AttemptView, Entry, Retention, Retried, Selection, State};
use pillarbox::{
    Destination, Event, Inspect, Message, OnDelivered, Pass, RecordAttempts, RelaySettings, RetryPolicy, Route,
    SendError, Sink, Status, Unrouted,
};
use sqlx::AssertSqlSafe;

use crate::fixture::{Outbox, Place, all_to, impatient, sorted};

#[tokio::test]
async fn a_pass_answers_what_it_processed_and_what_remains() {
    let outbox = Outbox::new().await;
    let ids = outbox.emit("order.placed", 5).await;
    let place = Place::fine();
    let settings = RelaySettings { batch_size: 3, ..impatient() };
    let relay =
        outbox.relay().settings(settings).destination(place.as_destination("a")).route(all_to("a")).build().unwrap();
    assert_eq!(relay.run_once().await.unwrap(), Pass { processed: 3, remaining: 2 });
    assert_eq!(relay.drain().await.unwrap(), Pass { processed: 2, remaining: 0 });
    assert_eq!(sorted(place.got()), sorted(ids.clone()));
    let event = outbox.get(ids[0]).await.event;
    assert_eq!((event.status, event.next_attempt_at), (Status::Delivered, None));
    assert!(event.delivered_at.is_some());
}

#[tokio::test]
async fn handlers_get_the_events_of_their_pattern_and_the_first_that_matches_decides() {
    let outbox = Outbox::new().await;
    outbox
        .emit_events([
            Event::new("Order", 1, "order.placed").payload([1]),
            Event::new("Order", 1, "order.line.added").payload([2]),
            Event::new("User", 1, "user.created").payload([3]),
        ])
        .await;
    let (orders, rest) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counting = |counter: &Arc<AtomicUsize>| {
        let counter = Arc::clone(counter);
        move |message: Message| {
            let counter = Arc::clone(&counter);
            async move {
                let [number]: [usize; 1] = message.payload_as().map_err(|error| error.to_string())?;
                counter.fetch_add(number, Ordering::SeqCst);
                Ok::<(), String>(())
            }
        }
    };
    let relay = outbox.relay().handler("order.*", counting(&orders)).handler("*", counting(&rest)).build().unwrap();
    relay.drain().await.unwrap();
    assert_eq!((orders.load(Ordering::SeqCst), rest.load(Ordering::SeqCst)), (3, 3));
}

#[tokio::test]
async fn a_failing_event_is_retried_until_it_is_a_dead_letter_and_people_can_retry_it() {
    let outbox = Outbox::new().await;
    let id = outbox.emit("order.placed", 1).await[0];
    let place = Place::that(|message| Err(SendError::retry(format!("no, not at attempt {}", message.attempt()))));
    let relay = outbox.relay().destination(place.as_destination("a")).route(all_to("a")).build().unwrap();
    relay.drain().await.unwrap();

    let event = outbox.get(id).await;
    assert_eq!((event.event.status, event.event.attempts), (Status::Failed, 5));
    assert_eq!(event.event.error_message, "no, not at attempt 5");
    let errors: Vec<&str> = event.failed_attempts.iter().map(|attempt| attempt.error.as_str()).collect();
    assert_eq!(errors.len(), 5);
    assert_eq!(errors[0], "no, not at attempt 1");

    place.now(|_| Ok(()));
    let answer = outbox.store.retry(&Selection::Ids(vec![id]), Entry::Anew { who: "ann", target: "it" }).await.unwrap();
    assert_eq!(answer, [(id, Retried::Due)]);
    relay.drain().await.unwrap();
    assert_eq!(outbox.get(id).await.event.status, Status::Delivered);
}

/// Confirms everything with a status code.
struct Accepting(u16);

#[async_trait]
impl Sink for Accepting {
    async fn send(&self, batch: &[Message]) -> Vec<Result<(), SendError>> {
        vec![Ok(()); batch.len()]
    }

    async fn send_for_receipts(&self, batch: &[Message]) -> Vec<Result<Receipt, SendError>> {
        vec![Ok(Receipt::with_status(self.0)); batch.len()]
    }
}

#[tokio::test]
async fn successful_attempts_are_recorded_only_if_the_relay_is_told_to() {
    let outbox = Outbox::new().await;
    let once = Place::that(|message| match message.attempt() {
        1 => Err(SendError::retry("not yet")),
        _ => Ok(()),
    });
    for (record_attempts, recorded) in [(RecordAttempts::Failed, false), (RecordAttempts::All, true)] {
        let ids = outbox.emit("order.placed", 3).await;
        let settings = RelaySettings { record_attempts, ..impatient() };
        let relay = outbox
            .relay()
            .settings(settings)
            .destination(Destination::new("accepting", Accepting(202)))
            .destination(once.as_destination("once"))
            .route(Route::new("*", ["accepting", "once"]))
            .build()
            .unwrap();
        relay.drain().await.unwrap();
        for id in ids {
            let event = outbox.get(id).await;
            assert_eq!((event.event.status, event.failed_attempts.len()), (Status::Delivered, 1));
            let told = |attempt: &AttemptView| (attempt.number, attempt.destination.clone(), attempt.status_code);
            let told: Vec<_> = event.delivered_attempts.iter().map(told).collect();
            let all = [(2, "accepting".to_owned(), Some(202)), (3, "once".to_owned(), None)];
            assert_eq!(told, if recorded { &all[..] } else { &[] });
        }
    }
}

#[tokio::test]
async fn an_event_that_is_deleted_records_no_attempt() {
    let outbox = Outbox::new().await;
    outbox.emit("order.placed", 3).await;
    let settings =
        RelaySettings { record_attempts: RecordAttempts::All, on_delivered: OnDelivered::Delete, ..impatient() };
    let place = Destination::new("accepting", Accepting(202));
    let relay = outbox.relay().settings(settings).destination(place).route(all_to("accepting")).build().unwrap();
    relay.drain().await.unwrap();
    for table in ["outbox_event", "outbox_attempt"] {
        let count = AssertSqlSafe(format!("SELECT count(*) FROM {table}"));
        let rows: i64 = sqlx::query_scalar(count).fetch_one(outbox.store.pool()).await.unwrap();
        assert_eq!(rows, 0, "{table}");
    }
}

#[tokio::test]
async fn a_retry_waits_for_its_backoff_and_a_rejection_does_not_wait() {
    let outbox = Outbox::new().await;
    let later = outbox.emit("later", 1).await[0];
    let never = outbox.emit("never", 1).await[0];
    let settings = RelaySettings { retry: RetryPolicy::default(), ..impatient() };
    let relay = outbox
        .relay()
        .settings(settings)
        .handler("later", |_| async { Err::<(), _>("try later") })
        .handler("never", |_| async { Err::<(), _>(SendError::reject("gone")) })
        .build()
        .unwrap();
    relay.drain().await.unwrap();
    let later = outbox.get(later).await.event;
    assert_eq!((later.state, later.attempts), (State::Scheduled, 1));
    let wait = (later.next_attempt_at.unwrap() - later.updated_at).num_seconds();
    assert!((60..=66).contains(&wait), "{wait}");
    let never = outbox.get(never).await.event;
    assert_eq!((never.status, never.attempts), (Status::Failed, 1));
}

#[tokio::test]
async fn an_events_own_limit_counts() {
    let outbox = Outbox::new().await;
    let ids = outbox
        .emit_events([Event::new("Order", 1, "a").max_attempts(1), Event::new("Order", 1, "b").max_attempts(2)])
        .await;
    let place = Place::that(|_| Err(SendError::retry("no")));
    let relay = outbox.relay().destination(place.as_destination("a")).route(all_to("a")).build().unwrap();
    relay.drain().await.unwrap();
    assert_eq!(outbox.get(ids[0]).await.event.attempts, 1);
    assert_eq!(outbox.get(ids[1]).await.event.attempts, 2);
}

#[tokio::test]
async fn a_panic_in_a_handler_is_a_failed_attempt_and_harms_no_other_event() {
    let outbox = Outbox::new().await;
    let id = outbox.emit("bad", 1).await[0];
    outbox.emit("good", 3).await;
    let place = Place::fine();
    let relay = outbox
        .relay()
        .handler("bad", |_| async { if true { panic!("on purpose") } else { Ok::<(), String>(()) } })
        .destination(place.as_destination("good"))
        .route(Route::new("good", ["good"]))
        .build()
        .unwrap();
    relay.drain().await.unwrap();
    let bad = outbox.get(id).await.event;
    assert_eq!((bad.status, bad.error_message.as_str()), (Status::Failed, "the handler panicked: on purpose"));
    assert_eq!(place.got().len(), 3);
}

#[tokio::test]
async fn an_event_without_a_route_waits_visibly_until_there_is_one() {
    let outbox = Outbox::new().await;
    let id = outbox.emit("user.created", 1).await[0];
    let place = Place::fine();
    let orders =
        outbox.relay().destination(place.as_destination("a")).route(Route::new("order.*", ["a"])).build().unwrap();
    assert_eq!(orders.drain().await.unwrap().processed, 1);
    let parked = outbox.get(id).await.event;
    assert_eq!((parked.state, parked.parked_on.as_deref()), (State::Parked, Some("unrouted")));
    assert!(parked.error_message.contains("no route matches \"user.created\""), "{}", parked.error_message);
    assert_eq!(orders.drain().await.unwrap().processed, 0);

    let everything = outbox.relay().destination(place.as_destination("a")).route(all_to("a")).build().unwrap();
    everything.drain().await.unwrap();
    assert_eq!(place.got(), [id]);
}

#[tokio::test]
async fn unrouted_events_can_be_discarded_instead() {
    let outbox = Outbox::new().await;
    let id = outbox.emit("user.created", 1).await[0];
    let settings = RelaySettings { unrouted: Unrouted::Discard, ..impatient() };
    let relay = outbox.relay().settings(settings).build().unwrap();
    relay.drain().await.unwrap();
    assert_eq!(outbox.get(id).await.event.status, Status::Delivered);
}

#[tokio::test]
async fn a_fan_out_resends_only_to_those_that_do_not_have_it() {
    let outbox = Outbox::new().await;
    let id = outbox.emit("order.placed", 1).await[0];
    let (fine, shaky) = (Place::fine(), Place::that(|_| Err(SendError::retry("not yet"))));
    let relay = outbox
        .relay()
        .destination(fine.as_destination("fine"))
        .destination(shaky.as_destination("shaky"))
        .route(Route::new("*", ["fine", "shaky"]))
        .build()
        .unwrap();
    relay.run_once().await.unwrap();
    let event = outbox.get(id).await;
    assert_eq!((event.event.status, event.event.attempts), (Status::Pending, 1));
    assert_eq!(event.event.error_message, "shaky: not yet");
    let states: Vec<_> = event.deliveries.iter().map(|row| (row.destination.as_str(), row.status)).collect();
    assert_eq!(states, [("fine", Status::Delivered), ("shaky", Status::Pending)]);

    shaky.now(|_| Ok(()));
    relay.drain().await.unwrap();
    assert_eq!(outbox.get(id).await.event.status, Status::Delivered);
    assert_eq!((fine.got(), shaky.got()), (vec![id], vec![id]));
    assert_eq!((fine.asked(), shaky.asked()), (1, 2));
}

#[tokio::test]
async fn delivered_events_can_be_deleted_at_once() {
    let outbox = Outbox::new().await;
    let ids = outbox.emit("order.placed", 3).await;
    let settings = RelaySettings { on_delivered: OnDelivered::Delete, ..impatient() };
    let place = Place::fine();
    let relay =
        outbox.relay().settings(settings).destination(place.as_destination("a")).route(all_to("a")).build().unwrap();
    relay.drain().await.unwrap();
    assert_eq!(place.got().len(), 3);
    assert!(outbox.store.get(ids[0]).await.unwrap().is_none());
}

#[tokio::test]
async fn eager_mode_delivers_before_the_commit_returns_and_never_raises() {
    let outbox = Outbox::new().await;
    let place = Place::fine();
    let relay = outbox.relay().destination(place.as_destination("a")).route(all_to("a")).build().unwrap();
    let application = pillarbox::Outbox::eager(Arc::new(relay));

    let mut tx = outbox.store.pool().begin().await.unwrap();
    application.emit(&mut tx, Event::new("Order", 1, "order.placed")).await.unwrap();
    application.commit(tx).await.unwrap();
    assert_eq!(place.got().len(), 1);

    place.now(|_| Err(SendError::reject("no")));
    let mut tx = outbox.store.pool().begin().await.unwrap();
    application.emit(&mut tx, Event::new("Order", 2, "order.placed")).await.unwrap();
    application.commit(tx).await.expect("a failed delivery is not the caller's");

    let mut tx = outbox.store.pool().begin().await.unwrap();
    application.emit(&mut tx, Event::new("Order", 3, "order.placed")).await.unwrap();
    tx.rollback().await.unwrap();
    application.committed().await;
    assert_eq!((place.asked(), outbox.counts().await.failed), (2, 1));
}

#[tokio::test]
async fn what_cannot_work_is_refused_when_the_relay_is_built() {
    let outbox = Outbox::new().await;
    let refusal = |builder: pillarbox::RelayBuilder| builder.build().err().expect("it is refused").to_string();
    let error = refusal(outbox.relay().destination(Place::fine().as_destination("a")).route(all_to("b")));
    assert_eq!(error, "the route for \"*\" goes to \"b\", which is not a destination; choose one of: a");
    let two =
        outbox.relay().destination(Place::fine().as_destination("a")).destination(Place::fine().as_destination("a"));
    assert!(refusal(two).contains("two destinations named \"a\""));
    let twice = outbox.relay().destination(Place::fine().as_destination("a")).route(Route::new("*", ["a", "a"]));
    assert!(refusal(twice).contains("route.to is \"a\": the route lists it twice"));
    let retention = Retention { batch: 0, ..Retention::default() };
    let endless = outbox.relay().settings(RelaySettings { retention, ..impatient() });
    assert!(refusal(endless).contains("relay.cleanup.batch is 0: it must be at least 1"));
    let breaker = BreakerSettings { base: Duration::ZERO, ..BreakerSettings::default() };
    let restless = outbox.relay().settings(RelaySettings { breaker, ..impatient() });
    assert!(refusal(restless).contains("probed without a pause"));
    let settings = RelaySettings { lease: Duration::from_secs(10), ..impatient() };
    let short = outbox.relay().settings(settings).destination(Place::fine().as_destination("a"));
    assert!(refusal(short).contains("raise relay.lease or lower the timeout"));
    assert!(
        refusal(outbox.relay().destination(Place::fine().as_destination("unrouted"))).contains("choose another name")
    );
}
