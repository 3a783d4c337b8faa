//! The receivers: one that is disturbed, and with `--fan-out` a bystander that always works. Both record which event they
//! accepted, and when.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use pillarbox_testkit::{Answer, Receiver};
use uuid::Uuid;

use crate::producers::POISON;

/// The header with the relay's number.
pub(crate) const RELAY: &str = "x-relay";

/// An event that a receiver accepted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) at: Instant,
    /// The number of the relay that sent it.
    pub(crate) from: u32,
}

/// The events that a receiver accepted, in the order of arrival.
pub(crate) type Arrivals = HashMap<Uuid, Vec<Arrival>>;

pub(crate) struct Receivers {
    disturbed: Noting,
    bystander: Option<Noting>,
}

/// How the disturbed receiver behaves for a while.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Mood {
    Fine,
    Failing,
    Overloaded,
    Hanging,
    Dropping,
}

struct Noting {
    receiver: Receiver,
    arrivals: Arc<Mutex<Arrivals>>,
}

impl Receivers {
    pub(crate) async fn start(fan_out: bool) -> Self {
        let disturbed = Noting::start().await;
        let bystander = if fan_out { Some(Noting::start().await) } else { None };
        if let Some(bystander) = &bystander {
            bystander.accept_unless(|_, _| None);
        }
        let receivers = Self { disturbed, bystander };
        receivers.disturbed_is(Mood::Fine);
        receivers
    }

    pub(crate) fn disturbed_url(&self) -> String {
        self.disturbed.receiver.url("events")
    }

    pub(crate) fn bystander_url(&self) -> Option<String> {
        self.bystander.as_ref().map(|bystander| bystander.receiver.url("events"))
    }

    /// Returns the events that the disturbed receiver accepted.
    pub(crate) fn at_disturbed(&self) -> Arrivals {
        self.disturbed.arrivals()
    }

    /// Returns the events that the bystander accepted, if there is one.
    pub(crate) fn at_bystander(&self) -> Option<Arrivals> {
        self.bystander.as_ref().map(Noting::arrivals)
    }

    /// Kills the disturbed receiver.
    pub(crate) async fn stop_disturbed(&self) {
        self.disturbed.receiver.stop().await;
    }

    pub(crate) async fn restart_disturbed(&self) {
        self.disturbed.receiver.restart().await;
    }

    pub(crate) fn disturbed_is(&self, mood: Mood) {
        self.disturbed.accept_unless(move |poison, lucky| match mood {
            _ if poison => Some(Answer::status(410)),
            _ if lucky => None,
            Mood::Fine => None,
            Mood::Failing => Some(Answer::status(500)),
            Mood::Overloaded => Some(Answer::status(503)),
            Mood::Hanging => Some(Answer::Hang),
            Mood::Dropping => Some(Answer::Drop),
        });
    }

    pub(crate) async fn end(self) {
        self.disturbed.receiver.stop().await;
        if let Some(bystander) = self.bystander {
            bystander.receiver.stop().await;
        }
    }
}

impl Noting {
    async fn start() -> Self {
        Self { receiver: Receiver::start_counting().await, arrivals: Arc::default() }
    }

    fn arrivals(&self) -> Arrivals {
        lock(&self.arrivals).clone()
    }

    /// Accepts every request for which `refusal` returns `None`. Its arguments are whether the event is poison, and whether it
    /// is one of the events that pass even in a bad mood, so that a timeout is no outage.
    fn accept_unless(&self, refusal: impl Fn(bool, bool) -> Option<Answer> + Send + Sync + 'static) {
        let arrivals = Arc::clone(&self.arrivals);
        self.receiver.answer_with(move |request| {
            let event_type = request.headers.get("pillarbox-event-type");
            let poison = event_type.is_some_and(|value| value.as_bytes().ends_with(POISON.as_bytes()));
            let lucky = request.id.is_some_and(|id| id.as_u128() % 3 == 0);
            if let Some(refusal) = refusal(poison, lucky) {
                return refusal;
            }
            if let Some(id) = request.id {
                let from = request
                    .headers
                    .get(RELAY)
                    .and_then(|number| number.to_str().ok()?.parse().ok())
                    .unwrap_or_default();
                lock(&arrivals).entry(id).or_default().push(Arrival { at: Instant::now(), from });
            }
            Answer::ok()
        });
    }
}

fn lock(arrivals: &Mutex<Arrivals>) -> MutexGuard<'_, Arrivals> {
    arrivals.lock().unwrap_or_else(PoisonError::into_inner)
}
