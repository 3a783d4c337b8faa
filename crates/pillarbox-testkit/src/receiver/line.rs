//! The receiver's connections, kept so that each can be broken from outside. HTTP libraries only end connections gracefully.

use std::future::pending;
use std::io;
use std::net::{self, Shutdown};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::net::{TcpListener, TcpStream};

/// One connection: a second handle of its socket.
#[derive(Debug, Clone)]
pub(super) struct Line(Arc<net::TcpStream>);

impl Line {
    fn of(stream: &TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        Ok(Self(Arc::new(stream.as_fd().try_clone_to_owned()?.into())))
    }

    /// Breaks the connection. The server notices and drops the future that waits here.
    pub(super) async fn hang_up<T>(&self) -> T {
        // An error means that the other side closed first.
        let _ = self.0.shutdown(Shutdown::Both);
        pending().await
    }
}

/// All open connections.
#[derive(Debug, Clone, Default)]
pub(super) struct Lines(Arc<Mutex<Vec<Weak<net::TcpStream>>>>);

impl Lines {
    fn add(&self, line: &Line) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.retain(|line| line.strong_count() > 0);
        lines.push(Arc::downgrade(&line.0));
    }

    /// Breaks all connections.
    pub(super) fn cut(&self) {
        for line in self.0.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            if let Some(line) = line.upgrade() {
                let _ = line.shutdown(Shutdown::Both);
            }
        }
    }
}

/// The listener that registers its connections.
pub(super) struct Door {
    listener: TcpListener,
    lines: Lines,
}

impl Door {
    pub(super) fn new(listener: TcpListener, lines: Lines) -> Self {
        Self { listener, lines }
    }
}

impl Listener for Door {
    type Io = TcpStream;
    type Addr = Line;

    async fn accept(&mut self) -> (TcpStream, Line) {
        loop {
            let (stream, _) = Listener::accept(&mut self.listener).await;
            // A connection that has already closed cannot be registered, and need not be.
            if let Ok(line) = Line::of(&stream) {
                self.lines.add(&line);
                return (stream, line);
            }
        }
    }

    fn local_addr(&self) -> io::Result<Line> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl Connected<IncomingStream<'_, Door>> for Line {
    fn connect_info(stream: IncomingStream<'_, Door>) -> Self {
        stream.remote_addr().clone()
    }
}
