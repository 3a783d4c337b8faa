//! Ports that a server can release and bind again.

use std::fs::{self, File};
use std::net::TcpListener;
use std::ops::Range;
use std::{env, mem};

/// A range below the one that the kernel uses for port 0 and for outgoing connections. A port of that range may be taken while
/// its server is down, and a client that connects often enough connects to itself.
const RANGE: Range<u16> = 20_000..30_000;

/// Binds a free loopback port, and reserves it for this process. A caller that needs only the number drops the listener.
pub(crate) fn bind() -> TcpListener {
    for _ in 0..1000 {
        let port = rand::random_range(RANGE);
        if let Ok(listener) = TcpListener::bind(("127.0.0.1", port))
            && reserve(port)
        {
            return listener;
        }
    }
    panic!("no free loopback port in {RANGE:?}");
}

/// Reserves a port among the tests that run at once, until this process ends. A server takes seconds to start, and another test
/// must not take its port meanwhile, or while it is down.
fn reserve(port: u16) -> bool {
    let directory = env::temp_dir().join("pillarbox-ports");
    fs::create_dir_all(&directory).expect("a temporary directory can be made");
    let file = File::create(directory.join(port.to_string())).expect("the file of a port can be made");
    let is_ours = file.try_lock().is_ok();
    if is_ours {
        // Closing the file would end the lock.
        mem::forget(file);
    }
    is_ours
}

/// Returns the number of a port that was free a moment ago and is reserved for this process.
///
/// # Panics
/// When no port is free.
pub fn free() -> u16 {
    bind().local_addr().expect("a bound listener has an address").port()
}
