//! The notation of values: durations as `"30s"`, numbers as numbers; and the errors for other notations.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use toml::Value;

/// A type that a key can have.
pub trait FromConfig: Sized {
    /// Reads a value of the file.
    ///
    /// # Errors
    /// Says what the value must be. The text continues a sentence that begins with the key's name, and never shows a value
    /// that may be a secret.
    fn from_toml(value: Value) -> Result<Self, String>;

    /// Reads the value of an environment variable or a flag.
    ///
    /// # Errors
    /// As [`FromConfig::from_toml`].
    fn from_text(text: &str) -> Result<Self, String> {
        Self::from_toml(Value::String(text.to_owned()))
    }
}

fn wanted(value: &Value, what: &str) -> String {
    format!("is of type {}, but must be {what}", value.type_str())
}

impl FromConfig for String {
    fn from_toml(value: Value) -> Result<Self, String> {
        match value {
            Value::String(text) => Ok(text),
            other => Err(wanted(&other, "text in quotes")),
        }
    }
}

const DURATION: &str = r#"a duration with its unit, like "30s", "5m" or "1h 30m""#;
/// The longest duration: far longer than any useful wait, and short enough for clocks and databases to add to a time.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// Reads a duration as people write it, in the file and on the command line.
///
/// # Errors
/// Says how a duration is written.
pub fn duration(text: &str) -> Result<Duration, String> {
    let duration = humantime::parse_duration(text).map_err(|_| format!("is {text:?}, but must be {DURATION}"))?;
    if duration > LONGEST { Err(format!("is {text:?}, but must be at most 100 years")) } else { Ok(duration) }
}

impl FromConfig for Duration {
    fn from_toml(value: Value) -> Result<Self, String> {
        match value {
            Value::String(text) => duration(&text),
            other => Err(wanted(&other, DURATION)),
        }
    }
}

/// Bytes, written with their unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size(
    /// The number of bytes.
    pub usize,
);

const SIZE: &str = r#"a size with its unit, like "512KiB", "64MiB" or "1GiB""#;
const UNITS: [(&str, usize); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];

impl FromConfig for Size {
    fn from_toml(value: Value) -> Result<Self, String> {
        let Value::String(text) = value else { return Err(wanted(&value, SIZE)) };
        let read = || {
            let (number, unit) = UNITS.iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?, unit)))?;
            number.trim_end().parse::<u32>().ok()?.try_into().ok().and_then(|number: usize| number.checked_mul(*unit))
        };
        read().map(Self).ok_or_else(|| format!("is {text:?}, but must be {SIZE}"))
    }
}

impl std::fmt::Display for Size {
    /// Writes the size in the largest unit that has no fraction. There is no unit below KiB, so a smaller size is rounded
    /// up.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let whole = UNITS.iter().find(|(_, unit)| self.0 >= *unit && self.0.is_multiple_of(*unit));
        let (name, unit) = whole.unwrap_or(&UNITS[2]);
        write!(f, "{}{name}", self.0.div_ceil(*unit))
    }
}

impl FromConfig for bool {
    fn from_toml(value: Value) -> Result<Self, String> {
        value.as_bool().ok_or_else(|| wanted(&value, "true or false"))
    }

    fn from_text(text: &str) -> Result<Self, String> {
        text.parse().map_err(|_| format!("is {text:?}, but must be true or false"))
    }
}

impl FromConfig for f64 {
    fn from_toml(value: Value) -> Result<Self, String> {
        match value {
            Value::Float(number) => Ok(number),
            Value::Integer(number) => {
                i32::try_from(number).map(Self::from).map_err(|_| format!("is {number}, which is too large"))
            }
            other => Err(wanted(&other, "a number")),
        }
    }

    fn from_text(text: &str) -> Result<Self, String> {
        text.parse().map_err(|_| format!("is {text:?}, but must be a number"))
    }
}

