//! The end of a relay, whatever is under way: nothing stays leased, nothing goes on behind its back, nothing hangs.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pillarbox::Relay;
use pillarbox_testkit::wait_until;

use crate::fixture::{Outbox, PATIENCE, Place, all_to, impatient, while_running};
use crate::settling::Flaky;

#[tokio::test]
async fn a_relay_that_stops_in_an_outage_gives_its_probe_back() {
    let outbox = Outbox::new().await;
    outbox.emit("order.placed", 1).await;
    let store = Flaky::over(&outbox);
    let fails = Arc::clone(&store.fails);
    let place = Place::down();
    let relay = Relay::builder(Arc::new(store))
        .settings(impatient())
        .destination(place.as_destination("a"))
        .route(all_to("a"))
        .build()
        .unwrap();
    while_running(&relay, async {
        wait_until("it is probed", PATIENCE, async || place.asked() >= 5).await;
        // A settle that does not succeed at once shows whether it is waited for.
        fails.store(2, Ordering::SeqCst);
    })
    .await;
    let counts = outbox.counts().await;
    assert_eq!((counts.sending, counts.parked.len()), (0, 1));
}
