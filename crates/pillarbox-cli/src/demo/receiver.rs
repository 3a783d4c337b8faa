//! The demo's receiver: it fails at times, and has one outage.
//!
//! The seed, the order and the number of its request decide about each failure, so that a seed repeats the same failures.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde::Deserialize;
use tokio::sync::Notify;
use uuid::Uuid;

use super::tally::{Answer, Tally};
use crate::receiver;

/// The percentage of requests with the response 500.
const REFUSED: u32 = 10;
/// The percentage of requests with the response 503.
const UNAVAILABLE: u32 = 1;
/// The percentage of requests that are taken, with the response 500 nevertheless: the event will come again.
const TAKEN_AND_REFUSED: u32 = 2;
/// The time for one request, in milliseconds.
const WORK: std::ops::Range<u64> = 2..12;

pub(super) struct Receiver {
    server: receiver::Receiver,
    desk: Arc<Desk>,
}

struct Desk {
    seed: u64,
    down: AtomicBool,
    /// Notified when a request gets a 503 during the outage.
    turned_away: Notify,
    /// The number of requests of each order outside the outage.
    visits: Mutex<HashMap<u32, u64>>,
    tally: Arc<Tally>,
}

#[derive(Deserialize)]
struct Order {
    order: u32,
}

impl Receiver {
    pub(super) async fn start(seed: u64, tally: Arc<Tally>) -> anyhow::Result<Self> {
        let desk = Arc::new(Desk {
            seed,
            down: AtomicBool::new(false),
            turned_away: Notify::new(),
            visits: Mutex::default(),
            tally,
        });
        let answering = Arc::clone(&desk);
        let answer = move |headers, body| receive(Arc::clone(&answering), headers, body);
        let server = receiver::Receiver::start("/orders", answer).await?;
        Ok(Self { server, desk })
    }

    pub(super) fn url(&self) -> &str {
        self.server.url()
    }

    /// Responds 503 to every request for this time, and to at least one request, so that the outage is noticed.
    pub(super) fn go_down_for(&self, pause: Duration) {
        let desk = Arc::clone(&self.desk);
        desk.set_down(true);
        tokio::spawn(async move {
            tokio::time::sleep(pause).await;
            desk.turned_away.notified().await;
            desk.set_down(false);
        });
    }
}

impl Desk {
    fn set_down(&self, down: bool) {
        self.down.store(down, Ordering::Relaxed);
        self.tally.receiver_is_down(down);
    }

    /// Counts a request of this order and returns its number.
    fn visit(&self, order: u32) -> u64 {
        let mut visits = self.visits.lock().unwrap_or_else(PoisonError::into_inner);
        let visit = visits.entry(order).or_default();
        *visit += 1;
        *visit
    }

    fn answer(&self, order: u32) -> Answer {
        if self.down.load(Ordering::Relaxed) {
            self.turned_away.notify_one();
            return Answer::Unavailable;
        }
        let mut chance = StdRng::seed_from_u64(self.seed ^ (u64::from(order) << 32) ^ self.visit(order));
        match chance.random_range(0..100_u32) {
            n if n < REFUSED => Answer::Refused,
            n if n < REFUSED + UNAVAILABLE => Answer::Unavailable,
            n if n < REFUSED + UNAVAILABLE + TAKEN_AND_REFUSED => Answer::TakenAndRefused,
            _ => Answer::Taken,
        }
    }
}

async fn receive(desk: Arc<Desk>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let id: Option<Uuid> = headers.get("webhook-id").and_then(|id| id.to_str().ok()).and_then(|id| id.parse().ok());
    let (Some(id), Ok(Order { order })) = (id, serde_json::from_slice(&body)) else { return StatusCode::BAD_REQUEST };
    let work = Duration::from_millis(rand::rng().random_range(WORK));
    tokio::time::sleep(work).await;
    let answer = desk.answer(order);
    desk.tally.requested(id, answer);
    match answer {
        Answer::Taken => StatusCode::NO_CONTENT,
        Answer::Refused | Answer::TakenAndRefused => StatusCode::INTERNAL_SERVER_ERROR,
        Answer::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
    }
}
