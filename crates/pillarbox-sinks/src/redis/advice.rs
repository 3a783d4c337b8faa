//! Notes for `pillarbox doctor`: settings of the server that lose events, and a window that is too short.

use std::time::Duration;

use super::limits::setting;
use crate::redis_server::client::Connection;

/// The settings that decide whether a server keeps what it confirmed.
pub(super) struct Durability {
    appendonly: Option<String>,
    maxmemory: Option<String>,
    maxmemory_policy: Option<String>,
}

impl Durability {
    /// Asks a server. Many hosted servers do not tell.
    pub(super) async fn of(connection: &mut Connection) -> Self {
        Self {
            appendonly: setting(connection, "appendonly").await,
            maxmemory: setting(connection, "maxmemory").await,
            maxmemory_policy: setting(connection, "maxmemory-policy").await,
        }
    }

    pub(super) fn advise(&self, shown: &str) -> Vec<String> {
        let mut notes = Vec::new();
        if self.appendonly.as_deref() == Some("no") {
            notes.push(format!(
                "appendonly is off on {shown}: a restart loses entries that were confirmed; set appendonly yes and appendfsync \
                 always"
            ));
        }
        let is_limited = self.maxmemory.as_deref().is_some_and(|bytes| bytes != "0");
        let evicts = |policy: &&str| is_limited && policy.starts_with("allkeys-");
        if let Some(policy) = self.maxmemory_policy.as_deref().filter(evicts) {
            notes.push(format!(
                "maxmemory-policy is {policy} on {shown}: when memory is short, Redis deletes whole streams; set noeviction, \
                 and max_length for the destination"
            ));
        }
        notes
    }
}

/// Returns a note on a window in which a relay that died cannot come back.
pub(super) fn on_window(window: Duration, lease: Duration) -> Option<String> {
    let (shown, wait) = (humantime::format_duration(window), humantime::format_duration(lease));
    (window <= lease).then(|| {
        format!(
            "deduplicate is {shown}, and the relay's lease is {wait}: events of a relay that died are sent again after the lease, \
             and may be stored twice; set deduplicate to several times the lease"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_forgets_is_noted() {
        let some = |text: &str| Some(text.to_owned());
        let of = |appendonly: &str, maxmemory: &str, policy: &str| {
            let (appendonly, maxmemory, maxmemory_policy) = (some(appendonly), some(maxmemory), some(policy));
            Durability { appendonly, maxmemory, maxmemory_policy }.advise("redis://a:1")
        };
        assert!(of("yes", "0", "allkeys-lru").is_empty());
        assert!(of("yes", "1000", "noeviction").is_empty());
        assert!(of("no", "0", "noeviction")[0].starts_with("appendonly is off"));
        assert!(of("yes", "1000", "allkeys-lru")[0].starts_with("maxmemory-policy is allkeys-lru"));
        let unknown = Durability { appendonly: None, maxmemory: None, maxmemory_policy: None };
        assert!(unknown.advise("redis://a:1").is_empty());
    }

    #[test]
    fn a_window_is_longer_than_the_lease() {
        let minute = Duration::from_secs(60);
        assert!(on_window(minute, minute).unwrap().starts_with("deduplicate is 1m, and the relay's lease is 1m"));
        assert_eq!(on_window(10 * minute, minute), None);
    }
}
