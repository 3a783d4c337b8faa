//! Statements with their values, and rows, for every driver.

use std::borrow::Cow;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::error::DriverError;
use crate::store::list::Bound;

/// A statement with its values, in order.
#[derive(Debug)]
pub(in crate::store) struct Call {
    pub(in crate::store) text: Cow<'static, str>,
    pub(in crate::store) values: Vec<Value>,
}

impl Call {
    pub(in crate::store) fn new(text: impl Into<Cow<'static, str>>) -> Self {
        Self { text: text.into(), values: Vec::new() }
    }

    /// Adds the next value.
    pub(in crate::store) fn bind(mut self, value: impl Into<Value>) -> Self {
        self.values.push(value.into());
        self
    }
}

/// A value of a statement. Absent values also have a type, because PostgreSQL needs it.
#[derive(Debug, Clone)]
pub(in crate::store) enum Value {
    Number(Option<i64>),
    Float(f64),
    Flag(bool),
    Text(Option<String>),
    Id(Option<Uuid>),
    Moment(Option<DateTime<Utc>>),
    /// The end of a stretch of a list.
    Bound(Bound),
    Ids(Vec<Uuid>),
    Texts(Vec<String>),
    Flags(Vec<bool>),
}

macro_rules! values {
    ($($from:ty: $given:ident => $value:expr),* $(,)?) => {
        $(impl From<$from> for Value {
            fn from($given: $from) -> Self {
                $value
            }
        })*
    };
}

values! {
    i64: number => Self::Number(Some(number)),
    Option<i64>: number => Self::Number(number),
    i32: number => Self::Number(Some(number.into())),
    u32: number => Self::Number(Some(number.into())),
    usize: number => Self::Number(Some(super::limit(number))),
    u64: number => Self::Number(Some(number.cast_signed())),
    f64: number => Self::Float(number),
    bool: flag => Self::Flag(flag),
    &str: text => Self::Text(Some(text.to_owned())),
    String: text => Self::Text(Some(text)),
    Option<&str>: text => Self::Text(text.map(str::to_owned)),
    Option<String>: text => Self::Text(text),
    Uuid: id => Self::Id(Some(id)),
    Option<Uuid>: id => Self::Id(id),
    DateTime<Utc>: moment => Self::Moment(Some(moment)),
    Option<DateTime<Utc>>: moment => Self::Moment(moment),
    Bound: bound => Self::Bound(bound),
    &[Uuid]: ids => Self::Ids(ids.to_vec()),
    Vec<Uuid>: ids => Self::Ids(ids),
    Vec<String>: texts => Self::Texts(texts),
    Vec<bool>: flags => Self::Flags(flags),
}

/// A row of a result. Columns are read by name; an error describes the column's problem.
pub(in crate::store) trait Row: Send + Sync {
    fn maybe_number(&self, column: &str) -> Result<Option<i64>, DriverError>;
    fn maybe_float(&self, column: &str) -> Result<Option<f64>, DriverError>;
    fn maybe_text(&self, column: &str) -> Result<Option<String>, DriverError>;
    fn maybe_moment(&self, column: &str) -> Result<Option<DateTime<Utc>>, DriverError>;
    fn flag(&self, column: &str) -> Result<bool, DriverError>;
    fn id(&self, column: &str) -> Result<Uuid, DriverError>;

    /// Returns a time as a cursor holds it.
    fn mark(&self, column: &str) -> Result<Option<String>, DriverError>;

    fn number(&self, column: &str) -> Result<i64, DriverError> {
        there(self.maybe_number(column)?, column)
    }

    /// Returns a number that is never negative.
    fn count(&self, column: &str) -> Result<u64, DriverError> {
        self.number(column).map(i64::unsigned_abs)
    }

    /// Returns a small number that is never negative.
    fn small(&self, column: &str) -> Result<u32, DriverError> {
        Ok(u32::try_from(self.count(column)?).unwrap_or(u32::MAX))
    }

    fn text(&self, column: &str) -> Result<String, DriverError> {
        there(self.maybe_text(column)?, column)
    }

    fn moment(&self, column: &str) -> Result<DateTime<Utc>, DriverError> {
        there(self.maybe_moment(column)?, column)
    }
}

fn there<T>(value: Option<T>, column: &str) -> Result<T, DriverError> {
    value.ok_or_else(|| format!("the column {column} is null").into())
}
