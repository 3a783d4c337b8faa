//! The bindings of an exchange. kombu keeps them in sets, one per exchange, and every publisher reads them. Pure.

use pillarbox::SendError;
use pillarbox::celery::Declaration;
use redis::Value;

/// A queue that receives messages of an exchange.
#[derive(Debug, PartialEq)]
pub(super) struct Binding {
    routing_key: String,
    /// Whether the routing key is a pattern, as for topic exchanges, or a name, as for direct ones.
    is_pattern: bool,
    pub(super) queue: String,
}

impl Binding {
    /// Returns whether the queue receives messages with this key.
    pub(super) fn takes(&self, routing_key: &str) -> bool {
        if self.is_pattern { matches(&self.routing_key, routing_key) } else { self.routing_key == routing_key }
    }
}

/// Matches words between dots as kombu does: `*` is one word, `#` is anything or nothing.
fn matches(pattern: &str, key: &str) -> bool {
    let (word, behind) = match pattern.split_once('.') {
        Some((word, behind)) => (word, Some(behind)),
        None => (pattern, None),
    };
    let rest_matches = |rest: &str| match behind {
        Some(behind) => rest.strip_prefix('.').is_some_and(|rest| matches(behind, rest)),
        None => rest.is_empty(),
    };
    match word {
        "#" => key.char_indices().map(|(at, _)| at).chain([key.len()]).any(|at| rest_matches(&key[at..])),
        "*" => {
            let end = key.find('.').unwrap_or(key.len());
            end > 0 && rest_matches(&key[end..])
        }
        _ => key.strip_prefix(word).is_some_and(rest_matches),
    }
}

pub(super) fn key(prefix: &str, exchange: &str) -> String {
    format!("{prefix}_kombu.binding.{exchange}")
}

/// The number of sets that hold a binding.
pub(super) const SETS: usize = 2;

/// Returns the sets that hold a binding. The second one prevents newer versions of kombu from deleting it.
pub(super) fn keys(prefix: &str, exchange: &str) -> [String; SETS] {
    [key(prefix, exchange), format!("{prefix}_kombu.binding_permanent.{exchange}")]
}

/// Returns a binding as the set holds it: the routing key, its regular expression, the queue.
pub(super) fn member(queue: &Declaration, separator: &str) -> String {
    let pattern = if queue.exchange_type == "topic" { expression(&queue.routing_key) } else { String::new() };
    [queue.routing_key.as_str(), &pattern, &queue.queue].join(separator)
}

/// Returns the regular expression that kombu makes from a routing key.
fn expression(routing_key: &str) -> String {
    let word = |word: &str| match word {
        "*" => r"[^\.]+".to_owned(),
        "#" => ".*?".to_owned(),
        word => word
            .chars()
            .map(|letter| match letter {
                letter if letter.is_alphanumeric() || matches!(letter, '#' | '*') => letter.to_string(),
                '\0' => r"\000".to_owned(),
                letter => format!(r"\{letter}"),
            })
            .collect(),
    };
    format!("^{}$", routing_key.split('.').map(word).collect::<Vec<_>>().join(r"\."))
}

/// Reads the bindings from Redis's response.
pub(super) fn read(reply: &Value, separator: &str, exchange: &str) -> Result<Vec<Binding>, SendError> {
    let unreadable = || SendError::retry(format!("the bindings of the exchange {exchange:?} in Redis cannot be read"));
    let members = match reply {
        Value::Array(members) | Value::Set(members) => members,
        Value::Nil => return Ok(Vec::new()),
        _ => return Err(unreadable()),
    };
    let mut bindings = Vec::with_capacity(members.len());
    for member in members {
        let Value::BulkString(bytes) = member else { return Err(unreadable()) };
        let text = String::from_utf8_lossy(bytes);
        // Other members of the set are not bindings.
        if let [routing_key, pattern, queue] = text.split(separator).collect::<Vec<_>>()[..] {
            bindings.push(Binding {
                routing_key: routing_key.to_owned(),
                is_pattern: !pattern.is_empty(),
                queue: queue.to_owned(),
            });
        }
    }
    Ok(bindings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_matches_as_in_kombu() {
        assert!(matches("orders.*", "orders.new"));
        assert!(
            !matches("orders.*", "orders.new.large")
                && !matches("orders.*", "orders.")
                && !matches("orders.*", "orders")
        );
        assert!(matches("orders.#", "orders.new.large") && matches("orders.#", "orders."));
        assert!(matches("#", "") && matches("#", "a.b") && matches("#.new", "a.b.new"));
        assert!(!matches("orders", "orders2") && matches("orders", "orders"));
        assert!(matches("*.b.#", "a.b.c.d") && !matches("*.b.#", "a.x.c"));
    }

    #[test]
    fn a_member_is_written_as_kombu_writes_it() {
        let mut queue = Declaration {
            queue: "orders".to_owned(),
            durable: true,
            arguments: serde_json::Map::new(),
            exchange: "shop".to_owned(),
            exchange_type: "topic".to_owned(),
            routing_key: "shop-1.*.#".to_owned(),
        };
        assert_eq!(member(&queue, "|"), r"shop-1.*.#|^shop\-1\.[^\.]+\..*?$|orders");
        queue.exchange_type = "direct".to_owned();
        assert_eq!(member(&queue, "|"), "shop-1.*.#||orders");
    }
}
