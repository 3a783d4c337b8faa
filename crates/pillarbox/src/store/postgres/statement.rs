//! Statements for a schema: their text, their values, and how their rows are read. The schema's name is the only text that is
//! put into a statement.

use std::borrow::Cow;
use std::fmt;

use bytes::{BufMut, BytesMut};
use chrono::{DateTime, Utc};
pub(in crate::store) use tokio_postgres::Row as PgRow;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};
use uuid::Uuid;

use super::error::Error;
use super::moment::Moment;
use crate::error::{DriverError, StoreError};

/// The validated name of a schema. It is the only text that is put into a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::store) struct Schema(String);

impl Schema {
    pub(in crate::store) fn new(name: &str) -> Result<Self, StoreError> {
        let starts_well = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
        let goes_well = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if starts_well && goes_well && name.len() <= 63 {
            Ok(Self(name.to_owned()))
        } else {
            Err(StoreError::BadSchemaName { name: name.to_owned() })
        }
    }

    pub(in crate::store) fn name(&self) -> &str {
        &self.0
    }

    /// Returns the statement's text for this schema.
    pub(in crate::store) fn sql(&self, text: &str) -> String {
        text.replace("{schema}", &format!("\"{}\"", self.0))
    }

    /// Returns the statement, to be planned anew each time. The table can grow from empty to millions of rows and back between
    /// two runs of ANALYZE. A plan from when it was small would join by reading the whole table, five hundred times.
    pub(in crate::store) fn query(&self, text: &str) -> Statement {
        Statement::new(self.sql(text), Ok)
    }

    /// Returns the same, with rows read as this type.
    pub(in crate::store) fn query_as<T: FromRow>(&self, text: &str) -> Statement<T> {
        Statement::new(self.sql(text), |row| T::from_row(&row))
    }

    /// Returns the same, with the first column of each row.
    pub(in crate::store) fn query_scalar<T: for<'r> FromSql<'r>>(&self, text: &str) -> Statement<T> {
        Statement::new(self.sql(text), |row| Ok(row.try_get(0)?))
    }
}

/// A statement with its values, and how its rows are read. It runs on any [`Runs`].
pub(in crate::store) struct Statement<T = PgRow> {
    query: PgQuery,
    read: fn(PgRow) -> Result<T, Error>,
}

/// The text of a statement, and its values.
#[derive(Debug)]
pub(in crate::store) struct PgQuery {
    pub(super) text: String,
    pub(super) values: Vec<(Encoded, Type)>,
    /// Whether the connection keeps the statement with its plan.
    pub(super) kept: bool,
    /// A value that could not be encoded.
    pub(super) unfit: Option<DriverError>,
}

/// A target that runs statements.
pub(in crate::store) trait Runs: Send {
    /// Returns all rows.
    fn rows(self, query: PgQuery) -> impl Future<Output = Result<Vec<PgRow>, Error>> + Send;

    /// Returns the number of written rows.
    fn done(self, query: PgQuery) -> impl Future<Output = Result<u64, Error>> + Send;
}

impl PgQuery {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), values: Vec::new(), kept: false, unfit: None }
    }

    pub(in crate::store) fn bind<V: ToSql + Typed>(mut self, value: V) -> Self {
        let mut bytes = BytesMut::new();
        match value.to_sql(&V::TYPE, &mut bytes) {
            Ok(IsNull::No) => self.values.push((Encoded(Some(bytes)), V::TYPE)),
            Ok(IsNull::Yes) => self.values.push((Encoded(None), V::TYPE)),
            Err(error) => self.unfit = Some(error),
        }
        self
    }
}

impl<T> Statement<T> {
    fn new(text: String, read: fn(PgRow) -> Result<T, Error>) -> Self {
        Self { query: PgQuery::new(text), read }
    }

    pub(in crate::store) fn bind<V: ToSql + Typed>(self, value: V) -> Self {
        Self { query: self.query.bind(value), ..self }
    }

