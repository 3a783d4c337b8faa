//! Test events: a person sends one to a destination, to see whether it works. Nothing is stored but the audit entry. The last result
//! stays in this process, for the page.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chrono::{DateTime, Utc};
use pillarbox::sink::Tested;
use pillarbox::{Destination, Headers, SendErrorKind};

use super::{Desk, DeskError};

/// Builds a destination that a test event is sent to. It is dropped after the test.
#[derive(Clone)]
pub struct Tester(Arc<Build>);

type Build = dyn Fn() -> Result<Destination, String> + Send + Sync;

impl Tester {
    /// Wraps the function. It returns the destination with its sink and timeout, or why it cannot be built, without secrets.
    pub fn new(build: impl Fn() -> Result<Destination, String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(build))
    }
}

impl fmt::Debug for Tester {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tester")
    }
}

/// A test event and its result.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Trial {
    /// The destination's name.
    pub destination: String,
    /// When it was sent.
    pub at: DateTime<Utc>,
    /// The user who sent it.
    pub who: String,
    /// The result.
    pub tested: Tested,
}

/// Returns what an error of a test event means for the application's events, and what to do.
#[must_use]
pub fn advice(kind: SendErrorKind) -> &'static str {
    match kind {
        SendErrorKind::Retry => "An event would be tried again later. See the receiver's log for the reason.",
        SendErrorKind::Reject => {
            "An event would become a dead letter at once. Check that the receiver accepts this event, and the destination's settings."
        }
        SendErrorKind::Unavailable => {
            "The destination would count as down, and its events would wait. Check the address, the network, the credentials, and \
             whether the receiver runs."
        }
        SendErrorKind::Timeout => {
            "The destination would count as down, and its events would wait. Check that the receiver answers in time, or raise the \
             destination's timeout."
        }
    }
}

/// Returns the name of a kind of error: `retry`, `reject`, `unavailable` or `timeout`.
#[must_use]
pub fn kind_name(kind: SendErrorKind) -> &'static str {
    match kind {
        SendErrorKind::Retry => "retry",
        SendErrorKind::Reject => "reject",
        SendErrorKind::Unavailable => "unavailable",
        SendErrorKind::Timeout => "timeout",
    }
}

/// The tests of this process.
#[derive(Default)]
pub(super) struct Trials(Mutex<State>);

#[derive(Default)]
struct State {
    running: BTreeSet<String>,
    last: BTreeMap<String, Trial>,
}

impl Trials {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a test, unless one is running. It ends when the returned value is dropped.
    fn begin<'a>(&'a self, destination: &'a str) -> Result<Running<'a>, DeskError> {
        if self.lock().running.insert(destination.to_owned()) {
            return Ok(Running { trials: self, destination });
        }
        Err(DeskError::Busy(format!("a test event is being sent to {destination} right now; wait for its result")))
    }
}

struct Running<'a> {
    trials: &'a Trials,
    destination: &'a str,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.trials.lock().running.remove(self.destination);
    }
}

impl Desk {
    /// Sends a test event to a destination, as a relay would, and returns the result. It is sent at once, also if the destination is
    /// paused or down.
    ///
    /// # Errors
    /// Fails if the destination is unknown or cannot be tested from here, if a test of it is running, or if the audit cannot be
    /// written. A test event that the receiver does not accept is a result.
    pub async fn test(&self, destination: &str, who: &str) -> Result<Trial, DeskError> {
        self.check_destination(destination).await?;
        let info = self.destinations.iter().find(|info| info.name == destination);
        let Some(tester) = info.and_then(|info| info.test.as_ref()) else {
            return Err(DeskError::Refused(format!(
                "a test event cannot be sent to {destination} from here: it takes no events, as Celery brokers and dry runs do, or this \
                 process has no client for it; try `pillarbox destinations test {destination}`"
            )));
        };
        let running = self.trials.begin(destination)?;
        let built = (tester.0)().map_err(DeskError::Refused)?;
        // First the audit: what is sent is always in it.
        self.store.open_entry(who, "test", destination).await?;
        let at = Utc::now();
        let tested = built.test(Headers::new()).await;
        let trial = Trial { destination: destination.to_owned(), at, who: who.to_owned(), tested };
        self.trials.lock().last.insert(destination.to_owned(), trial.clone());
        drop(running);
        Ok(trial)
    }

    /// Returns the last test event that this process sent to a destination.
    #[must_use]
    pub fn last_test(&self, destination: &str) -> Option<Trial> {
        self.trials.lock().last.get(destination).cloned()
    }
}
