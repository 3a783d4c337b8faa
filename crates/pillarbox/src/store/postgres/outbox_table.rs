//! The description of an outbox table that belongs to an application: its name and its columns. Pure. How its state is read is in
//! `log/published.rs`, and how its rows become events is in `source/wal/row.rs`.

use std::fmt;

/// The outbox table of an application, as Debezium's outbox event router reads it. Rows that are inserted into it are events. It is
/// never written.
///
/// The default is Debezium's: the table `public.outboxevent` with the columns `id`, `aggregatetype`, `aggregateid`, `type` and
/// `payload`.
///
/// ```
/// use pillarbox::store::postgres::OutboxTable;
///
/// let mut table = OutboxTable::named("shop.events")?;
/// table.columns.event_type = "kind".to_owned();
/// assert_eq!(table.to_string(), "shop.events");
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutboxTable {
    /// The schema, as the catalogs spell it.
    pub schema: String,
    /// The table, as the catalogs spell it: `CREATE TABLE OutboxEvent` makes `outboxevent`.
    pub name: String,
    /// The columns that make an event.
    pub columns: OutboxColumns,
}

/// The columns of an [`OutboxTable`], as the catalogs spell them.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutboxColumns {
    /// The id of the event. An id that is not a UUID becomes one that follows from the table and the id, and is in the header
    /// [`ROW_ID`].
    pub id: String,
    /// The type of the aggregate.
    pub aggregate_type: String,
    /// The id of the aggregate.
    pub aggregate_id: String,
    /// The type of the event.
    pub event_type: String,
    /// The payload. `json`, `jsonb` and text that is JSON are sent as they are, other text is sent as a JSON string, and `bytea` as a
    /// JSON string of Base64. `NULL` is an empty object.
    pub payload: String,
    /// When the event was emitted; without it, the time of the commit.
    pub created_at: Option<String>,
    /// A JSON object of headers.
    pub headers: Option<String>,
    /// Columns that are headers, each with the header's name.
    pub header_columns: Vec<(String, String)>,
    /// The trace context as Debezium's tracing writes it. The table need not have the column.
    pub trace: Option<String>,
}

/// The header with the id of a row that is not a UUID.
pub const ROW_ID: &str = "outbox-row-id";

impl Default for OutboxTable {
    fn default() -> Self {
        Self { schema: "public".to_owned(), name: "outboxevent".to_owned(), columns: OutboxColumns::default() }
    }
}

impl Default for OutboxColumns {
    fn default() -> Self {
        Self {
            id: "id".to_owned(),
            aggregate_type: "aggregatetype".to_owned(),
            aggregate_id: "aggregateid".to_owned(),
            event_type: "type".to_owned(),
            payload: "payload".to_owned(),
            created_at: None,
            headers: None,
            header_columns: Vec::new(),
            trace: Some("tracingspancontext".to_owned()),
        }
    }
}

impl OutboxTable {
    /// Returns the table of this name, `schema.table` or a table of the schema `public`, with the usual columns. Names are spelled as
    /// in the catalogs, without quotes.
    ///
    /// # Errors
    /// Says what a name looks like.
    pub fn named(name: &str) -> Result<Self, String> {
        let (schema, table) = name.split_once('.').unwrap_or(("public", name));
        for part in [schema, table] {
            if part.is_empty() || part.len() > 63 || part.contains(['.', '"', '\0']) {
                return Err(format!(
                    "{name:?} is not the name of a table; write schema.table, as the catalogs spell it, without quotes"
                ));
            }
        }
        Ok(Self { schema: schema.to_owned(), name: table.to_owned(), ..Self::default() })
    }

    /// Returns the name for a statement.
    pub(super) fn quoted(&self) -> String {
        format!("\"{}\".\"{}\"", self.schema.replace('"', "\"\""), self.name.replace('"', "\"\""))
    }
}

impl fmt::Display for OutboxTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.schema, self.name)
    }
}

impl OutboxColumns {
    /// Returns the columns that the table must have, each once.
    pub(crate) fn required(&self) -> Vec<&str> {
        let named = [&self.id, &self.aggregate_type, &self.aggregate_id, &self.event_type, &self.payload].into_iter();
        let optional = [&self.created_at, &self.headers].into_iter().flatten();
        let headers = self.header_columns.iter().map(|(column, _)| column);
        let mut all: Vec<&str> = Vec::new();
        for column in named.chain(optional).chain(headers) {
            if !all.contains(&column.as_str()) {
                all.push(column);
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_a_schema_or_that_of_everybody() {
        let table = OutboxTable::named("Shop.Out Box").unwrap();
        assert_eq!((table.schema.as_str(), table.name.as_str()), ("Shop", "Out Box"));
        assert_eq!(table.quoted(), "\"Shop\".\"Out Box\"");
        assert_eq!(OutboxTable::named("outboxevent").unwrap(), OutboxTable::default());
        for bad in ["", ".", "a.", ".b", "a.b.c", "\"a\".b", &"x".repeat(64)] {
            assert!(OutboxTable::named(bad).unwrap_err().contains("schema.table"), "{bad}");
        }
    }

    #[test]
    fn the_columns_of_headers_and_of_the_time_are_required_once_they_are_named() {
        let mut columns = OutboxColumns::default();
        assert_eq!(columns.required(), ["id", "aggregatetype", "aggregateid", "type", "payload"]);
        columns.created_at = Some("timestamp".to_owned());
        columns.header_columns =
            vec![("tenant".to_owned(), "tenant".to_owned()), ("type".to_owned(), "kind".to_owned())];
        assert_eq!(columns.required()[5..], ["timestamp", "tenant"]);
    }
}
