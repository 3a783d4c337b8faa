//! The demo: an application, an outbox, a relay and a receiver in one process, and a check of what arrived.
//!
//! Everything is real: SQLite in a temporary directory or a database that a person names, HTTP over loopback, and the relay of
//! `pillarbox relay`, only with shorter delays.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use pillarbox::relay::BreakerSettings;
use pillarbox::{Destination, Outbox, Relay, RelaySettings, RetryPolicy, Route};
use pillarbox_sinks::http::{HttpSettings, HttpSink};
use tokio::sync::oneshot;

use self::board::Board;
use self::place::Place;
use self::receiver::Receiver;
use self::shop::Shop;
use self::tally::Tally;
pub(crate) use self::verdict::Verdict;
use crate::config::database::Database;

mod board;
mod place;
mod receiver;
mod shop;
mod tally;
mod verdict;

/// The timeout for all deliveries after the last order.
const PATIENCE: Duration = Duration::from_secs(15);
/// The timeout for the open deliveries of a demo that was stopped, on a database that stays.
const FAREWELL: Duration = Duration::from_secs(3);

/// The parameters of the demo.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Play {
    /// The number of orders that customers place; some are rolled back.
    pub(crate) orders: u32,
    /// The seed that decides which orders are rolled back and which requests fail.
    pub(crate) seed: u64,
}

/// The form of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Show {
    /// Redrawn in place.
    Live {
        colours: bool,
    },
    /// A line at intervals.
    Lines,
    Nothing,
}

/// The end of a demo.
#[derive(Debug)]
pub(crate) struct Ended {
    /// The result; `None` if the demo was stopped.
    pub(crate) verdict: Option<Verdict>,
    /// What the demo has left in a database that stays.
    pub(crate) left: Option<String>,
}

/// Runs the demo, until `stop` completes, on a named database or on a temporary one.
pub(crate) async fn run(
    play: Play,
    show: Show,
    database: Option<&Database>,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<Ended> {
    let place = Place::open(database).await?;
    let verdict = run_in(&place, play, show, stop).await;
    let left = place.leave().await;
    Ok(Ended { verdict: verdict?, left: left? })
}

async fn run_in(
    place: &Place,
    play: Play,
    show: Show,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<Option<Verdict>> {
    let began = Instant::now();
    let tally = Arc::new(Tally::new(play));
    let receiver = Receiver::start(play.seed, Arc::clone(&tally)).await?;
    let relay = Arc::new(relay(place, &receiver, &tally)?);
    let outbox = Outbox::waking(relay.waker());
    let shop = Shop::open(&place.pool, outbox, Arc::clone(&tally)).await?;

    let (enough, told) = oneshot::channel::<()>();
    let relaying = tokio::spawn({
        let relay = Arc::clone(&relay);
        async move {
            // A dropped sender also stops the relay.
            let told = async { drop(told.await) };
            relay.run(told).await
        }
    });
    let mut board = Board::new(show, Arc::clone(&tally));
    let played = async {
        shop.sell(play, &receiver).await?;
        // The verdict reports events that have not arrived by then.
        let _ = tokio::time::timeout(PATIENCE, tally.all_delivered()).await;
        anyhow::Ok(())
    };
    let ended = tokio::select! {
        played = played => played.map(|()| true),
        shown = board.keep_showing() => shown.map(|()| false),
        () = stop => Ok(false),
    };
    if place.stays() && !matches!(ended, Ok(true)) {
        let _ = tokio::time::timeout(FAREWELL, tally.all_delivered()).await;
    }
    drop(enough);
    relaying.await.context("the relay failed")??;
    let orders = shop.orders().await;
    shop.close().await?;
    let ended = ended?;
    board.finish()?;
    if !ended {
        return Ok(None);
    }
    let counts = place.opened.inspect().counts().await?;
    Ok(Some(tally.verdict(orders?, &counts, began.elapsed())))
}

/// Returns a relay as the configuration would make it, with short delays.
fn relay(place: &Place, receiver: &Receiver, tally: &Arc<Tally>) -> anyhow::Result<Relay> {
    let to_receiver = HttpSettings { allow_private: true, ..HttpSettings::new(receiver.url()) };
    let settings = RelaySettings {
        retry: RetryPolicy {
            base: Duration::from_millis(300),
            cap: Duration::from_secs(2),
            jitter: 0.5,
            max_attempts: 0,
        },
        breaker: BreakerSettings {
            base: Duration::from_millis(250),
            cap: Duration::from_millis(500),
            ..BreakerSettings::default()
        },
        batch_size: 50,
        cleanup_every: None,
        ..RelaySettings::default()
    };
    let relay = Relay::builder(place.opened.store())
        .settings(settings)
        .destination(Destination::new("receiver", HttpSink::new(to_receiver)?).concurrency(8))
        .route(Route::new("order.*", ["receiver"]))
        .observer(Arc::clone(tally) as Arc<dyn pillarbox::Observer>)
        .build()?;
    Ok(relay)
}
