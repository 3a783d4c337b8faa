//! Statements for a schema. The schema's name is the only text that is put into a statement.

use sqlx::postgres::{PgArguments, PgQueryResult, PgRow};
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, Encode, Error, FromRow, Postgres, Type};

use crate::error::StoreError;

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

    /// Returns the statement for this schema.
    pub(in crate::store) fn sql(&self, text: &str) -> AssertSqlSafe<String> {
        AssertSqlSafe(text.replace("{schema}", &format!("\"{}\"", self.0)))
    }

    /// Returns the statement, to be planned anew each time. The table can grow from empty to millions of rows and back between
    /// two runs of ANALYZE. A plan from when it was small would join by reading the whole table, five hundred times.
    pub(in crate::store) fn query(&self, text: &str) -> Statement {
        Statement::new(self.sql(text), Ok)
    }

    /// Returns the same, with rows read as this type.
    pub(in crate::store) fn query_as<T>(&self, text: &str) -> Statement<T>
    where
        T: for<'r> FromRow<'r, PgRow>,
    {
        Statement::new(self.sql(text), |row| T::from_row(&row))
    }

    /// Returns the same, with the first column of each row.
    pub(in crate::store) fn query_scalar<T>(&self, text: &str) -> Statement<T>
    where
        (T,): for<'r> FromRow<'r, PgRow>,
    {
        Statement::new(self.sql(text), |row| <(T,)>::from_row(&row).map(|(value,)| value))
    }
}

/// A statement with its values, and how its rows are read. It runs on any [`Runs`]. The methods of sqlx's own trait depend on
/// features of sqlx, which the application chooses.
pub(in crate::store) struct Statement<T = PgRow> {
    query: PgQuery,
    read: fn(PgRow) -> Result<T, Error>,
}

/// A statement of sqlx with its values.
pub(in crate::store) type PgQuery = Query<'static, Postgres, PgArguments>;

/// A target that runs statements.
pub(in crate::store) trait Runs: Send {
    /// Returns all rows.
    fn rows(self, query: PgQuery) -> impl Future<Output = Result<Vec<PgRow>, Error>> + Send;

    /// Returns the number of written rows.
    fn done(self, query: PgQuery) -> impl Future<Output = Result<PgQueryResult, Error>> + Send;
}

impl<T> Statement<T> {
    fn new(sql: AssertSqlSafe<String>, read: fn(PgRow) -> Result<T, Error>) -> Self {
        Self { query: sqlx::query(sql).persistent(false), read }
    }

    pub(in crate::store) fn bind<'v, V: Encode<'v, Postgres> + Type<Postgres>>(self, value: V) -> Self {
        Self { query: self.query.bind(value), ..self }
    }

    /// Sets whether the connection keeps the statement with its plan.
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

    /// Returns the sqlx query, for rows that are read as they arrive.
    pub(in crate::store) fn into_query(self) -> PgQuery {
        self.query
    }
}
