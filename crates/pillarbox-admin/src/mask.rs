//! Masks values of payloads in pages, API, terminal, logs and stored errors. Values are named by JSON paths (RFC 9535),
//! `$.card.number`, `$.items[*].price`, `$..token`, and shown as `•••`.
//!
//! A masked value must not leak another way. A receiver's response may quote it, so each text about an event goes through
//! [`Hidden::scrub`]. If the masked values cannot be determined, everything is masked.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use pillarbox::event::PAYLOAD_CONTENT_TYPE;
use pillarbox::store::EventDetail;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;
use serde_json_path::{JsonPath, PathElement};

pub use self::hidden::Hidden;
pub use self::sink::Discreet;

mod hidden;
pub(crate) mod pattern;
mod scan;
mod sink;

/// The replacement of a masked value.
pub(crate) const MASKED: &str = "•••";
/// The replacement as JSON.
const MASKED_JSON: &str = "\"•••\"";

/// Headers that are credentials. They are always masked.
const CREDENTIALS: [&str; 6] =
    ["authorization", "proxy-authorization", "cookie", "set-cookie", "x-api-key", "x-auth-token"];

/// JSON paths of values in payloads that are never shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mask(Arc<[JsonPath]>);

/// A masked payload, and the values that are hidden in it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Masked {
    /// The payload with `•••` in place of masked values.
    pub payload: Box<RawValue>,
    /// The masked values.
    pub hidden: Hidden,
}

impl Mask {
    /// Reads JSON paths (RFC 9535).
    ///
    /// # Errors
    /// Says which path is wrong, and where.
    pub fn parse<T: AsRef<str>>(paths: &[T]) -> Result<Self, MaskError> {
        let parse = |path: &T| {
            let path = path.as_ref();
            let parsed = JsonPath::parse(path).map_err(|error| MaskError::new(path, &error))?;
            pattern::problem(path).map_or(Ok(parsed), |what| Err(MaskError::unable(path, &what)))
        };
        paths.iter().map(parse).collect::<Result<_, _>>().map(Self)
    }

    /// Returns the paths in their normalised form.
    #[must_use]
    pub fn shown(&self) -> Vec<String> {
        self.0.iter().map(ToString::to_string).collect()
    }

    /// Returns whether nothing is masked.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the payload with `•••` in place of the values that the paths match. Everything else is unchanged, digit by
    /// digit.
    #[must_use]
    pub fn apply(&self, payload: &RawValue) -> Masked {
        if self.is_empty() {
            return Masked { payload: payload.to_owned(), hidden: Hidden::default() };
        }
        self.rewritten(payload.get()).unwrap_or_else(|| Self::nothing_of(payload))
    }

    /// Masks a payload as a whole.
    fn nothing_of(payload: &RawValue) -> Masked {
        Masked {
            payload: RawValue::from_string(MASKED_JSON.to_owned()).unwrap_or_default(),
            hidden: Hidden::new(scan::leaves(payload.get())),
        }
    }

    /// Returns the masked values of a payload, to remove them from texts about it.
    #[must_use]
    pub fn hidden(&self, payload: &RawValue) -> Hidden {
        if self.is_empty() { Hidden::default() } else { self.apply(payload).hidden }
    }

    /// Masks an event: its payload, and all texts that may quote it. With any mask an opaque payload is hidden as a whole, because
    /// paths do not reach into it.
    pub fn detail(&self, detail: &mut EventDetail) {
        let is_hidden = detail.headers.contains_key(PAYLOAD_CONTENT_TYPE) && !self.is_empty();
        let masked = if is_hidden { Self::nothing_of(&detail.payload) } else { self.apply(&detail.payload) };
        let Masked { payload, hidden } = masked;
        detail.payload = payload;
        for (name, value) in &mut detail.headers {
            let lets_in = CREDENTIALS.iter().any(|credential| name.eq_ignore_ascii_case(credential));
            if lets_in { MASKED.clone_into(value) } else { hidden.scrub(value) }
        }
        hidden.scrub(&mut detail.event.error_message);
        for delivery in &mut detail.deliveries {
            hidden.scrub(&mut delivery.error);
        }
        for attempt in &mut detail.failed_attempts {
            hidden.scrub(&mut attempt.error);
            attempt.answer.iter_mut().for_each(|answer| hidden.scrub(answer));
            if is_hidden {
                attempt.answer.iter_mut().for_each(|answer| MASKED.clone_into(answer));
            }
        }
    }

