//! Computes the relative times of a message from the absolute times in its headers and the moment of sending. Pure.

use chrono::{DateTime, NaiveDateTime, Utc};
use pillarbox::celery::Fields;

/// The longest expiration. RabbitMQ refuses a longer one, and with it every other message on the channel.
const LONGEST_EXPIRATION: i64 = u32::MAX as i64;

/// The number of levels of native delayed delivery, one for each bit of the seconds.
pub(super) const DELAY_BITS: usize = 28;

/// Returns a header that is a time.
fn time(headers: &Fields<'_>, name: &str) -> Option<DateTime<Utc>> {
    read(&headers.text(name)?)
}

/// Reads a time in Python's ISO format. A time without a zone is UTC, as in Celery.
pub(super) fn read(text: &str) -> Option<DateTime<Utc>> {
    if let Ok(time) = DateTime::parse_from_rfc3339(text) {
        return Some(time.with_timezone(&Utc));
    }
    let formats = ["%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M:%S%.f"];
    formats.iter().find_map(|format| NaiveDateTime::parse_from_str(text, format).ok()).map(|time| time.and_utc())
}

/// Returns the property `expiration`: milliseconds until the header `expires`. An expired task is still sent, so that the
/// worker revokes it.
pub(super) fn expiration(headers: &Fields<'_>, now: DateTime<Utc>) -> Option<String> {
    let left = (time(headers, "expires")? - now).num_milliseconds().max(0);
    // If the time is too far away for the broker, only the worker checks it, by the header.
    (left <= LONGEST_EXPIRATION).then(|| left.to_string())
}

/// Returns the whole seconds until the header `eta`, or `None` if the time has passed.
pub(super) fn delay(headers: &Fields<'_>, now: DateTime<Utc>) -> Option<u32> {
    let left = (time(headers, "eta")? - now).num_seconds();
    let most = (1 << DELAY_BITS) - 1;
    u32::try_from(left.min(most)).ok().filter(|seconds| *seconds > 0)
}

/// Returns the routing key of native delayed delivery: the bits of the seconds, the highest first, then the target's key.
pub(super) fn delayed_key(seconds: u32, routing_key: &str) -> String {
    let mut key = String::with_capacity(2 * DELAY_BITS + routing_key.len());
    for bit in (0..DELAY_BITS).rev() {
        key.push(if seconds >> bit & 1 == 1 { '1' } else { '0' });
        key.push('.');
    }
    key.push_str(without_delay(routing_key));
    key
}

/// Removes the bits of a delay. A retried task still has them in the key of its last delivery.
fn without_delay(routing_key: &str) -> &str {
    let is_delay = |bits: &[u8]| bits.chunks(2).all(|pair| matches!(pair, [b'0' | b'1', b'.']));
    match routing_key.split_at_checked(2 * DELAY_BITS) {
        Some((bits, rest)) if is_delay(bits.as_bytes()) => rest,
        _ => routing_key,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(json: &str) -> Fields<'_> {
        serde_json::from_str(json).unwrap()
    }

    fn now() -> DateTime<Utc> {
        "2026-01-01T12:00:00Z".parse().unwrap()
    }

    #[test]
    fn expiration_counts_from_the_moment_of_sending() {
        let left = |json| expiration(&headers(json), now());
        assert_eq!(left(r#"{"expires": "2026-01-01T12:00:01.5+00:00"}"#).as_deref(), Some("1500"));
        assert_eq!(left(r#"{"expires": "2026-01-01T13:00:02+01:00"}"#).as_deref(), Some("2000"));
        assert_eq!(left(r#"{"expires": "2026-01-01T12:00:03.25"}"#).as_deref(), Some("3250"));
        assert_eq!(left(r#"{"expires": "2025-01-01T12:00:00+00:00"}"#).as_deref(), Some("0"));
        assert_eq!(left(r#"{"expires": "2027-01-01T12:00:00+00:00"}"#), None);
        assert_eq!(left(r#"{"expires": null}"#), None);
    }

    #[test]
    fn a_delay_is_whole_seconds_that_are_left() {
        let left = |json| delay(&headers(json), now());
        assert_eq!(left(r#"{"eta": "2026-01-01T12:00:10.9+00:00"}"#), Some(10));
        assert_eq!(left(r#"{"eta": "2026-01-01T12:00:00.9+00:00"}"#), None);
        assert_eq!(left(r#"{"eta": "2026-01-01T11:59:00+00:00"}"#), None);
        assert_eq!(left(r#"{"eta": "2099-01-01T11:59:00+00:00"}"#), Some((1 << 28) - 1));
        assert_eq!(left("{}"), None);
    }

    #[test]
    fn the_key_has_28_bits_and_never_two_delays() {
        let zeros = "0.".repeat(24);
        let key = delayed_key(10, "orders.new");
        assert_eq!(key, format!("{zeros}1.0.1.0.orders.new"));
        assert_eq!(delayed_key(1, &key), format!("{zeros}0.0.0.1.orders.new"));
        assert_eq!(delayed_key(1, "1.0.x"), format!("{zeros}0.0.0.1.1.0.x"));
    }
}
