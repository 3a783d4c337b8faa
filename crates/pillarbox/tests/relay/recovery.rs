//! What goes wrong for a while leaves nothing behind: no destination is forgotten, no event waits for ever.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use pillarbox::{Relay, Route, emit};
use pillarbox_testkit::wait_until;

use crate::fixture::{Outbox, PATIENCE, Place, impatient, while_running};
use crate::settling::Flaky;

#[tokio::test]
async fn a_database_that_is_away_for_a_while_leaves_no_destination_congested() {
    let outbox = Outbox::new().await;
    let store = Flaky::over(&outbox);
    // Long enough that the claim loop loses its patience and looks for room.
    store.fails.store(5, Ordering::SeqCst);
    let (one, two) = (Place::fine(), Place::fine());
    let relay = Relay::builder(Arc::new(store))
        .settings(impatient())
        .destination(one.as_destination("one"))
        .destination(two.as_destination("two"))
        .route(Route::new("to.one", ["one"]))
        .route(Route::new("to.two", ["two"]))
        .build()
        .unwrap();
    outbox.emit("to.one", 1).await;
    while_running(&relay, async {
        wait_until("it is settled at last", PATIENCE, async || outbox.counts().await.delivered == 1).await;
        outbox.emit("to.one", 5).await;
        outbox.emit("to.two", 5).await;
        wait_until("both have got theirs", PATIENCE, async || outbox.counts().await.delivered == 11).await;
    })
    .await;
}