    /// Sets whether the connection keeps the statement with its plan.
    pub(in crate::store) fn persistent(mut self, kept: bool) -> Self {
        self.query.kept = kept;
        self
    }

    pub(in crate::store) async fn fetch_all(self, on: impl Runs) -> Result<Vec<T>, Error> {
        on.rows(self.query).await?.into_iter().map(self.read).collect()
    }

    pub(in crate::store) async fn fetch_optional(self, on: impl Runs) -> Result<Option<T>, Error> {
        on.rows(self.query).await?.into_iter().next().map(self.read).transpose()
    }

    pub(in crate::store) async fn fetch_one(self, on: impl Runs) -> Result<T, Error> {
        self.fetch_optional(on).await?.ok_or(Error::NoRow)
    }

    /// Returns the number of written rows.
    pub(in crate::store) async fn execute(self, on: impl Runs) -> Result<u64, Error> {
        on.done(self.query).await
    }

    /// Returns the text and the values, for rows that are read as they arrive.
    pub(in crate::store) fn into_query(self) -> PgQuery {
        self.query
    }
}

/// A row read as a tuple.
pub(in crate::store) trait FromRow: Sized {
    fn from_row(row: &PgRow) -> Result<Self, Error>;
}

macro_rules! tuples {
    ($(($($column:ident $place:tt),+))+) => {$(
        impl<$($column: for<'r> FromSql<'r>),+> FromRow for ($($column,)+) {
            fn from_row(row: &PgRow) -> Result<Self, Error> {
                Ok(($(row.try_get($place)?,)+))
            }
        }
    )+};
}
tuples! { (A 0, B 1) (A 0, B 1, C 2) (A 0, B 1, C 2, D 3) }

/// The type of a value on the server. It is sent with the statement, which so needs no round trip to be described.
pub(in crate::store) trait Typed {
    const TYPE: Type;
    const ARRAY: Type;
}

macro_rules! typed {
    ($($value:ty: $type:ident, $array:ident;)+) => {$(
        impl Typed for $value {
            const TYPE: Type = Type::$type;
            const ARRAY: Type = Type::$array;
        }
    )+};
}
typed! {
    bool: BOOL, BOOL_ARRAY;
    i16: INT2, INT2_ARRAY;
    i32: INT4, INT4_ARRAY;
    i64: INT8, INT8_ARRAY;
    f64: FLOAT8, FLOAT8_ARRAY;
    str: TEXT, TEXT_ARRAY;
    String: TEXT, TEXT_ARRAY;
    Cow<'_, str>: TEXT, TEXT_ARRAY;
    Uuid: UUID, UUID_ARRAY;
    DateTime<Utc>: TIMESTAMPTZ, TIMESTAMPTZ_ARRAY;
    Moment: TIMESTAMPTZ, TIMESTAMPTZ_ARRAY;
}

impl<T: Typed + ?Sized> Typed for &T {
    const TYPE: Type = T::TYPE;
    const ARRAY: Type = T::ARRAY;
}

impl<T: Typed> Typed for Option<T> {
    const TYPE: Type = T::TYPE;
    const ARRAY: Type = T::ARRAY;
}

impl<T: Typed> Typed for [T] {
    const TYPE: Type = T::ARRAY;
    const ARRAY: Type = T::ARRAY;
}

impl<T: Typed> Typed for Vec<T> {
    const TYPE: Type = T::ARRAY;
    const ARRAY: Type = T::ARRAY;
}

/// A value as it is sent; `None` is NULL. A statement so owns its values, whatever they were made from.
pub(super) struct Encoded(Option<BytesMut>);

/// Omits the value, which the driver logs.
impl fmt::Debug for Encoded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

impl ToSql for Encoded {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, DriverError> {
        let Some(bytes) = &self.0 else { return Ok(IsNull::Yes) };
        out.put_slice(bytes);
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}
