//! Ports that a server can leave and take again.

use std::net::TcpListener;
use std::ops::Range;

/// Below the range that the kernel gives to port 0 and to outgoing connections. A port of that range may be taken while its
/// server is down, and a client that knocks there often enough connects to itself.
const RANGE: Range<u16> = 20_000..30_000;

/// A free loopback port, bound. Whoever wants only the number drops the listener.
pub(crate) fn bind() -> TcpListener {
    for _ in 0..1000 {
        if let Ok(listener) = TcpListener::bind(("127.0.0.1", rand::random_range(RANGE))) {
            return listener;
        }
    }
    panic!("no free loopback port in {RANGE:?}");
}

/// The number of a port that was free a moment ago.
///
/// # Panics
/// When none is.
pub fn free() -> u16 {
    bind().local_addr().expect("a bound listener has an address").port()
}
