//! Limits password attempts. After a few failures the wait grows, for a name from one address, and for an address with any
//! name. A name that is tried from many addresses only gets slower, so that strangers cannot lock a user out. Attempts are
//! counted before they are checked, so that many at once gain nothing.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::network::network_of;
use crate::secret::sha256;

/// The number of failures without a wait, because people mistype. A whole office may share an address.
const FREE_FOR_PAIR: u32 = 4;
const FREE_FOR_ADDRESS: u32 = 19;
const FREE_FOR_NAME: u32 = 19;
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(5 * 60);
/// The check of a name that is tried from many addresses is delayed by this much at first, and at most by `LONGEST_DELAY`.
const FIRST_DELAY: Duration = Duration::from_millis(100);
const LONGEST_DELAY: Duration = Duration::from_secs(2);
/// Failures are forgotten after this time.
const MEMORY: Duration = Duration::from_secs(60 * 60);
/// The maximum number of entries. Entries with the fewest failures are removed first, so that new names and addresses
/// cannot push out a penalty.
const MOST: usize = 10_000;

#[derive(Debug, PartialEq, Eq, Hash, Clone, Copy)]
enum Key {
    Pair(IpAddr, [u8; 32]),
    Address(IpAddr),
    Name([u8; 32]),
}

#[derive(Debug, Clone, Copy)]
struct Failures {
    count: u32,
    last: Instant,
}

impl Failures {
    fn is_old(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.last) >= MEMORY
    }

    /// Returns when the next attempt is allowed.
    fn until(&self, key: Key) -> Instant {
        let free = match key {
            Key::Pair(..) => FREE_FOR_PAIR,
            Key::Address(_) => FREE_FOR_ADDRESS,
            // A name has no wait, only a delay.
            Key::Name(_) => return self.last,
        };
        self.last + grown(self.count, free, FIRST_WAIT, LONGEST_WAIT)
    }
}

#[derive(Default)]
pub(super) struct Throttle(Mutex<HashMap<Key, Failures>>);

impl Throttle {
    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Failures>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts an attempt and returns the delay before its check. If it comes too early, returns the time to wait as the
    /// error.
    pub(super) fn attempt(&self, name: &str, address: IpAddr, now: Instant) -> Result<Duration, Duration> {
        let mut all = self.lock();
        let keys = keys(name, address);
        let waits = keys.iter().filter_map(|key| all.get(key)?.until(*key).checked_duration_since(now));
        if let Some(wait) = waits.max().filter(|wait| !wait.is_zero()) {
            return Err(wait);
        }
        if all.len() + keys.len() > MOST {
            all.retain(|_, failures| !failures.is_old(now));
        }
        let mut delay = Duration::ZERO;
        for key in keys {
            if all.len() >= MOST && !all.contains_key(&key) {
                let least = all.iter().min_by_key(|(_, failures)| (failures.count, failures.last)).map(|(key, _)| *key);
                least.map(|key| all.remove(&key));
            }
            let failures = all.entry(key).or_insert(Failures { count: 0, last: now });
            let count = if failures.is_old(now) { 1 } else { failures.count.saturating_add(1) };
            *failures = Failures { count, last: now };
            if matches!(key, Key::Name(_)) {
                delay = grown(count, FREE_FOR_NAME, FIRST_DELAY, LONGEST_DELAY);
            }
        }
        Ok(delay)
    }

    /// Uncounts this attempt after a correct password, and forgets the failures of this name from this address. Other
    /// failures of the address and the name stay counted: otherwise a user with an account could guess without end.
    pub(super) fn forgive(&self, name: &str, address: IpAddr) {
        let mut all = self.lock();
        for key in keys(name, address) {
            match key {
                Key::Pair(..) => {
                    all.remove(&key);
                }
                Key::Address(_) | Key::Name(_) => {
                    if let Some(failures) = all.get_mut(&key) {
                        failures.count = failures.count.saturating_sub(1);
                    }
                }
            }
        }
    }
}

fn grown(count: u32, free: u32, first: Duration, longest: Duration) -> Duration {
    match count.checked_sub(free + 1) {
        None => Duration::ZERO,
        Some(more) => first.saturating_mul(1 << more.min(20)).min(longest),
    }
}

