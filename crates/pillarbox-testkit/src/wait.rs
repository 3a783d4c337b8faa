//! The one wait of the tests: until something is true, within a bound.
//!
//! For what gives no signal, such as a row that another process changes. What can signal is waited for by its signal.

use std::time::Duration;

use tokio::time;

const POLL: Duration = Duration::from_millis(5);

/// Waits until `check` answers true.
///
/// # Panics
/// With `what` when that has not happened within `timeout`, also when `check` itself does not come back.
pub async fn wait_until(what: &str, timeout: Duration, mut check: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !check().await {
            time::sleep(POLL).await;
        }
    };
    if time::timeout(timeout, waiting).await.is_err() {
        panic!("waited {timeout:?} in vain until {what}");
    }
}
