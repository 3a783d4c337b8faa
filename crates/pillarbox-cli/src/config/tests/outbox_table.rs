//! `[source]`: the outbox table of an application, whose rows are read from the log.

use super::{parse, parse_with, refusal};
use crate::config::Environment;

#[test]
fn a_table_is_read_with_the_columns_of_debezium_unless_others_are_named() {
    let source = parse("[source]\nkind = \"wal\"").unwrap().source;
    assert!(source.outbox_table().is_none());
    let source = parse("[source]\nkind = \"wal\"\ntables = true").unwrap().source;
    assert_eq!(source.outbox_table().unwrap(), &pillarbox::source::wal::OutboxTable::default());
    let named = "[source]\nkind = \"wal\"\ntables = true\ntable = \"shop.Events\"\n[source.columns]\nid = \"event_id\"\n\
                 created_at = \"at\"\nheaders = \"meta\"\nheader_columns = [\"tenant\", \"version:event-version\"]\ntrace = \"span\"";
    let settings = parse(named).unwrap();
    let table = settings.source.outbox_table().unwrap();
    assert_eq!((table.to_string().as_str(), table.columns.id.as_str()), ("shop.Events", "event_id"));
    assert_eq!((table.columns.created_at.as_deref(), table.columns.trace.as_deref()), (Some("at"), Some("span")));
    assert_eq!(table.columns.aggregate_type, "aggregatetype");
    let shown = &settings.shown_json()["source"];
    assert_eq!((&shown["tables"], &shown["table"]), (&true.into(), &"shop.Events".into()));
    assert_eq!(shown["columns"]["header_columns"], serde_json::json!(["tenant", "version:event-version"]));
    assert_eq!((&shown["columns"]["headers"], &shown["columns"]["payload"]), (&"meta".into(), &"payload".into()));
}

#[test]
fn variables_replace_the_table_and_its_columns() {
    let environment = Environment::from([
        ("PILLARBOX_SOURCE_KIND", "wal"),
        ("PILLARBOX_SOURCE_TABLES", "true"),
        ("PILLARBOX_SOURCE_TABLE", "shop.events"),
        ("PILLARBOX_SOURCE_COLUMNS_EVENT_TYPE", "kind"),
        ("PILLARBOX_SOURCE_COLUMNS_HEADER_COLUMNS", "tenant, v:version"),
    ]);
    let source = parse_with("", &environment).unwrap().source;
    let table = source.outbox_table().unwrap();
    assert_eq!((table.to_string().as_str(), table.columns.event_type.as_str()), ("shop.events", "kind"));
    let headers =
        [("tenant", "tenant"), ("v", "version")].map(|(column, header)| (column.to_owned(), header.to_owned()));
    assert_eq!(table.columns.header_columns, headers);
}

#[test]
fn what_cannot_be_a_table_or_a_column_is_refused() {
    let problem = refusal("[source]\ntables = true");
    assert!(
        problem.contains("source.tables is true, but rows are read from the log with kind = \"wal\" only"),
        "{problem}"
    );
    let wal = "[source]\nkind = \"wal\"\ntables = true\n";
    for (text, why) in [
        ("table = \"a.b.c\"", "source.table is \"a.b.c\", but must be schema.table"),
        ("[source.columns]\nid = \"\"", "source.columns.id is empty; write the name of a column"),
        ("[source.columns]\nheader_columns = [\"a:\"]", "source.columns.header_columns contains \"a:\""),
        ("[source.columns]\naggregatetype = \"x\"", "source.columns.aggregatetype is not a key"),
    ] {
        let problem = refusal(&format!("{wal}{text}"));
        assert!(problem.contains(why), "{problem}");
    }
}
