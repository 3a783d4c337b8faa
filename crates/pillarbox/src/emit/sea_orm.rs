//! Emit through a sea-orm transaction, on PostgreSQL, MariaDB, MySQL or SQLite.
//!
//! A reference to it works, too: sea-orm passes one to the closure of `transaction`.

use chrono::{DateTime, NaiveDateTime, Utc};
use sea_orm::{
    ConnectionTrait, DatabaseTransaction, DbBackend, DbErr, QueryResult, SqlErr, Statement, TryGetable, Value,
};

use super::{Emitted, Transaction, mysql, postgres, sqlite};
use crate::error::DriverError;
use crate::event::NewEvent;

impl Transaction for DatabaseTransaction {
    async fn insert(&mut self, rows: &[NewEvent]) -> Result<Vec<Emitted>, DriverError> {
        (&mut &*self).insert(rows).await
    }

    async fn insert_one(&mut self, row: &NewEvent) -> Result<Option<(i64, DateTime<Utc>)>, DriverError> {
        (&mut &*self).insert_one(row).await
    }

    async fn find(&mut self, event_type: &str, key: &str) -> Result<Option<Emitted>, DriverError> {
        (&mut &*self).find(event_type, key).await
    }

    async fn run(&mut self, statement: &'static str) -> Result<(), DriverError> {
        (&mut &*self).run(statement).await
    }
}

impl Transaction for &DatabaseTransaction {
    async fn insert_one(&mut self, row: &NewEvent) -> Result<Option<(i64, DateTime<Utc>)>, DriverError> {
        match Database::of(self)? {
            Database::Mysql => insert_one_mysql(self, row).await,
            Database::Sqlite => {
                let written = self.insert(std::slice::from_ref(row)).await?;
                Ok(written.first().and_then(super::place))
            }
            Database::Postgres => {
                let statement = Statement::from_sql_and_values(DbBackend::Postgres, postgres::one(row), values(row));
                let written = self.query_one_raw(statement).await?;
                written.map(|row| Ok((row.try_get_by_index(0)?, row.try_get_by_index(1)?))).transpose()
            }
        }
    }

    async fn insert(&mut self, rows: &[NewEvent]) -> Result<Vec<Emitted>, DriverError> {
        let database = Database::of(self)?;
        let (text, values) = match database {
            Database::Mysql => {
                let values = vec![Value::from(mysql::rows_as_json(rows))];
                match self.execute_raw(database.statement(mysql::EMIT, values)).await {
                    Err(error) if mysql::is_denied(&error.to_string()) => return insert_each_mysql(self, rows).await,
                    done => done?,
                };
                (mysql::WRITTEN, vec![Value::from(mysql::ids_as_json(rows))])
            }
            Database::Postgres => {
                (postgres::many(rows), array_literals(&postgres::Columns::new(rows)).map(Value::from).to_vec())
            }
            Database::Sqlite => (sqlite::EMIT, vec![Value::from(sqlite::rows_as_json(rows))]),
        };
        let written = self.query_all_raw(database.statement(text, values)).await?;
        written.iter().map(|row| database.read(row, true)).collect()
    }

    async fn find(&mut self, event_type: &str, key: &str) -> Result<Option<Emitted>, DriverError> {
        let database = Database::of(self)?;
        let values = vec![Value::from(event_type), Value::from(key)];
        let text = match database {
            Database::Mysql => mysql::EXISTING,
            Database::Postgres => postgres::EXISTING,
            Database::Sqlite => sqlite::EXISTING,
        };
        let row = self.query_one_raw(database.statement(text, values)).await?;
        row.map(|row| database.read(&row, false)).transpose()
    }

    async fn run(&mut self, statement: &'static str) -> Result<(), DriverError> {
        self.execute_unprepared(statement).await?;
        Ok(())
    }
}

/// The database of a transaction, of those that have an outbox.
#[derive(Clone, Copy)]
enum Database {
    Mysql,
    Postgres,
    Sqlite,
}

impl Database {
    fn of(transaction: &DatabaseTransaction) -> Result<Self, DriverError> {
        match transaction.get_database_backend() {
            DbBackend::MySql => Ok(Self::Mysql),
            DbBackend::Postgres => Ok(Self::Postgres),
            DbBackend::Sqlite => Ok(Self::Sqlite),
            other => Err(format!("{other:?} is not supported; use PostgreSQL, MariaDB, MySQL or SQLite").into()),
        }
    }

    fn statement(self, text: &str, values: Vec<Value>) -> Statement {
        let backend = match self {
            Self::Mysql => DbBackend::MySql,
            Self::Postgres => DbBackend::Postgres,
            Self::Sqlite => DbBackend::Sqlite,
        };
        Statement::from_sql_and_values(backend, text, values)
    }

