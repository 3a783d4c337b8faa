//! One event to HTTP, Kafka and Celery at once, while one of them is down: each ends right, and the pages show it.

use pillarbox_testkit::brokers::{Broker, KafkaBroker};
use pillarbox_testkit::process::Program;
use pillarbox_testkit::receiver::{Answer, Receiver};
use pillarbox_testkit::redis::Redis;
use pillarbox_testkit::wait_until;

use crate::access::address;
use crate::celery::in_redis;
use crate::client::Client;
use crate::delivering::PATIENCE;
use crate::home::Home;

/// Returns the status of each delivery of an event, sorted by destination.
fn deliveries(home: &Home, id: &str) -> Vec<(String, String)> {
    let shown = home.json(&["events", "show", id]);
    let mut states: Vec<(String, String)> = shown["deliveries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|delivery| (delivery["destination"].as_str().unwrap(), delivery["status"].as_str().unwrap()))
        .map(|(destination, state)| (destination.to_owned(), state.to_owned()))
        .collect();
    states.sort();
    states
}

#[tokio::test(flavor = "multi_thread")]
async fn one_destination_that_is_down_holds_up_no_other() {
    let (receiver, kafka, redis) = (Receiver::start().await, KafkaBroker::start().await, Redis::start().await);
    receiver.answer_with(|_| Answer::status(503));
    let home = Home::with_config(&format!(
        "[relay]\npoll_interval = \"50ms\"\n[relay.breaker]\nbase = \"100ms\"\ncap = \"200ms\"\n\
         [destinations.billing]\nkind = \"http\"\nurl = \"{}\"\nallow_private = true\n\
         [destinations.events]\n{}\n\
         [destinations.workers]\nkind = \"celery\"\nbroker = \"{}\"\n\
         [[routes]]\nevents = \"*\"\nto = [\"billing\", \"events\", \"workers\"]\n",
        receiver.url("/in"),
        kafka.keys(),
        redis.url(),
    ));
    let id = home.emit("42", &[]);
    let mut command = home.command(&["relay"]);
    command.env("PILLARBOX_ADMIN_LISTEN", "127.0.0.1:0");
    let relay = Program::start(command);
    let waits = ["billing pending", "events delivered", "workers delivered"];
    wait_until("two are delivered and one waits", PATIENCE, async || {
        let states: Vec<_> =
            deliveries(&home, &id).into_iter().map(|(name, state)| format!("{name} {state}")).collect();
        states == waits
    })
    .await;
    assert_eq!((kafka.received().await.len(), in_redis(&redis, "celery").await.len()), (1, 1));
    let page = Client::new(&address(&relay).await).get(&format!("/events/{id}")).await;
    assert_eq!(page.status, 200, "{page:?}");
    for text in ["billing", "events", "workers", "503"] {
        assert!(page.body.contains(text), "{text} in {}", page.body);
    }

    receiver.answer_with(|_| Answer::ok());
    wait_until("it is delivered", PATIENCE, async || home.state(&id) == "delivered").await;
    assert_eq!(deliveries(&home, &id).len(), 3);
    assert!(deliveries(&home, &id).iter().all(|(_, state)| state == "delivered"));
    assert_eq!((kafka.received().await.len(), in_redis(&redis, "celery").await.len()), (1, 1), "none was sent again");
}