impl FromConfig for u32 {
    fn from_toml(value: Value) -> Result<Self, String> {
        const HOW: &str = "a whole number, not negative and without quotes";
        let Value::Integer(number) = value else { return Err(wanted(&value, HOW)) };
        Self::try_from(number).map_err(|_| format!("is {number}, but must be a number from 0 to {}", Self::MAX))
    }

    fn from_text(text: &str) -> Result<Self, String> {
        text.parse().map_err(|_| format!("is {text:?}, but must be a number from 0 to {}", Self::MAX))
    }
}

impl FromConfig for usize {
    fn from_toml(value: Value) -> Result<Self, String> {
        u32::from_toml(value).map(|number| number as Self)
    }

    fn from_text(text: &str) -> Result<Self, String> {
        u32::from_text(text).map(|number| number as Self)
    }
}

impl FromConfig for u8 {
    fn from_toml(value: Value) -> Result<Self, String> {
        let number = u32::from_toml(value)?;
        Self::try_from(number).map_err(|_| format!("is {number}, but must be a number from 0 to {}", Self::MAX))
    }
}

/// A table that is passed on unchanged.
#[derive(Debug, Clone)]
pub struct Json(
    /// The table's keys.
    pub serde_json::Map<String, serde_json::Value>,
);

impl FromConfig for Json {
    fn from_toml(value: Value) -> Result<Self, String> {
        let Value::Table(table) = value else { return Err(wanted(&value, "a table, like { x-max-priority = 10 }")) };
        match serde_json::to_value(table) {
            Ok(serde_json::Value::Object(table)) => Ok(Self(table)),
            _ => Err("cannot be written as JSON".to_owned()),
        }
    }
}

impl FromConfig for SocketAddr {
    fn from_toml(value: Value) -> Result<Self, String> {
        let text = String::from_toml(value)?;
        text.parse().map_err(|_| format!("is {text:?}, but must be an address and a port, like \"127.0.0.1:8800\""))
    }
}

impl<T: FromConfig> FromConfig for Vec<T> {
    fn from_toml(value: Value) -> Result<Self, String> {
        match value {
            Value::Array(items) => items.into_iter().map(T::from_toml).collect(),
            other => Err(wanted(&other, "a list, like [\"one\", \"two\"]")),
        }
    }

    fn from_text(text: &str) -> Result<Self, String> {
        text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(T::from_text).collect()
    }
}

impl<T: FromConfig> FromConfig for BTreeMap<String, T> {
    fn from_toml(value: Value) -> Result<Self, String> {
        let Value::Table(table) = value else { return Err(wanted(&value, "a table, like { name = \"value\" }")) };
        let read = |(name, value)| match T::from_toml(value) {
            Ok(value) => Ok((name, value)),
            Err(what) => Err(format!("has {name:?}, which {what}")),
        };
        table.into_iter().map(read).collect()
    }

    fn from_text(text: &str) -> Result<Self, String> {
        let read = |pair: &str| match pair.split_once('=') {
            Some((name, value)) => Ok((name.trim().to_owned(), T::from_text(value.trim())?)),
            None => Err("must be written as name=value,name=value".to_owned()),
        };
        text.split(',').filter(|pair| !pair.trim().is_empty()).map(read).collect()
    }
}

/// For [`super::Section::take_checked`]: checks that a number is at least 1.
///
/// # Errors
/// Fails if it is 0.
pub fn positive(number: &usize) -> Result<(), String> {
    if *number == 0 { Err("is 0, but must be at least 1".to_owned()) } else { Ok(()) }
}

/// For [`super::Section::take_checked`]: checks that a size is not 0.
///
/// # Errors
/// Fails if it is 0.
pub fn some_bytes(size: &Size) -> Result<(), String> {
    if size.0 == 0 { Err("is 0 bytes, but must be more".to_owned()) } else { Ok(()) }
}

/// For [`super::Section::take_checked`]: checks that a duration is not 0.
///
/// # Errors
/// Fails if it is 0.
pub fn some_time(duration: &Duration) -> Result<(), String> {
    if duration.is_zero() { Err("is 0s, but must be longer".to_owned()) } else { Ok(()) }
}
