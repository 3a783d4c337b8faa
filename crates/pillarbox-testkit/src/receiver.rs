//! The receiving side of an HTTP delivery: a loopback receiver that records every request and responds as a test says.

mod answer;
mod book;
mod line;

use std::collections::HashMap;
use std::future::pending;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use axum::Router;
use axum::body::{self, Bytes};
use axum::extract::{ConnectInfo, Request, State};
use axum::http::HeaderMap;
use axum::response::Response;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time;
use uuid::Uuid;

pub use answer::{Answer, Reply};
use book::{Book, Seen};
use line::{Door, Line, Lines};

use crate::port;

/// A request as it arrived.
#[derive(Debug, Clone)]
pub struct Received {
    /// The path of the URL.
    pub path: String,
    /// The event's id from the header `webhook-id`, if there is one.
    pub id: Option<Uuid>,
    /// All headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// When the request had arrived completely.
    pub at: Instant,
}

/// An HTTP receiver on a loopback port of its own. It responds with 200 by default, and ends when it is dropped.
#[derive(Debug)]
pub struct Receiver {
    address: SocketAddr,
    book: Arc<Book>,
    serving: Mutex<Option<Serving>>,
}

impl Receiver {
    /// Starts a receiver that keeps every request.
    ///
    /// # Panics
    /// Outside of a tokio runtime, or when no port is free.
    pub async fn start() -> Self {
        Self::open(Book::keeping()).await
    }

    /// Starts a receiver that only counts, for measurements: [`received`](Self::received) stays empty.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    pub async fn start_counting() -> Self {
        Self::open(Book::counting()).await
    }

    async fn open(book: Book) -> Self {
        let listener = port::bind();
        let address = listener.local_addr().expect("a bound listener has an address");
        listener.set_nonblocking(true).expect("a listener can be made non-blocking");
        let listener = TcpListener::from_std(listener).expect("a tokio runtime is running");
        let book = Arc::new(book);
        let serving = Mutex::new(Some(Serving::start(listener, Arc::clone(&book))));
        Self { address, book, serving }
    }

    /// Returns the URL of `path` on this receiver.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}/{}", self.address, path.trim_start_matches('/'))
    }

    /// Returns its host and port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Responds to every further request as `script` decides.
    pub fn answer_with(&self, script: impl Fn(&Received) -> Answer + Send + Sync + 'static) {
        self.book.answer_with(Arc::new(script));
    }

    /// Returns all requests, in the order of their arrival.
    pub fn received(&self) -> Vec<Received> {
        self.book.received()
    }

    /// Returns the number of requests, whatever the responses were.
    pub fn count(&self) -> usize {
        self.book.seen().borrow().requests
    }

    /// Returns the number of distinct ids.
    pub fn distinct(&self) -> usize {
        self.book.seen().borrow().ids
    }

    /// Returns the number of requests per id: more than one means a repeated delivery.
    pub fn requests_by_id(&self) -> HashMap<Uuid, u32> {
        self.book.by_id(|tally| tally.requests)
    }

    /// Returns the number of successful responses per id; an id without one is absent.
    pub fn accepted_by_id(&self) -> HashMap<Uuid, u32> {
        self.book.by_id(|tally| tally.accepted)
    }

    /// Waits until at least `wanted` requests arrived. The error says how many did within `timeout`.
    pub async fn wait_for(&self, wanted: usize, timeout: Duration) -> Result<()> {
        self.wait(timeout, wanted, "requests", |seen| seen.requests).await
    }

    /// Waits until at least `wanted` distinct ids arrived. The error says how many did within `timeout`.
    pub async fn wait_for_distinct(&self, wanted: usize, timeout: Duration) -> Result<()> {
        self.wait(timeout, wanted, "different ids", |seen| seen.ids).await
    }

    async fn wait(&self, timeout: Duration, wanted: usize, what: &str, count: fn(&Seen) -> usize) -> Result<()> {
        let mut seen = self.book.seen();
        let enough = time::timeout(timeout, seen.wait_for(|seen| count(seen) >= wanted)).await.is_ok();
        if !enough {
            bail!("{} of {wanted} {what} came in within {timeout:?}", count(&seen.borrow()));
        }
        Ok(())
    }

    /// Begins an outage: breaks every connection and refuses new ones. Recorded requests are kept.
    pub async fn stop(&self) {
        let serving = self.serving.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut serving) = serving {
            serving.end();
            // The port is free only when the task is gone. Its error is the expected cancellation.
            let _ = (&mut serving.task).await;
        }
    }

    /// Ends an outage: listens again on the same port.
    ///
    /// # Panics
    /// When another process has taken the port.
    pub async fn restart(&self) {
        self.stop().await;
        let listener = TcpListener::bind(self.address).await.expect("the receiver's port is still free");
        let serving = Serving::start(listener, Arc::clone(&self.book));
        *self.serving.lock().unwrap_or_else(PoisonError::into_inner) = Some(serving);
    }
}

/// A period between a start and an outage.
#[derive(Debug)]
struct Serving {
    task: JoinHandle<()>,
    lines: Lines,
}

impl Serving {
    fn start(listener: TcpListener, book: Arc<Book>) -> Self {
        let lines = Lines::default();
        let door = Door::new(listener, lines.clone());
        let service = Router::new().fallback(receive).with_state(book).into_make_service_with_connect_info::<Line>();
        let task = tokio::spawn(async move {
            // It never ends by itself: errors of single connections are handled inside.
            let _ = axum::serve(door, service).await;
        });
        Self { task, lines }
    }

    fn end(&mut self) {
        self.task.abort();
        self.lines.cut();
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.end();
    }
}

async fn receive(State(book): State<Arc<Book>>, ConnectInfo(line): ConnectInfo<Line>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let Ok(body) = body::to_bytes(body, usize::MAX).await else {
        // The sender disconnected during its request.
        return line.hang_up().await;
    };
    let id = parts.headers.get("webhook-id").and_then(|id| Uuid::try_parse_ascii(id.as_bytes()).ok());
    let path = parts.uri.path().to_owned();
    match book.record(Received { path, id, headers: parts.headers, body, at: Instant::now() }) {
        Answer::Reply(reply) => reply.send().await,
        Answer::Hang => pending().await,
        Answer::Drop => line.hang_up().await,
    }
}
