//! An event in flight. It collects the answers of its destinations. After the last one, the event is judged and passed to the
//! settler. An event whose answers can no longer come is given back.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::Engine;
use super::load::{Permit, lock};
use super::order::Turn;
use super::settler::Settling;
use crate::clock;
use crate::delivery::{Answer, Change, Delivery, Verdict, judge};
use crate::event::StoredEvent;
use crate::sink::Message;
use crate::store::{Claimed, Ticket};
use crate::trace::SpanContext;

pub(super) struct Flight {
    event: Arc<StoredEvent>,
    before: Vec<Delivery>,
    /// Whether `before` is in the table already.
    kept: bool,
    /// The span of the claim that took the event.
    claim: Option<SpanContext>,
    claimed_at: Instant,
    state: Mutex<State>,
}

struct State {
    claimed: Option<Claimed>,
    permit: Option<Permit>,
    turn: Option<Turn>,
    answers: Vec<(String, Answer)>,
    open: usize,
    /// The spans of the attempts.
    sends: Vec<SpanContext>,
}

/// The delivery of a flight's event to one destination.
pub(super) struct Job {
    flight: Arc<Flight>,
    /// The index of the destination in the flight's deliveries.
    place: usize,
    /// Whether the job belongs to the run of the job before it.
    follows: bool,
    /// The span of the latest attempt.
    span: Option<SpanContext>,
}

impl Flight {
    /// Returns the jobs of a claimed event, one for each destination that is due. If none is due, the event is judged already.
    pub(super) fn start(
        engine: &Engine,
        claimed: Claimed,
        destinations: &[String],
        permit: Permit,
        turn: Option<Turn>,
    ) -> Vec<Job> {
        let kept = !claimed.deliveries().is_empty();
        let attempts = if destinations.len() == 1 { claimed.event().attempts } else { 0 };
        let before = if kept {
            claimed.deliveries().to_vec()
        } else {
            destinations.iter().map(|name| Delivery::open(name, attempts)).collect()
        };
        let is_due = |(place, delivery): (usize, &Delivery)| delivery.is_due().then_some(place);
        let due: Vec<usize> = before.iter().enumerate().filter_map(is_due).collect();
        let event = Arc::clone(claimed.event());
        let (claim, claimed_at) = (permit.claim_span(), permit.claimed_at());
        let state = State {
            claimed: Some(claimed),
            permit: Some(permit),
            turn,
            answers: Vec::new(),
            open: due.len(),
            sends: Vec::new(),
        };
        let flight = Arc::new(Self { event, before, kept, claim, claimed_at, state: Mutex::new(state) });
        if due.is_empty() {
            flight.land(engine, None);
        }
        due.into_iter().map(|place| Job { flight: Arc::clone(&flight), place, follows: false, span: None }).collect()
    }

    /// Returns the deliveries as of now: deliveries that wait for their time have waited since the claim.
    fn before_now(&self) -> Vec<Delivery> {
        let mut before = self.before.clone();
        let since = clock::since(self.claimed_at);
        before.iter_mut().for_each(|delivery| delivery.due_in = delivery.due_in.saturating_sub(since));
        before
    }

    /// Ends the flight: judges the answers, unless the verdict is given, and passes the event to the settler.
    fn land(&self, engine: &Engine, verdict: Option<Verdict>) {
        let (claimed, permit, turn, answers, sends) = {
            let mut state = lock(&self.state);
            let (answers, sends) = (std::mem::take(&mut state.answers), std::mem::take(&mut state.sends));
            (state.claimed.take(), state.permit.take(), state.turn.take(), answers, sends)
        };
        if let Some(claimed) = claimed {
            let policy = &engine.settings.retry;
            let verdict = verdict.unwrap_or_else(|| {
                let before = self.before_now();
                judge(&before, self.kept, &answers, policy, self.event.max_attempts, engine.chance())
            });
            let ended = turn.map(|turn| (turn, verdict.change.clone()));
            engine.settler.settle(Settling { settlement: claimed.settle(verdict), permit, sends });
            if let Some((turn, change)) = ended {
                turn.ended(&change);
            }
        }
    }
}

