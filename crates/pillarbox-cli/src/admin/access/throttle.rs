//! How often somebody may try a password: after a few failures the wait grows, for the name and for the address.
//! Attempts are counted before they are looked at, so that many at once gain nothing.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::secret::sha256;

/// Failures that cost nothing: people mistype. An address may be that of a whole office.
const FREE_FOR_NAME: u32 = 4;
const FREE_FOR_ADDRESS: u32 = 19;
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// Not longer: who locks others out by their names should not gain much.
const LONGEST_WAIT: Duration = Duration::from_secs(5 * 60);
/// Then it is forgotten.
const MEMORY: Duration = Duration::from_secs(60 * 60);
/// Names and addresses that are remembered at most.
const MOST: usize = 2_000;

#[derive(Debug, PartialEq, Eq, Hash, Clone, Copy)]
enum Key {
    Name([u8; 32]),
    Address(IpAddr),
}

impl Key {
    fn free(self) -> u32 {
        match self {
            Self::Name(_) => FREE_FOR_NAME,
            Self::Address(_) => FREE_FOR_ADDRESS,
        }
    }
}

struct Failures {
    count: u32,
    last: Instant,
    until: Instant,
}

#[derive(Default)]
pub(super) struct Throttle(Mutex<HashMap<Key, Failures>>);

impl Throttle {
    /// Counts an attempt, or says how long to wait before the next.
    pub(super) fn attempt(&self, name: &str, address: IpAddr, now: Instant) -> Result<(), Duration> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let keys = keys(name, address);
        let waits = keys.iter().filter_map(|key| all.get(key)?.until.checked_duration_since(now));
        if let Some(wait) = waits.max().filter(|wait| !wait.is_zero()) {
            return Err(wait);
        }
        let is_old = |failures: &Failures| now.saturating_duration_since(failures.last) >= MEMORY;
        if all.len() + keys.len() > MOST {
            all.retain(|_, failures| !is_old(failures));
        }
        for key in keys {
            if all.len() >= MOST && !all.contains_key(&key) {
                let oldest = all.iter().min_by_key(|(_, failures)| failures.last).map(|(key, _)| *key);
                oldest.map(|key| all.remove(&key));
            }
            let failures = all.entry(key).or_insert(Failures { count: 0, last: now, until: now });
            failures.count = if is_old(failures) { 1 } else { failures.count + 1 };
            failures.last = now;
            failures.until = now + wait_after(failures.count, key.free());
        }
        Ok(())
    }

    /// It was the right password.
    pub(super) fn forgive(&self, name: &str, address: IpAddr) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for key in keys(name, address) {
            all.remove(&key);
        }
    }
}

fn wait_after(count: u32, free: u32) -> Duration {
    match count.checked_sub(free + 1) {
        None => Duration::ZERO,
        Some(more) => FIRST_WAIT.saturating_mul(1 << more.min(20)).min(LONGEST_WAIT),
    }
}

/// Whoever has an IPv6 address has a network of them.
fn keys(name: &str, address: IpAddr) -> [Key; 2] {
    let network = match address.to_canonical() {
        IpAddr::V6(ip) => IpAddr::V6((ip.to_bits() >> 64 << 64).into()),
        ip => ip,
    };
    [Key::Name(sha256(name)), Key::Address(network)]
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn address(number: u32) -> IpAddr {
        IpAddr::V4(number.into())
    }

    #[test]
    fn the_wait_for_a_name_grows_wherever_it_is_tried_from() {
        let (throttle, start) = (Throttle::default(), Instant::now());
        for number in 0..=FREE_FOR_NAME {
            throttle.attempt("anna", address(number), start).unwrap();
        }
        assert_eq!(throttle.attempt("anna", address(99), start), Err(Duration::from_secs(1)));
        throttle.attempt("bert", address(99), start).unwrap();
        throttle.attempt("anna", address(99), start + Duration::from_secs(1)).unwrap();
        let wait = throttle.attempt("anna", HERE, start + Duration::from_secs(1));
        assert_eq!(wait, Err(Duration::from_secs(2)));
        assert_eq!(wait_after(u32::MAX, 4), LONGEST_WAIT);
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
        for _ in 0..20 {
            let _ = throttle.attempt("anna", HERE, start);
        }
        assert!(throttle.attempt("anna", HERE, start).is_err());
        throttle.forgive("anna", HERE);
        throttle.attempt("anna", HERE, start).unwrap();
        for number in 0..MOST as u32 + 5 {
            throttle.attempt(&number.to_string(), address(number), start + Duration::from_secs(1)).unwrap();
        }
        assert!(throttle.0.lock().unwrap().len() <= MOST);
        throttle.attempt("last", HERE, start + MEMORY + Duration::from_secs(2)).unwrap();
        assert_eq!(throttle.0.lock().unwrap().len(), 2);
        for _ in 0..20 {
            let _ = throttle.attempt("last", HERE, start + MEMORY + Duration::from_secs(2));
        }
        throttle.attempt("last", HERE, start + MEMORY + MEMORY + Duration::from_secs(2)).unwrap();
        throttle.attempt("last", HERE, start + MEMORY + MEMORY + Duration::from_secs(2)).unwrap();
    }
}