    fn read(self, row: &QueryResult, is_new: bool) -> Result<Emitted, DriverError> {
        match self {
            Self::Mysql => mysql::emitted(read(row)?, is_new),
            Self::Postgres => postgres::emitted(read(row)?, is_new),
            Self::Sqlite => sqlite::emitted(read(row)?, is_new),
        }
    }
}

/// Writes one event on MariaDB or MySQL. A duplicate is an error of the statement, not of the transaction.
async fn insert_one_mysql(
    tx: &DatabaseTransaction,
    row: &NewEvent,
) -> Result<Option<(i64, DateTime<Utc>)>, DriverError> {
    let mut values = values(row);
    values[0] = row.id.into();
    values[8] = row.deliver_at.map(mysql::moment).into();
    match tx.execute_raw(Database::Mysql.statement(mysql::EMIT_ONE, values.to_vec())).await {
        Ok(_) => {}
        Err(error) if is_duplicate(&error) => return Ok(None),
        Err(error) => return Err(error.into()),
    }
    let place = tx.query_one_raw(Database::Mysql.statement(mysql::PLACE, Vec::new())).await?;
    let place = place.ok_or("the event that was written is not there")?;
    let created_at: NaiveDateTime = place.try_get_by_index(1)?;
    Ok(Some((place.try_get_by_index(0)?, created_at.and_utc())))
}

/// Inserts one event after another, for an account that may only emit.
async fn insert_each_mysql(tx: &DatabaseTransaction, rows: &[NewEvent]) -> Result<Vec<Emitted>, DriverError> {
    let mut written = Vec::with_capacity(rows.len());
    for row in rows {
        let place = insert_one_mysql(tx, row).await?;
        written.extend(place.map(|place| super::new(row.clone(), place)));
    }
    Ok(written)
}

fn is_duplicate(error: &DbErr) -> bool {
    matches!(error.sql_err(), Some(SqlErr::UniqueConstraintViolation(message)) if mysql::is_key(&message))
}

/// Reads a row. The databases have different types for ids and times.
fn read<I: TryGetable, T: TryGetable>(row: &QueryResult) -> Result<(I, i64, String, String, String, T), DbErr> {
    Ok((
        row.try_get_by_index(0)?,
        row.try_get_by_index(1)?,
        row.try_get_by_index(2)?,
        row.try_get_by_index(3)?,
        row.try_get_by_index(4)?,
        row.try_get_by_index(5)?,
    ))
}

/// Returns the values of a row in the order of the statement for one event.
fn values(row: &NewEvent) -> [Value; 9] {
    [
        row.id.to_string().into(),
        row.aggregate_type.as_str().into(),
        row.aggregate_id.as_str().into(),
        row.event_type.as_str().into(),
        row.payload.as_str().into(),
        row.headers.clone().into(),
        row.idempotency_key.as_str().into(),
        row.max_attempts.into(),
        row.deliver_at.map(|moment| moment.to_rfc3339()).into(),
    ]
}

/// Returns the columns as array literals of PostgreSQL. sea-orm's own arrays cannot hold a NULL; the statement casts from
/// text.
fn array_literals(columns: &postgres::Columns<'_>) -> [String; 9] {
    fn texts(items: &[&str]) -> String {
        array_literal(items.iter().copied().map(Some))
    }
    [
        array_literal(columns.ids.iter().map(|id| Some(id.to_string()))),
        texts(&columns.aggregate_types),
        texts(&columns.aggregate_ids),
        texts(&columns.event_types),
        texts(&columns.payloads),
        array_literal(columns.headers.iter().copied()),
        texts(&columns.keys),
        array_literal(columns.max_attempts.iter().map(|attempts| attempts.map(|attempts| attempts.to_string()))),
        array_literal(columns.deliver_at.iter().map(|moment| moment.map(|moment| moment.to_rfc3339()))),
    ]
}

fn array_literal<T: AsRef<str>>(items: impl Iterator<Item = Option<T>>) -> String {
    let mut literal = String::from("{");
    for (position, item) in items.enumerate() {
        if position > 0 {
            literal.push(',');
        }
        match item {
            Some(text) => push_quoted(&mut literal, text.as_ref()),
            None => literal.push_str("NULL"),
        }
    }
    literal.push('}');
    literal
}

fn push_quoted(literal: &mut String, text: &str) {
    literal.push('"');
    for character in text.chars() {
        if matches!(character, '"' | '\\') {
            literal.push('\\');
        }
        literal.push(character);
    }
    literal.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_keeps_quotes_backslashes_braces_and_nothing_apart() {
        let items = [Some(r#"{"a": "\n"}"#), None, Some("NULL"), Some(""), Some("a,b")];
        assert_eq!(array_literal(items.into_iter()), r#"{"{\"a\": \"\\n\"}",NULL,"NULL","","a,b"}"#);
        assert_eq!(array_literal([].into_iter() as std::array::IntoIter<Option<&str>, 0>), "{}");
    }
}