impl Job {
    pub(super) fn event(&self) -> &Arc<StoredEvent> {
        &self.flight.event
    }

    pub(super) fn message(&self) -> Message {
        let message = Message::new(Arc::clone(&self.flight.event), self.attempt());
        if self.follows { message.following() } else { message }
    }

    /// Returns whether the job belongs to the run of the job before it: it is sent in the same batch, and it is sent again if
    /// that one is not delivered.
    pub(super) fn follows(&self) -> bool {
        self.follows
    }

    /// Puts the job into the run of the job before it.
    pub(super) fn following(mut self) -> Self {
        self.follows = true;
        self
    }

    /// Returns the number of this attempt at its destination, from 1.
    pub(super) fn attempt(&self) -> u32 {
        self.flight.before[self.place].attempts.saturating_add(1)
    }

    /// Returns the size of the payload.
    pub(super) fn bytes(&self) -> usize {
        self.flight.event.payload.get().len()
    }

    /// Returns when the event was claimed.
    pub(super) fn claimed_at(&self) -> Instant {
        self.flight.claimed_at
    }

    /// Returns the span of the claim that took the event.
    pub(super) fn claim_span(&self) -> Option<SpanContext> {
        self.flight.claim
    }

    /// Returns the span of the latest attempt.
    pub(super) fn span(&self) -> Option<SpanContext> {
        self.span
    }

    pub(super) fn is_sent_as(&mut self, span: SpanContext) {
        self.span = Some(span);
    }

    /// Returns whether the event has other destinations, too. Such an event must not be held for one of them.
    pub(super) fn is_shared(&self) -> bool {
        self.flight.before.len() > 1
    }

    pub(super) fn destination(&self) -> &str {
        &self.flight.before[self.place].destination
    }

    /// Returns how much of the lease is left.
    pub(super) fn left(&self) -> Duration {
        lock(&self.flight.state).claimed.as_ref().map_or(Duration::ZERO, Claimed::left)
    }

    /// Returns whether enough of the lease is left for a send with this timeout; without one, half of the lease.
    pub(super) fn lasts(&self, timeout: Option<Duration>, lease: Duration) -> bool {
        let state = lock(&self.flight.state);
        state.claimed.as_ref().is_some_and(|claimed| {
            claimed.left() > timeout.unwrap_or_else(|| claimed.own_lease().map_or(lease, |own| own.min(lease)) / 2)
        })
    }

    pub(super) fn ticket(&self) -> Option<Ticket> {
        lock(&self.flight.state).claimed.as_ref().map(Claimed::ticket)
    }

    pub(super) fn renewed(&self, until: Instant) {
        if let Some(claimed) = &mut lock(&self.flight.state).claimed {
            claimed.renewed(until);
        }
    }

    /// Replaces the permit, so that the event counts as a probe. It will be in flight for long, and others need not wait for
    /// it.
    pub(super) fn reload(&self, mut permit: Permit) {
        let mut state = lock(&self.flight.state);
        if let Some(before) = &mut state.permit {
            permit.take_place(before);
        }
        state.permit = Some(permit);
    }

    /// Records the answer of the destination, and ends the flight if it is the last one.
    pub(super) fn answer(self, engine: &Engine, answer: Answer) {
        if let Some(span) = self.span {
            lock(&self.flight.state).sends.push(span);
        }
        // The common case needs no judging.
        if answer == Answer::Sent && self.flight.before.len() == 1 && !self.flight.kept {
            let failures = self.flight.before[self.place].attempts;
            return self.flight.land(engine, Some(Verdict::of(Change::Deliver, failures)));
        }
        let last = {
            let mut state = lock(&self.flight.state);
            state.answers.push((self.destination().to_owned(), answer));
            state.open -= 1;
            state.open == 0
        };
        if last {
            self.flight.land(engine, None);
        }
    }
}
