//! Observers: they hear what happens to events, what became of them, and that the relay's loop turns.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use pillarbox::delivery::Verdict;
use pillarbox::relay::BreakerSettings;
use pillarbox::store::Minute;
use pillarbox::{Emitted, Event, Inspect, Observed, Observer, RelaySettings, RetryPolicy, SendError, StoredEvent};
use pillarbox_testkit::wait_until;

use crate::fixture::{Outbox, PATIENCE, Place, all_to, impatient, while_running};

#[derive(Default)]
struct Diary(Mutex<Vec<String>>);

impl Observer for Diary {
    fn created(&self, event: &Emitted) -> Observed {
        self.0.lock().unwrap().push(format!("created {}", event.event_type));
        Ok(())
    }

    fn sent(&self, event: &StoredEvent, destination: &str, _: Duration) -> Observed {
        self.0.lock().unwrap().push(format!("sent {} to {destination}", event.event_type));
        Ok(())
    }

    fn failed(&self, event: &StoredEvent, destination: &str, error: &SendError) -> Observed {
        self.0.lock().unwrap().push(format!("failed {} to {destination}: {error}", event.event_type));
        Err("an observer that errs".into())
    }

    fn dead_lettered(&self, event: &StoredEvent, error: &str) -> Observed {
        self.0.lock().unwrap().push(format!("dead {}: {error}", event.event_type));
        panic!("an observer that panics")
    }

    fn settled(&self, event: &StoredEvent, verdict: &Verdict) -> Observed {
        let retried = if verdict.retried_after().is_some() { " after a failure" } else { "" };
        let change = format!("{:?}", verdict.change);
        let change = change.split(' ').next().unwrap_or_default();
        self.0.lock().unwrap().push(format!("settled {}: {change}, {}{retried}", event.event_type, verdict.attempts));
        Ok(())
    }

    fn turned(&self) -> Observed {
        self.0.lock().unwrap().push("turned".to_owned());
        Ok(())
    }

    fn finished(&self, events: usize, _: Duration) -> Observed {
        self.0.lock().unwrap().push(format!("finished {events}"));
        Ok(())
    }
}

#[tokio::test]
async fn observers_hear_everything_and_harm_nothing() {
    let outbox = Outbox::new().await;
    let diary = Arc::new(Diary::default());
    let relay = outbox
        .relay()
        .handler("good", |_| async { Ok::<(), String>(()) })
        .handler("bad", |_| async { Err::<(), _>(SendError::reject("no")) })
        .observer(Arc::clone(&diary) as Arc<dyn Observer>)
        .build()
        .unwrap();
    let application = pillarbox::Outbox::eager(Arc::new(relay)).observer(Arc::clone(&diary) as Arc<dyn Observer>);

    let mut tx = outbox.store.pool().begin().await.unwrap();
    application.emit(&mut tx, Event::new("Order", 1, "good")).await.unwrap();
    application.emit(&mut tx, Event::new("Order", 1, "bad")).await.unwrap();
    application.commit(tx).await.unwrap();

    let diary = diary.0.lock().unwrap().clone();
    assert_eq!(diary[..2], ["created good", "created bad"]);
    assert!(diary.contains(&"sent good to handler good".to_owned()), "{diary:?}");
    assert!(diary.contains(&"failed bad to handler bad: no".to_owned()), "{diary:?}");
    let told = |what: &str| diary.iter().position(|line| line == what).unwrap_or_else(|| panic!("{what}: {diary:?}"));
    assert!(told("turned") < told("sent good to handler good"));
    assert!(told("dead bad: no") < told("settled bad: Fail, 1") && told("settled good: Deliver, 0") > 0);
    // One pass found both, and the next one nothing.
    assert_eq!(diary[diary.len() - 2..], ["finished 2", "turned"], "{diary:?}");
    assert_eq!((outbox.counts().await.delivered, outbox.counts().await.failed), (1, 1));
}

#[tokio::test]
async fn observers_can_tell_a_failed_attempt_from_an_outage_and_from_the_last_one() {
    let outbox = Outbox::new().await;
    let diary = Arc::new(Diary::default());
    let place = Place::down();
    let settings = RelaySettings { retry: RetryPolicy { max_attempts: 2, ..impatient().retry }, ..impatient() };
    let relay = outbox
        .relay()
        .settings(settings)
        .destination(place.as_destination("a"))
        .route(all_to("a"))
        .observer(Arc::clone(&diary) as Arc<dyn Observer>)
        .build()
        .unwrap();
    outbox.emit("x", 1).await;
    let pass = async || {
        diary.0.lock().unwrap().clear();
        relay.run_once().await.unwrap();
        diary.0.lock().unwrap().clone()
    };
    assert!(pass().await.contains(&"settled x: Retry, 0".to_owned()), "an outage uses no attempt");
    place.now(|_| Err(SendError::retry("no")));
    wait_until("the hiccup is over", PATIENCE, async || outbox.counts().await.due == 1).await;
    assert!(pass().await.contains(&"settled x: Retry, 1 after a failure".to_owned()));
    assert!(pass().await.contains(&"settled x: Fail, 2".to_owned()));
    assert_eq!(pass().await, ["turned"]);
}

