//! Statements for a schema: its name is the one thing that is ever put into their text.

use sqlx::postgres::{PgArguments, PgQueryResult, PgRow};
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, Encode, Error, FromRow, Postgres, Type};

use crate::error::StoreError;

/// A validated schema's name: the one thing that is ever put into a statement's text.
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

    /// The statement for this schema.
    pub(in crate::store) fn sql(&self, text: &str) -> AssertSqlSafe<String> {
        AssertSqlSafe(text.replace("{schema}", &format!("\"{}\"", self.0)))
    }

    /// The statement, to be planned anew each time. The table goes from empty to millions of rows and back between two
    /// looks of ANALYZE: a plan kept from when it was small joins by reading all of it, five hundred times over.
    pub(in crate::store) fn query(&self, text: &str) -> Statement {
        Statement::new(self.sql(text), Ok)
    }

    /// The same, with rows read as this type.
    pub(in crate::store) fn query_as<T>(&self, text: &str) -> Statement<T>
    where
        T: for<'r> FromRow<'r, PgRow>,
    {
        Statement::new(self.sql(text), |row| T::from_row(&row))
    }

    /// The same, with the first column of each row.
    pub(in crate::store) fn query_scalar<T>(&self, text: &str) -> Statement<T>
    where
        (T,): for<'r> FromRow<'r, PgRow>,
    {
        Statement::new(self.sql(text), |row| <(T,)>::from_row(&row).map(|(value,)| value))
    }
}

/// A statement with its values, and how its rows are read. It runs on whatever [`Runs`] it: sqlx's own trait for that has
/// methods that come and go with features of sqlx, which the application chooses.
pub(in crate::store) struct Statement<T = PgRow> {
    query: PgQuery,
    read: fn(PgRow) -> Result<T, Error>,
}

/// A statement of sqlx with its values.
pub(in crate::store) type PgQuery = Query<'static, Postgres, PgArguments>;

/// What statements run on.
pub(in crate::store) trait Runs: Send {
    /// Returns all rows.
    fn rows(self, query: PgQuery) -> impl Future<Output = Result<Vec<PgRow>, Error>> + Send;

    /// Returns how many rows were written.
    fn done(self, query: PgQuery) -> impl Future<Output = Result<PgQueryResult, Error>> + Send;
}

impl<T> Statement<T> {
    fn new(sql: AssertSqlSafe<String>, read: fn(PgRow) -> Result<T, Error>) -> Self {
        Self { query: sqlx::query(sql).persistent(false), read }
    }

    pub(in crate::store) fn bind<'v, V: Encode<'v, Postgres> + Type<Postgres>>(self, value: V) -> Self {
        Self { query: self.query.bind(value), ..self }
    }

    /// Whether the connection keeps it, with its plan.
    pub(in crate::store) fn persistent(self, kept: bool) -> Self {
        Self { query: self.query.persistent(kept), ..self }
    }

    pub(in crate::store) async fn fetch_all(self, on: impl Runs) -> Result<Vec<T>, Error> {
        on.rows(self.query).await?.into_iter().map(self.read).collect()
    }

    pub(in crate::store) async fn fetch_optional(self, on: impl Runs) -> Result<Option<T>, Error> {
        on.rows(self.query).await?.into_iter().next().map(self.read).transpose()
    }

    pub(in crate::store) async fn fetch_one(self, on: impl Runs) -> Result<T, Error> {
        self.fetch_optional(on).await?.ok_or(Error::RowNotFound)
    }

    pub(in crate::store) async fn execute(self, on: impl Runs) -> Result<PgQueryResult, Error> {
        on.done(self.query).await
    }

    /// As sqlx has it, for rows that are read as they come.
    pub(in crate::store) fn into_query(self) -> PgQuery {
        self.query
    }
}
