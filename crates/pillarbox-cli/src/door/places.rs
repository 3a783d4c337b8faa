//! The places of a listener, one per connection. When all are taken, a connection without a request, or the one that is
//! idle for the longest time, is closed for the next one. So silent connections block no client; only busy ones do.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pillarbox_admin::network_of;
use tokio::time::Instant;

use super::limits::Limits;
use super::pulse::{Pulse, Rest};

pub(super) struct Places {
    limits: Limits,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    next: u64,
    all: BTreeMap<u64, (IpAddr, Arc<Pulse>)>,
}

/// One place, until it is dropped.
pub(super) struct Place {
    places: Arc<Places>,
    number: u64,
    pulse: Arc<Pulse>,
}

impl Places {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, taken: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a place for a connection from this address; `None` if all that could be closed are busy.
    pub(super) fn take(self: &Arc<Self>, address: IpAddr) -> Option<Place> {
        let (network, most) = (network_of(address), self.limits.of(address));
        let mut taken = self.lock();
        while taken.count(network) >= most {
            taken.evict(|of| of == network)?;
        }
        while taken.all.len() >= self.limits.most {
            taken.evict(|_| true)?;
        }
        let (number, pulse) = (taken.next, Arc::new(Pulse::new(Instant::now())));
        taken.next += 1;
        taken.all.insert(number, (network, Arc::clone(&pulse)));
        Some(Place { places: Arc::clone(self), number, pulse })
    }

    /// Closes one connection that is not busy, to free its file descriptor.
    pub(super) fn make_way(&self) {
        let _ = self.lock().evict(|_| true);
    }
}

impl Taken {
    fn count(&self, network: IpAddr) -> usize {
        self.all.values().filter(|(of, _)| *of == network).count()
    }

    /// Closes one of these connections; `None` if all of them are busy.
    fn evict(&mut self, of: impl Fn(IpAddr) -> bool) -> Option<()> {
        let resting = self.all.iter().filter(|(_, (network, _))| of(*network)).filter_map(|(number, (_, pulse))| {
            let (silent, since) = match pulse.rest()? {
                Rest::Silent => (true, None),
                Rest::Idle(since) => (false, Some(since)),
            };
            Some((!silent, since, *number))
        });
        let (_, _, number) = resting.min()?;
        let (_, pulse) = self.all.remove(&number)?;
        pulse.evict();
        Some(())
    }
}

impl Place {
    pub(super) fn pulse(&self) -> &Arc<Pulse> {
        &self.pulse
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.lock().all.remove(&self.number);
    }
}