    /// Returns the masked payload. `None` if the paths cannot be applied: the payload is too deep, a number is too large,
    /// or an object has a name twice, of which the paths would see only one.
    fn rewritten(&self, payload: &str) -> Option<Masked> {
        let value: Value = serde_json::from_str(payload).ok()?;
        if scan::repeats_a_name(payload) {
            return None;
        }
        let mut places = Places::default();
        for node in self.0.iter().flat_map(|path| path.query_located(&value)) {
            places.add(node.location().iter());
        }
        let (mut text, mut leaves) = (String::with_capacity(payload.len()), Vec::new());
        places.write(payload, &mut text, &mut leaves).ok()?;
        Some(Masked { payload: RawValue::from_string(text).ok()?, hidden: Hidden::new(leaves) })
    }
}

/// The masked places of a payload, as a tree.
#[derive(Default)]
struct Places {
    here: bool,
    names: HashMap<String, Places>,
    items: HashMap<usize, Places>,
}

impl Places {
    fn add<'a>(&mut self, mut location: impl Iterator<Item = &'a PathElement<'a>>) {
        match location.next() {
            None => self.here = true,
            Some(PathElement::Name(name)) => self.names.entry((*name).to_owned()).or_default().add(location),
            Some(PathElement::Index(index)) => self.items.entry(*index).or_default().add(location),
        }
    }

    /// Writes the value with these places masked, and collects the masked values.
    fn write(&self, value: &str, text: &mut String, leaves: &mut Vec<String>) -> serde_json::Result<()> {
        if self.here {
            leaves.extend(scan::leaves(value));
            text.push_str(MASKED_JSON);
        } else if !self.names.is_empty() {
            let Members(members) = serde_json::from_str(value)?;
            text.push('{');
            for (position, (name, member)) in members.iter().enumerate() {
                text.push_str(if position == 0 { "" } else { "," });
                text.push_str(&serde_json::to_string(name)?);
                text.push(':');
                self.names.get(name).unwrap_or(&Self::default()).write(member.get(), text, leaves)?;
            }
            text.push('}');
        } else if !self.items.is_empty() {
            let items: Vec<&RawValue> = serde_json::from_str(value)?;
            text.push('[');
            for (position, item) in items.iter().enumerate() {
                text.push_str(if position == 0 { "" } else { "," });
                self.items.get(&position).unwrap_or(&Self::default()).write(item.get(), text, leaves)?;
            }
            text.push(']');
        } else {
            text.push_str(value);
        }
        Ok(())
    }
}

/// The members of an object in their order, with their values unparsed.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Read)
    }
}

/// Returns what is wrong with a text that is not a JSON path, and where.
pub(crate) fn syntax(path: &str, error: &serde_json_path::ParseError) -> String {
    let place = path.get(error.position()..).filter(|rest| !rest.is_empty());
    match (path.starts_with('$'), error.message(), place) {
        (false, ..) => "it does not begin with $".to_owned(),
        (true, "parser error", Some(rest)) => format!("{rest:?} is not valid"),
        (true, what, Some(rest)) => format!("{what}, at {rest:?}"),
        (true, what, None) => format!("{what}, at its end"),
    }
}

/// A JSON path that cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub struct MaskError(String);

impl MaskError {
    fn new(path: &str, error: &serde_json_path::ParseError) -> Self {
        let what = syntax(path, error);
        Self(format!(
            "{path:?}, which is not a JSON path: {what}; write it like \"$.card.number\", \"$.items[*].price\" or \"$..token\""
        ))
    }

    /// Returns the error for a path whose regular expression cannot be used.
    fn unable(path: &str, what: &str) -> Self {
        Self(format!("{path:?}, which would mask nothing: {what}; correct it"))
    }
}

impl std::error::Error for MaskError {}

impl fmt::Display for MaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;
