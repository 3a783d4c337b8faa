//! Unpark, of events without a route: makes those due that this relay's routes match. Part of the upkeep.
//!
//! This relay's routes do not change, but a relay of another release may at any time park events that this one can route. If a
//! condition on the payload decides, an event is unparked only after its payload was read and its route was found. So an event that
//! stays unrouted costs no write, however often it is searched, and no relay unparks what it would park again.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use uuid::Uuid;

use super::Engine;
use super::load::lock;
use crate::clock;
use crate::delivery::UNROUTED;
use crate::error::StoreError;
use crate::route::{OfKind, Subject};
use crate::store::{EventKind, ParkedEvent, ParkedPlace};

/// The pause between two searches for unrouted events that have a route now.
const REROUTE: Duration = Duration::from_secs(30);
/// The number of parked events whose payloads are read at once.
const PAYLOADS: usize = 64;
/// The number of such reads in one search. Other parts of the upkeep wait for a search.
const PAGES: usize = 100;

/// The progress of the searches for parked events that have a route now.
#[derive(Default)]
pub(super) struct Rerouted {
    /// When the last search ended.
    at: Option<Instant>,
    /// How far the payloads were read, by the name that they are parked on, event type and aggregate type.
    read: HashMap<(String, String, String), Read>,
}

/// How far the parked events of a kind were read.
#[derive(Clone, Default)]
struct Read {
    /// Where a search stands that has not reached the end.
    stands: Option<ParkedPlace>,
    /// The end of the last search.
    last: ParkedPlace,
    /// The end of the search before it. The next search begins here, so that it also sees events that were parked during the last
    /// search by transactions that had not ended.
    before: ParkedPlace,
}

impl Engine {
    /// Returns whether to search for parked events that have a route now: in each single pass, at intervals in a running relay.
    pub(super) fn reroutes_now(&self) -> bool {
        !self.is_running() || lock(&self.rerouted).at.is_none_or(|at| clock::since(at) > REROUTE)
    }

    /// Unpark: makes unrouted events due that have a route now. Events of removed destinations are checked once only: a matching
    /// route does not mean that they will not be parked again.
    pub(super) async fn unpark_rerouted(&self, parked_on: &[String]) -> Result<(), StoreError> {
        let first = lock(&self.rerouted).at.is_none();
        let concerns_us = |name: &&String| if first { !self.lanes.contains_key(*name) } else { *name == UNROUTED };
        let mut all = true;
        for name in parked_on.iter().filter(concerns_us) {
            for kind in self.store.parked_kinds(name).await? {
                let EventKind { event_type, aggregate_type } = &kind;
                if self.routes.route_all(event_type, aggregate_type) {
                    self.unpark_kind(name, &kind).await?;
                } else if self.routes.of_kind(event_type, aggregate_type) == OfKind::ByPayload {
                    all &= self.unpark_by_payload(name, &kind).await?;
                }
            }
        }
        // A search that has not reached the end goes on in the next round.
        if all {
            lock(&self.rerouted).at = Some(clock::now());
        }
        Ok(())
    }

    /// Unparks in batches: one statement for a million events would hold all their locks, and fail as a whole.
    async fn unpark_kind(&self, name: &str, kind: &EventKind) -> Result<(), StoreError> {
        let batch = self.settings.batch_size * 2;
        let mut events = 0;
        loop {
            let unparked = self.store.unpark(name, Some(kind), batch).await?;
            events += unparked;
            self.waker.wake();
            if unparked < batch as u64 {
                tracing::info!(event_type = kind.event_type, events, "events unparked: a route matches them now");
                return Ok(());
            }
        }
    }

    /// Reads the payloads of parked events, and unparks the events that have a route. Returns whether all were read. A running
    /// relay reads what was parked since the search before the last one; a single pass reads everything.
    async fn unpark_by_payload(&self, name: &str, kind: &EventKind) -> Result<bool, StoreError> {
        let key = (name.to_owned(), kind.event_type.clone(), kind.aggregate_type.clone());
        let running = self.is_running();
        let read = lock(&self.rerouted).read.get(&key).filter(|_| running).cloned().unwrap_or_default();
        let mut place = read.stands.clone().unwrap_or_else(|| read.before.clone());
        let (mut events, mut pages, mut all) = (0, 0, false);
        while !all && (pages < PAGES || !running) {
            let parked = self.store.parked_events(name, kind, &place, PAYLOADS).await?;
            let routed = parked.iter().filter(|event| self.has_route(kind, event));
            let routed: Vec<Uuid> = routed.map(|event| event.id).collect();
            if !routed.is_empty() {
                events += self.store.unpark_these(name, &routed).await?;
                self.waker.wake();
            }
            pages += 1;
            all = parked.len() < PAYLOADS;
            place = parked.last().map_or(place, |last| last.place.clone());
        }
        if events > 0 {
            tracing::info!(event_type = kind.event_type, events, "events unparked: a route matches them now");
        }
        let read = if all {
            Read { stands: None, last: place, before: read.last }
        } else {
            Read { stands: Some(place), ..read }
        };
        lock(&self.rerouted).read.insert(key, read);
        Ok(all)
    }

    fn has_route(&self, kind: &EventKind, event: &ParkedEvent) -> bool {
        let ParkedEvent { payload, headers, .. } = event;
        let EventKind { event_type, aggregate_type } = kind;
        self.routes.route(Subject { event_type, aggregate_type, payload, headers }).is_some()
    }
}
