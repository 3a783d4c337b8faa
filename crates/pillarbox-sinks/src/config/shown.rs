//! Values for display: as they would be written in the file, secrets as `***`.

use std::time::Duration;

use toml::Value;

use super::secret::SecretRef;

/// A key and its value.
pub type Key = (&'static str, Value);

/// Shows the place of a secret, never the secret.
#[must_use]
pub fn hidden(secret: &SecretRef) -> Value {
    text(secret.shown())
}

/// Shows a text.
pub fn text(text: impl Into<String>) -> Value {
    Value::String(text.into())
}

/// Shows a whole number.
pub fn number<N: TryInto<i64>>(number: N) -> Value {
    Value::Integer(number.try_into().unwrap_or(i64::MAX))
}

/// Shows a duration with its units: `1m 30s`.
#[must_use]
pub fn duration(duration: Duration) -> Value {
    text(humantime::format_duration(duration).to_string())
}

/// Shows the name of a choice.
pub fn chosen<T: Copy + PartialEq>(choices: &[(&str, T)], choice: T) -> Value {
    text(choices.iter().find(|(_, one)| *one == choice).map_or("", |(name, _)| *name))
}

/// Shows a table.
pub fn table<'a>(keys: impl IntoIterator<Item = (&'a str, Value)>) -> Value {
    Value::Table(keys.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}