#[tokio::test]
async fn what_destinations_did_is_written_down_for_people() {
    let outbox = Outbox::new().await;
    outbox.emit("order.placed", 3).await;
    outbox.emit("order.refused", 1).await;
    let place = Place::that(|message| match message.event_type.as_str() {
        "order.refused" => Err(SendError::reject("no such order")),
        _ => Ok(()),
    });
    let relay = outbox.relay().destination(place.as_destination("a")).route(all_to("a")).build().unwrap();
    while_running(&relay, async {
        wait_until("all are settled", PATIENCE, async || {
            let counts = outbox.counts().await;
            (counts.delivered, counts.failed) == (3, 1)
        })
        .await;
        let shown = outbox.store.relays().await.unwrap().remove(0);
        let own = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        assert_eq!((shown.host.as_str(), shown.configuration), (own.trim(), None), "the host's own name");
        let lanes = shown.lanes;
        assert_eq!((lanes[0].destination.as_str(), lanes[0].down), ("a", false));
    })
    .await;
    let minutes = outbox.store.minutes(chrono::DateTime::UNIX_EPOCH).await.unwrap();
    let total = |of: fn(&Minute) -> u64| minutes.iter().map(of).sum::<u64>();
    assert_eq!(
        (total(|minute| minute.delivered), total(|minute| minute.failed), total(|minute| minute.given_up)),
        (3, 1, 1)
    );
    assert_eq!(total(|minute| minute.latency.count()), 3);
    assert_eq!(total(|minute| minute.response.count()), 4, "a refusal is an answer, too");
    assert!(outbox.store.relays().await.unwrap().is_empty(), "it has said farewell");
}

#[tokio::test]
async fn an_outage_is_seen_with_its_beginning_its_next_probe_and_its_end() {
    let outbox = Outbox::new().await;
    outbox.emit("order.placed", 3).await;
    let place = Place::down();
    let breaker = BreakerSettings { base: Duration::from_secs(1), cap: Duration::from_secs(1), ..impatient().breaker };
    let settings = RelaySettings { breaker, ..impatient() };
    let destination = place.as_destination("a").concurrency(1);
    let relay = outbox.relay().settings(settings).destination(destination).route(all_to("a")).build().unwrap();
    let monitor = relay.monitor();
    let lane = || monitor.status().unwrap().destinations.remove(0);
    while_running(&relay, async {
        let began = chrono::Utc::now();
        wait_until("it is down", PATIENCE, async || lane().down).await;
        let seen = lane();
        assert!(seen.down_since.is_some_and(|since| since >= began && since <= chrono::Utc::now()), "{seen:?}");
        assert!(seen.probe_at > seen.down_since && !seen.limited, "{seen:?}");
        // Probes that fail do not begin a new outage.
        let asked = place.asked();
        wait_until("it is probed", PATIENCE, async || place.asked() > asked).await;
        wait_until("the next probe is known", PATIENCE, async || lane().probe_at > seen.probe_at).await;
        assert_eq!(lane().down_since, seen.down_since);
        // It answers 429: it is there, and wants less.
        place.now(|_| Err(SendError::unavailable("too many").answered(429, "").after(Some(Duration::from_millis(50)))));
        wait_until("it is limited", PATIENCE, async || lane().limited).await;
        place.now(|_| Ok(()));
        wait_until("all are delivered", PATIENCE, async || outbox.counts().await.delivered == 3).await;
        let seen = lane();
        assert_eq!((seen.down, seen.down_since, seen.probe_at), (false, None, None));
        assert!(seen.recovered_at > Some(began), "{seen:?}");
    })
    .await;
}

#[tokio::test]
async fn a_destination_whose_rate_holds_events_back_is_limited() {
    let outbox = Outbox::new().await;
    outbox.emit("order.placed", 30).await;
    let place = Place::fine();
    let destination = place.as_destination("a").rate(5.0);
    let relay = outbox.relay().destination(destination).route(all_to("a")).build().unwrap();
    let monitor = relay.monitor();
    while_running(&relay, async {
        wait_until("it is limited", PATIENCE, async || monitor.status().unwrap().destinations[0].limited).await;
        assert!(!monitor.status().unwrap().destinations[0].down);
    })
    .await;
}
