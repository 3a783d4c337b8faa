//! Names with JSON values that keep their text: the headers and properties of a recorded message.
//!
//! A value is the text that the producer wrote. So an integer of any length, or a float, reaches the worker unchanged, and
//! values that are only passed on are neither parsed nor serialised again.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// A JSON object whose values keep their text.
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
    /// Returns an empty object.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the JSON of a value. `null` is a value, too.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&RawValue> {
        self.0.get(name).map(AsRef::as_ref)
    }

    /// Returns the value if it is a string.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<Cow<'_, str>> {
        text(self.get(name)?).ok()
    }

    /// Returns the value if it exists and fits the type. `null` fits only an `Option`.
    #[must_use]
    pub fn read<'b, T: Deserialize<'b>>(&'b self, name: &str) -> Option<T> {
        serde_json::from_str(self.get(name)?.get()).ok()
    }

    /// Returns whether there is a value, including `null`.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Sets a value, and replaces an existing one.
    ///
    /// # Errors
    /// If it cannot be written as JSON.
    pub fn set(&mut self, name: impl Into<Cow<'a, str>>, value: &(impl Serialize + ?Sized)) -> serde_json::Result<()> {
        self.set_raw(name, serde_json::value::to_raw_value(value)?);
        Ok(())
    }

    /// Sets a value given as JSON, and replaces an existing one.
    pub fn set_raw(&mut self, name: impl Into<Cow<'a, str>>, value: Box<RawValue>) {
        self.0.insert(name.into(), Cow::Owned(value));
    }

    /// Sets a value if there is none.
    pub(super) fn set_missing(&mut self, name: &'static str, value: &'static RawValue) {
        self.0.entry(Cow::Borrowed(name)).or_insert(Cow::Borrowed(value));
    }

    /// Removes a value and returns it.
    pub fn take(&mut self, name: &str) -> Option<Cow<'a, RawValue>> {
        self.0.remove(name)
    }

    /// Returns all fields, ordered by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &RawValue)> {
        self.0.iter().map(|(name, value)| (name.as_ref(), value.as_ref()))
    }

    /// Returns the number of fields.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there are no fields.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns a copy that borrows nothing.
    #[must_use]
    pub fn into_owned(self) -> Fields<'static> {
        let owned = |(name, value): (Cow<'_, str>, Cow<'_, RawValue>)| {
            (Cow::Owned(name.into_owned()), Cow::Owned(value.into_owned()))
        };
        Fields(self.0.into_iter().map(owned).collect())
    }
}

/// Returns the text of a JSON string, without a copy unless it contains escapes.
pub(super) fn text(value: &RawValue) -> serde_json::Result<Cow<'_, str>> {
    serde_json::from_str::<Text<'_>>(value.get()).map(|text| text.0)
}

/// A string that borrows if possible.
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

/// An object that is read only to take its values.
pub(super) struct Object<'a>(pub(super) BTreeMap<Cow<'a, str>, &'a RawValue>);

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor(|value: &'de RawValue| value)).map(Object)
    }
}

/// Reads an object. Of two values of one name the last counts, as in the databases and in Python.
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
