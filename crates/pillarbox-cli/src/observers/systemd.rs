//! systemd: that the relay works, and that its loop turns, told to the service manager that started it. One that does not
//! hear of it for `WatchdogSec` starts it again.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use pillarbox::{Observed, Observer};

use crate::config::Environment;

pub(crate) struct Systemd {
    socket: UnixDatagram,
    /// How often it wants to hear; `None`: once.
    every: Option<Duration>,
    told_at: Mutex<Option<Instant>>,
}

impl Systemd {
    /// `None` when nobody asked to be told.
    pub(crate) fn of(environment: &Environment) -> io::Result<Option<Self>> {
        let Some(name) = environment.get("NOTIFY_SOCKET") else { return Ok(None) };
        let address = match name.strip_prefix('@') {
            Some(name) => SocketAddr::from_abstract_name(name)?,
            None => SocketAddr::from_pathname(name)?,
        };
        let socket = UnixDatagram::unbound()?;
        socket.connect_addr(&address)?;
        socket.set_nonblocking(true)?;
        // Four times as often as it has to be.
        let limit = environment.get("WATCHDOG_USEC").and_then(|text| text.parse().ok()).map(Duration::from_micros);
        Ok(Some(Self { socket, every: limit.map(|limit| limit / 4), told_at: Mutex::default() }))
    }
}

impl Observer for Systemd {
    fn turned(&self) -> Observed {
        let mut told_at = self.told_at.lock().unwrap_or_else(PoisonError::into_inner);
        let news = match (*told_at, self.every) {
            (None, _) => "READY=1\nWATCHDOG=1",
            (Some(at), Some(every)) if at.elapsed() >= every => "WATCHDOG=1",
            _ => return Ok(()),
        };
        self.socket.send(news.as_bytes())?;
        *told_at = Some(Instant::now());
        Ok(())
    }
}
