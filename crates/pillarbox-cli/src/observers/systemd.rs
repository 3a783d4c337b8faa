//! systemd: reports readiness and the watchdog's heartbeat to the service manager. Without a heartbeat for `WatchdogSec`,
//! systemd restarts the relay.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use pillarbox::{Observed, Observer};

use crate::config::Environment;

pub(crate) struct Systemd {
    socket: UnixDatagram,
    /// The interval of heartbeats; `None` reports readiness only.
    every: Option<Duration>,
    told_at: Mutex<Option<Instant>>,
}

impl Systemd {
    /// Returns `None` if systemd did not ask for notifications.
    pub(crate) fn of(environment: &Environment) -> io::Result<Option<Self>> {
        let Some(name) = environment.get("NOTIFY_SOCKET") else { return Ok(None) };
        let address = match name.strip_prefix('@') {
            Some(name) => SocketAddr::from_abstract_name(name)?,
            None => SocketAddr::from_pathname(name)?,
        };
        let socket = UnixDatagram::unbound()?;
        socket.connect_addr(&address)?;
        socket.set_nonblocking(true)?;
        // Heartbeats are sent four times as often as required.
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
