//! The one wait of the tests: until a condition is true, within a bound.
//!
//! It is for conditions without a signal, such as a row that another process changes. Otherwise tests wait for the signal.

use std::time::Duration;

use tokio::time;

const POLL: Duration = Duration::from_millis(5);

/// Waits until `check` returns true.
///
/// # Panics
/// With `what` when that has not happened within `timeout`, also when `check` itself does not return.
pub async fn wait_until(what: &str, timeout: Duration, mut check: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !check().await {
            time::sleep(POLL).await;
        }
    };
    if time::timeout(timeout, waiting).await.is_err() {
        panic!("timed out after {timeout:?}, waiting until {what}");
    }
}

/// As [`wait_until`], for a condition that needs no await. Its future is `Send` wherever it is called.
///
/// # Panics
/// As [`wait_until`].
pub(crate) async fn wait_until_sync(what: &str, timeout: Duration, mut check: impl FnMut() -> bool) {
    let deadline = time::Instant::now() + timeout;
    while !check() {
        assert!(time::Instant::now() < deadline, "timed out after {timeout:?}, waiting until {what}");
        time::sleep(POLL).await;
    }
}