fn keys(name: &str, address: IpAddr) -> [Key; 3] {
    let (name, network) = (sha256(name), network_of(address));
    [Key::Pair(network, name), Key::Address(network), Key::Name(name)]
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn address(number: u32) -> IpAddr {
        IpAddr::V4(number.into())
    }

    #[test]
    fn the_wait_for_a_name_grows_where_it_is_tried_from() {
        let (throttle, start) = (Throttle::default(), Instant::now());
        for _ in 0..=FREE_FOR_PAIR {
            throttle.attempt("anna", HERE, start).unwrap();
        }
        assert_eq!(throttle.attempt("anna", HERE, start), Err(Duration::from_secs(1)));
        throttle.attempt("bert", HERE, start).unwrap();
        throttle.attempt("anna", HERE, start + Duration::from_secs(1)).unwrap();
        assert_eq!(throttle.attempt("anna", HERE, start + Duration::from_secs(1)), Err(Duration::from_secs(2)));
        assert_eq!(grown(u32::MAX, 4, FIRST_WAIT, LONGEST_WAIT), LONGEST_WAIT);
    }

    #[test]
    fn strangers_slow_a_name_down_and_lock_nobody_out() {
        let (throttle, start) = (Throttle::default(), Instant::now());
        for stranger in 0..1000 {
            for _ in 0..=FREE_FOR_PAIR {
                throttle.attempt("anna", address(stranger), start).unwrap();
            }
            throttle.attempt("anna", address(stranger), start).unwrap_err();
        }
        assert_eq!(throttle.attempt("anna", HERE, start), Ok(LONGEST_DELAY));
        assert_eq!(throttle.attempt("bert", HERE, start), Ok(Duration::ZERO));
    }

    #[test]
    fn the_wait_for_an_address_grows_whatever_name_is_tried() {
        let (throttle, start) = (Throttle::default(), Instant::now());
        for number in 0..=FREE_FOR_ADDRESS {
            throttle.attempt(&number.to_string(), HERE, start).unwrap();
        }
        assert!(throttle.attempt("anna", HERE, start).is_err());
        throttle.attempt("anna", address(7), start).unwrap();
        let network = |last: &str| format!("2001:db8:1:2::{last}").parse().unwrap();
        assert_eq!(keys("a", network("1"))[1], keys("b", network("ffff"))[1]);
    }

    #[test]
    fn the_right_password_and_time_forgive() {
        let (throttle, start) = (Throttle::default(), Instant::now());
        for _ in 0..=FREE_FOR_PAIR {
            throttle.attempt("anna", HERE, start).unwrap();
        }
        assert!(throttle.attempt("anna", HERE, start).is_err());
        throttle.forgive("anna", HERE);
        throttle.attempt("anna", HERE, start).unwrap();
        // Logging in with an own account gives no further guesses.
        for guess in 0..FREE_FOR_ADDRESS {
            let _ = throttle.attempt(&format!("victim{guess}"), HERE, start);
            if throttle.attempt("mallory", HERE, start).is_ok() {
                throttle.forgive("mallory", HERE);
            }
        }
        assert!(throttle.attempt("another", HERE, start).is_err());
        throttle.attempt("another", HERE, start + MEMORY).unwrap();
    }

    #[test]
    fn no_penalty_is_pushed_out_by_new_names_and_addresses() {
        let (throttle, start) = (Throttle::default(), Instant::now());
        for _ in 0..=FREE_FOR_PAIR {
            throttle.attempt("anna", HERE, start).unwrap();
        }
        let later = start + Duration::from_millis(1);
        for number in 0..MOST as u32 / 3 + 200 {
            throttle.attempt(&number.to_string(), address(number), later).unwrap();
        }
        assert!(throttle.lock().len() <= MOST);
        assert!(throttle.attempt("anna", HERE, later).is_err());
        throttle.attempt("last", HERE, start + MEMORY + Duration::from_secs(2)).unwrap();
        assert_eq!(throttle.lock().len(), 3);
    }
}
