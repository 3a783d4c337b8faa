//! Names with JSON values that keep their text: the headers and properties of a recorded message.
//!
//! A value is the text that the producer wrote. So an integer of any length, or a float, reaches the worker as it was,
//! and what is only passed on is neither built nor written anew.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// An object of JSON, by name; values keep their text.
///
/// ```
/// use pillarbox::celery::Fields;
/// let mut headers: Fields = serde_json::from_str(r#"{"id": "a1", "big": 12345678901234567890123}"#).unwrap();
/// headers.set("retries", &0).unwrap();
/// assert_eq!(headers.text("id").as_deref(), Some("a1"));
/// assert_eq!(headers.get("big").unwrap().get(), "12345678901234567890123");
/// ```
#[derive(Debug, Clone, Default)]
pub struct Fields<'a>(BTreeMap<Cow<'a, str>, Cow<'a, RawValue>>);

impl<'a> Fields<'a> {
    /// None.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The value's JSON; `null` is a value too.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&RawValue> {
        self.0.get(name).map(AsRef::as_ref)
    }

    /// The value, if it is a string.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<Cow<'_, str>> {
        text(self.get(name)?).ok()
    }

    /// The value, if it is there and fits the type. `null` fits an `Option` only.
    #[must_use]
    pub fn read<'b, T: Deserialize<'b>>(&'b self, name: &str) -> Option<T> {
        serde_json::from_str(self.get(name)?.get()).ok()
    }

    /// Whether there is a value, be it `null`.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Sets a value, in place of an older one.
    ///
    /// # Errors
    /// When it cannot be written as JSON.
    pub fn set(&mut self, name: impl Into<Cow<'a, str>>, value: &(impl Serialize + ?Sized)) -> serde_json::Result<()> {
        self.set_raw(name, serde_json::value::to_raw_value(value)?);
        Ok(())
    }

    /// Sets a value whose JSON is at hand, in place of an older one.
    pub fn set_raw(&mut self, name: impl Into<Cow<'a, str>>, value: Box<RawValue>) {
        self.0.insert(name.into(), Cow::Owned(value));
    }

    /// Sets a value unless there is one.
    pub(super) fn set_missing(&mut self, name: &'static str, value: &'static RawValue) {
        self.0.entry(Cow::Borrowed(name)).or_insert(Cow::Borrowed(value));
    }

    /// Takes a value out.
    pub fn take(&mut self, name: &str) -> Option<Cow<'a, RawValue>> {
        self.0.remove(name)
    }

    /// All of them, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &RawValue)> {
        self.0.iter().map(|(name, value)| (name.as_ref(), value.as_ref()))
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The same, borrowing nothing.
    #[must_use]
    pub fn into_owned(self) -> Fields<'static> {
        let owned = |(name, value): (Cow<'_, str>, Cow<'_, RawValue>)| {
            (Cow::Owned(name.into_owned()), Cow::Owned(value.into_owned()))
        };
        Fields(self.0.into_iter().map(owned).collect())
    }
}

/// The text of a JSON string, without a copy unless something in it is escaped.
pub(super) fn text(value: &RawValue) -> serde_json::Result<Cow<'_, str>> {
    serde_json::from_str::<Text<'_>>(value.get()).map(|text| text.0)
}

/// A string that borrows what it can.
#[derive(Deserialize)]
#[serde(transparent)]
pub(super) struct Text<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

impl Serialize for Fields<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor(Cow::Borrowed)).map(Fields)
    }
}

/// An object that is read and taken apart at once.
pub(super) struct Object<'a>(pub(super) BTreeMap<Cow<'a, str>, &'a RawValue>);

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor(|value: &'de RawValue| value)).map(Object)
    }
}

/// Of two values of one name the last counts, as in the databases and in Python.
struct ObjectVisitor<F>(F);

impl<'de, V, F: Fn(&'de RawValue) -> V> Visitor<'de> for ObjectVisitor<F> {
    type Value = BTreeMap<Cow<'de, str>, V>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = BTreeMap::new();
        while let Some(Text(name)) = map.next_key()? {
            fields.insert(name, self.0(map.next_value()?));
        }
        Ok(fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_their_text() {
        let written = r#"{"a":123456789012345678901234567890,"b":0.1000,"c":{"z":1,"a":[2]},"d":null}"#;
        let fields: Fields<'_> = serde_json::from_str(written).unwrap();
        assert_eq!(serde_json::to_string(&fields).unwrap(), written);
        assert_eq!(serde_json::to_string(&fields.into_owned()).unwrap(), written);
    }

    #[test]
    fn what_is_not_there_is_not_null() {
        let mut fields: Fields<'_> = serde_json::from_str(r#"{"eta":null,"id":"a\"1","n":7}"#).unwrap();
        assert!(fields.contains("eta") && !fields.contains("expires"));
        assert_eq!((fields.text("eta"), fields.text("n"), fields.text("x")), (None, None, None));
        assert_eq!(fields.text("id").unwrap(), "a\"1");
        assert_eq!(fields.read::<u32>("n"), Some(7));
        fields.set("n", "eight").unwrap();
        assert_eq!(fields.text("n").unwrap(), "eight");
        assert!(fields.take("n").is_some() && fields.get("n").is_none());
    }
}
