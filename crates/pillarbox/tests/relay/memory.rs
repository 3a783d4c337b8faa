//! What a relay holds is bounded by bytes as well as by events.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pillarbox::{Destination, Event, Relay, RelaySettings};
use pillarbox_testkit::wait_until;

use crate::fixture::{Gate, Outbox, PATIENCE, all_to, impatient, while_running};
use crate::settling::Flaky;

#[tokio::test]
async fn large_events_for_a_slow_destination_are_claimed_no_further_than_the_bytes_allow() {
    const BOUND: usize = 1024 * 1024;
    const EVENTS: usize = 60;
    let bulk = "x".repeat(128 * 1024 - 2);
    let outbox = Outbox::new().await;
    outbox.emit_events((0..EVENTS).map(|n| Event::new("File", n, "file.stored").payload(&bulk))).await;
    let store = Flaky::over(&outbox);
    let (held, most_held) = (Arc::clone(&store.held), Arc::clone(&store.most_held));
    let gate = Gate::closed();
    let relay = Relay::builder(Arc::new(store))
        .settings(RelaySettings { bytes_in_flight: BOUND, ..impatient() })
        .destination(Destination::new("a", gate.clone()).concurrency(4))
        .route(all_to("a"))
        .build()
        .unwrap();
    while_running(&relay, async {
        wait_until("four are inside", PATIENCE, async || gate.inside.load(Ordering::SeqCst) == 4).await;
        for delivered in 1..=EVENTS {
            gate.open.add_permits(1);
            wait_until("one more is delivered", PATIENCE, async || outbox.counts().await.delivered >= delivered as u64)
                .await;
        }
    })
    .await;
    let most = most_held.load(Ordering::SeqCst);
    assert!(most <= BOUND + bulk.len() + 2, "{most} bytes were held");
    assert!(most > BOUND / 2, "it claims ahead");
    assert_eq!(held.load(Ordering::SeqCst), 0);
}
