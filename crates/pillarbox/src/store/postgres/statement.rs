//! Statements for a schema: its name is the one thing that is ever put into their text.

use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::{Query, QueryAs, QueryScalar};
use sqlx::{AssertSqlSafe, FromRow, Postgres};

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
    pub(in crate::store) fn query(&self, text: &str) -> Query<'static, Postgres, PgArguments> {
        sqlx::query(self.sql(text)).persistent(false)
    }

    pub(in crate::store) fn query_as<T>(&self, text: &str) -> QueryAs<'static, Postgres, T, PgArguments>
    where
        T: for<'r> FromRow<'r, PgRow>,
    {
        sqlx::query_as(self.sql(text)).persistent(false)
    }

    pub(in crate::store) fn query_scalar<T>(&self, text: &str) -> QueryScalar<'static, Postgres, T, PgArguments>
    where
        (T,): for<'r> FromRow<'r, PgRow>,
    {
        sqlx::query_scalar(self.sql(text)).persistent(false)
    }
}
