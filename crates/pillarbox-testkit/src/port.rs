//! Ports that a server can release and bind again.

use std::net::TcpListener;
use std::ops::Range;

/// A range below the one that the kernel uses for port 0 and for outgoing connections. A port of that range may be taken while
/// its server is down, and a client that connects often enough connects to itself.
const RANGE: Range<u16> = 20_000..30_000;

/// Binds a free loopback port. A caller that needs only the number drops the listener.
pub(crate) fn bind() -> TcpListener {
    for _ in 0..1000 {
        if let Ok(listener) = TcpListener::bind(("127.0.0.1", rand::random_range(RANGE))) {
            return listener;
        }
    }
    panic!("no free loopback port in {RANGE:?}");
}

/// Returns the number of a port that was free a moment ago.
///
/// # Panics
/// When no port is free.
pub fn free() -> u16 {
    bind().local_addr().expect("a bound listener has an address").port()
}
