//! The activity of a connection: its requests, its responses, and when bytes last moved. A connection that is silent for
//! too long is closed.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes};
use hyper::body::{Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::time::Instant;

/// The timeout for the handshake and the head of the first request together, and for the head of each later one.
pub(super) const HEAD: Duration = Duration::from_secs(10);
/// The timeout of a connection without a request.
pub(super) const IDLE: Duration = Duration::from_secs(60);
/// The timeout between two bytes of a request or its response. The admin ends its own requests after a minute.
pub(super) const STALL: Duration = Duration::from_secs(90);
/// The age after which an idle connection is closed.
const LIFE: Duration = Duration::from_secs(60 * 60);
/// The longest interval between two checks.
const LOOK: Duration = Duration::from_secs(5);

pub(super) struct Pulse {
    now: Mutex<Beat>,
    evicted: Notify,
}

struct Beat {
    opened: Instant,
    /// When the last request ended; `None` before the first request.
    idle_since: Option<Instant>,
    in_flight: usize,
    moved: Instant,
}

/// Why a connection can be closed for another.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// It has sent no request yet.
    Silent,
    /// It has been without a request since then.
    Idle(Instant),
}

impl Pulse {
    pub(super) fn new(now: Instant) -> Self {
        let beat = Beat { opened: now, idle_since: None, in_flight: 0, moved: now };
        Self { now: Mutex::new(beat), evicted: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Beat> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the start of a request. It is in flight until the returned value is dropped.
    pub(super) fn begin(self: &Arc<Self>) -> Busy {
        let mut beat = self.lock();
        beat.in_flight += 1;
        beat.moved = Instant::now();
        drop(beat);
        Busy(Arc::clone(self))
    }

    /// Returns why the connection can be closed; `None` while it is busy.
    pub(super) fn rest(&self) -> Option<Rest> {
        let beat = self.lock();
        (beat.in_flight == 0).then(|| beat.idle_since.map_or(Rest::Silent, Rest::Idle))
    }

    /// Closes the connection, because its place is needed.
    pub(super) fn evict(&self) {
        self.evicted.notify_one();
    }

    /// Waits until the connection must end, and returns the reason.
    pub(super) async fn end(&self) -> &'static str {
        loop {
            let (until, why) = self.lock().deadline();
            if Instant::now() >= until {
                return why;
            }
            tokio::select! {
                () = self.evicted.notified() => return "closed to make room for a new connection",
                () = tokio::time::sleep_until(until.min(Instant::now() + LOOK)) => {}
            }
        }
    }

    fn moved(&self) {
        self.lock().moved = Instant::now();
    }
}

impl Beat {
    fn deadline(&self) -> (Instant, &'static str) {
        let end = self.opened + LIFE;
        match self.idle_since {
            _ if self.in_flight > 0 => ((self.moved + STALL).min(end + STALL), "timeout: no data"),
            None => (self.opened + HEAD, "timeout: no request"),
            Some(since) => ((since + IDLE).min(end.max(since)), "timeout: idle"),
        }
    }
}

/// A request in flight.
pub(super) struct Busy(Arc<Pulse>);

impl Drop for Busy {
    fn drop(&mut self) {
        let mut beat = self.0.lock();
        beat.in_flight -= 1;
        beat.idle_since = Some(Instant::now());
    }
}

/// The body of a response. Its request is in flight until the whole body is sent.
pub(super) struct Held {
    body: Body,
    _busy: Busy,
}

impl Held {
    pub(super) fn new(body: Body, busy: Busy) -> Self {
        Self { body, _busy: busy }
    }
}

impl hyper::body::Body for Held {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A stream that records when bytes move.
pub(super) struct Watched<S> {
    stream: S,
    pulse: Arc<Pulse>,
}

impl<S> Watched<S> {
    pub(super) fn new(stream: S, pulse: Arc<Pulse>) -> Self {
        Self { stream, pulse }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        if buffer.filled().len() > before {
            self.pulse.moved();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(context, buffer))?;
        self.pulse.moved();
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write_vectored(context, buffers))?;
        self.pulse.moved();
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beat(opened: Instant) -> Beat {
        Beat { opened, idle_since: None, in_flight: 0, moved: opened }
    }

    #[test]
    fn a_connection_ends_when_it_is_silent() {
        let now = Instant::now();
        let second = Duration::from_secs(1);
        let ends = |beat: &Beat| beat.deadline().0 - now;
        // A trickle of bytes is not a request.
        assert_eq!(ends(&Beat { moved: now + 9 * second, ..beat(now) }), HEAD);
        assert_eq!(
            ends(&Beat { idle_since: Some(now + 5 * second), moved: now + 50 * second, ..beat(now) }),
            5 * second + IDLE
        );
        // A request in flight ends only when no bytes move.
        assert_eq!(ends(&Beat { in_flight: 1, moved: now + 100 * second, ..beat(now) }), 100 * second + STALL);
        // An old connection ends when it is idle, or soon after.
        assert_eq!(ends(&Beat { idle_since: Some(now + LIFE - second), ..beat(now) }), LIFE);
        assert_eq!(ends(&Beat { idle_since: Some(now + 2 * LIFE), ..beat(now) }), 2 * LIFE);
        assert_eq!(ends(&Beat { in_flight: 1, moved: now + 2 * LIFE, ..beat(now) }), LIFE + STALL);
    }
}
