//! A value that tasks wait for. Unlike tokio's `watch`, it wakes tasks in the order in which they began to wait, so that
//! simulated runs repeat.

use std::sync::Mutex;

use tokio::sync::Notify;

use super::load::lock;

#[derive(Debug)]
pub(super) struct Gauge<T> {
    value: Mutex<T>,
    changed: Notify,
}

impl<T: Copy> Gauge<T> {
    pub(super) fn new(value: T) -> Self {
        Self { value: Mutex::new(value), changed: Notify::new() }
    }

    pub(super) fn get(&self) -> T {
        *lock(&self.value)
    }

    pub(super) fn set(&self, value: T) {
        self.change(|current| *current = value);
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut T)) {
        change(&mut lock(&self.value));
        self.changed.notify_waiters();
    }

    /// Waits until the value satisfies the condition.
    pub(super) async fn wait_for(&self, condition: impl Fn(T) -> bool) {
        if condition(self.get()) {
            return;
        }
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Enable before the check, so that a change between the check and the wait is not missed.
            changed.as_mut().enable();
            if condition(self.get()) {
                return;
            }
            changed.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn waiters_see_the_value_that_they_wait_for() {
        let gauge = Arc::new(Gauge::new(0));
        let waiter = tokio::spawn({
            let gauge = Arc::clone(&gauge);
            async move { gauge.wait_for(|value| value == 2).await }
        });
        gauge.set(1);
        tokio::task::yield_now().await;
        assert!(!waiter.is_finished());
        gauge.change(|value| *value += 1);
        waiter.await.unwrap();
        assert_eq!(gauge.get(), 2);
    }
}
