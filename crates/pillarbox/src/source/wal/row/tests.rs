use bytes::Bytes;

use super::*;

const ID: &str = "01890a5d-ac96-774b-bcce-b302099a8057";
const UUID: u32 = 2950;
const TEXT: u32 = 25;
const JSONB: u32 = 3802;
const TIMESTAMPTZ: u32 = 1184;

fn relation(columns: &[(&str, u32)]) -> Relation {
    let columns = columns.iter().map(|(name, kind)| ((*name).to_owned(), *kind)).collect();
    Relation { id: 1, schema: "public".to_owned(), name: "outboxevent".to_owned(), columns }
}

fn usual(payload: u32) -> Relation {
    relation(&[("id", UUID), ("aggregatetype", TEXT), ("aggregateid", TEXT), ("type", TEXT), ("payload", payload)])
}

fn values(texts: &[Option<&str>]) -> Vec<Value> {
    let value = |text: &Option<&str>| match text {
        None => Value::Null,
        Some(text) => Value::Text(Bytes::copy_from_slice(text.as_bytes())),
    };
    texts.iter().map(value).collect()
}

fn committed() -> DateTime<Utc> {
    "2026-01-02T03:04:05Z".parse().unwrap()
}

fn read_with(relation: Relation, table: &OutboxTable, texts: &[Option<&str>]) -> Result<StoredEvent, String> {
    Layout::of(relation, Some(table)).read(&values(texts), committed())
}

fn read_payload(kind: u32, payload: Option<&str>) -> Result<StoredEvent, String> {
    let texts = [Some(ID), Some("Order"), Some("42"), Some("order.placed"), payload];
    read_with(usual(kind), &OutboxTable::default(), &texts)
}

#[test]
fn a_row_is_an_event_with_its_id() {
    let event = read_payload(JSONB, Some(r#"{"a": 1}"#)).unwrap();
    assert_eq!((event.id.to_string().as_str(), event.idempotency_key.as_str()), (ID, ID));
    let named = (event.aggregate_type.as_str(), event.aggregate_id.as_str(), event.event_type.as_str());
    assert_eq!(named, ("Order", "42", "order.placed"));
    assert_eq!((event.payload.get(), event.created_at), (r#"{"a": 1}"#, committed()));
    assert!(event.headers.is_empty() && event.max_attempts.is_none());
}

#[test]
fn a_payload_is_json_whatever_its_column_is() {
    let read = |kind, payload| read_payload(kind, Some(payload)).unwrap();
    assert_eq!(read(TEXT, " [1, 2]\n").payload.get(), "[1, 2]");
    assert_eq!(read(TEXT, "hello \"you\"").payload.get(), r#""hello \"you\"""#);
    assert_eq!(read(TEXT, "").payload.get(), "\"\"");
    assert_eq!(read_payload(JSONB, None).unwrap().payload.get(), "{}");
    let bytes = read(BYTEA, "\\x00ff10");
    assert_eq!(bytes.payload.get(), "\"AP8Q\"");
    assert_eq!(bytes.headers[CONTENT_TYPE], "application/octet-stream");
    assert_eq!(read(BYTEA, "\\x").payload.get(), "\"\"");
    for bad in ["", "x00", "\\x0", "\\x0g", "\\xé"] {
        assert_eq!(read_payload(BYTEA, Some(bad)).unwrap_err(), "payload is not the text of bytes", "{bad}");
    }
}

#[test]
fn columns_are_found_by_their_names() {
    let mut table = OutboxTable::default();
    table.columns.event_type = "kind".to_owned();
    table.columns.created_at = Some("at".to_owned());
    table.columns.headers = Some("meta".to_owned());
    table.columns.header_columns = vec![("tenant".to_owned(), "x-tenant".to_owned()), ("n".to_owned(), "n".to_owned())];
    let columns = [
        ("tracingspancontext", TEXT),
        ("payload", JSONB),
        ("n", 23),
        ("kind", TEXT),
        ("at", TIMESTAMPTZ),
        ("meta", JSONB),
        ("id", UUID),
        ("tenant", TEXT),
        ("aggregateid", TEXT),
        ("aggregatetype", TEXT),
    ];
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let trace = format!("#Fri Jan 02 2026\ntraceparent={parent}\ntracestate=a\\=b\n");
    let texts = [
        Some(trace.as_str()),
        Some("{}"),
        None,
        Some("order.placed"),
        Some("2026-02-03 04:05:06.000007+00"),
        Some(r#"{"user": "ann", "level": 3}"#),
        Some(ID),
        Some("acme"),
        Some("42"),
        Some("Order"),
    ];
    let event = read_with(relation(&columns), &table, &texts).unwrap();
    let headers: Vec<(&str, &str)> =
        event.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let wanted =
        [("level", "3"), ("traceparent", parent), ("tracestate", "a=b"), ("user", "ann"), ("x-tenant", "acme")];
    assert_eq!(headers, wanted);
    assert_eq!(event.created_at, "2026-02-03T04:05:06.000007Z".parse::<DateTime<Utc>>().unwrap());
    assert_eq!(event.event_type, "order.placed");
}

#[test]
fn times_are_read_in_every_form_and_are_otherwise_that_of_the_commit() {
    let mut table = OutboxTable::default();
    table.columns.created_at = Some("at".to_owned());
    let read = |kind, at: Option<&str>| {
        let mut relation = usual(JSONB);
        relation.columns.push(("at".to_owned(), kind));
        let texts = [Some(ID), Some("Order"), Some("42"), Some("a"), Some("{}"), at];
        read_with(relation, &table, &texts).unwrap().created_at.to_rfc3339()
    };
    assert_eq!(read(TIMESTAMPTZ, Some("2026-02-03 04:05:06+00")), "2026-02-03T04:05:06+00:00");
    assert_eq!(read(1114, Some("2026-02-03 04:05:06.5")), "2026-02-03T04:05:06.500+00:00");
    assert_eq!(read(1082, Some("2026-02-03")), "2026-02-03T00:00:00+00:00");
    assert_eq!(read(20, Some("1770091506000")), "2026-02-03T04:05:06+00:00");
    assert_eq!(read(TEXT, Some("2026-02-03T05:05:06+01:00")), "2026-02-03T04:05:06+00:00");
    for none in [None, Some("infinity"), Some("0044-03-15 00:00:00+00 BC"), Some("soon")] {
        assert_eq!(read(TIMESTAMPTZ, none), committed().to_rfc3339(), "{none:?}");
    }
    assert_eq!(read(20, Some("9223372036854775807")), committed().to_rfc3339());
}

#[test]
fn an_id_that_is_no_uuid_makes_one_that_follows_from_it() {
    let read = |name: &str, id: &str| {
        let mut relation = usual(JSONB);
        relation.name = name.to_owned();
        let table = OutboxTable { name: name.to_owned(), ..OutboxTable::default() };
        read_with(relation, &table, &[Some(id), Some("Order"), Some("42"), Some("a"), Some("{}")]).unwrap()
    };
    let event = read("outboxevent", "42");
    assert_eq!((event.headers[ROW_ID].as_str(), event.id.get_version_num()), ("42", 8));
    assert_eq!(event.id, read("outboxevent", "42").id);
    assert_ne!(event.id, read("outboxevent", "43").id);
    assert_ne!(event.id, read("other", "42").id);
}

#[test]
fn a_row_that_is_no_event_says_why_and_is_kept() {
    let refusal = |texts: &[Option<&str>]| read_with(usual(JSONB), &OutboxTable::default(), texts).unwrap_err();
    let long = "x".repeat(101);
    assert_eq!(refusal(&[None, Some("Order"), Some("42"), Some("a"), None]), "id is NULL");
    assert_eq!(refusal(&[Some(ID), Some("Order"), Some("42"), None, None]), "type is NULL");
    assert_eq!(refusal(&[Some(ID), Some(""), Some("42"), Some("a"), None]), "aggregatetype is empty");
    let too_long = refusal(&[Some(ID), Some("Order"), Some(&long), Some("a"), None]);
    assert_eq!(too_long, "aggregateid has 101 characters; the limit is 100");
    let too_large = " ".repeat(LARGEST + 1);
    let too_large = refusal(&[Some(ID), Some("Order"), Some("42"), Some("a"), Some(&too_large)]);
    assert_eq!(too_large, "payload has 134217729 bytes; the limit is 134217728");
    let forged = refusal(&[Some(ID), Some("celery"), Some("42"), Some("a"), None]);
    assert_eq!(forged, "aggregatetype is \"celery\", which only Celery tasks may have");
    let nul = refusal(&[Some(ID), Some("Order"), Some("42"), Some("a"), Some("\"\\u0000\"")]);
    assert!(nul.starts_with("payload contains a NUL"), "{nul}");
    assert_eq!(refusal(&[Some(ID), Some("Order"), Some("42"), Some("a")]), "the server did not send payload");

    let table = OutboxTable::default();
    let layout = Layout::of(usual(JSONB), Some(&table));
    let big = "é".repeat(KEPT);
    let row = values(&[Some(ID), None, Some("42"), Some("a"), Some(&big)]);
    let why = layout.read(&row, committed()).unwrap_err();
    let (letter, reason) = layout.dead_letter(Lsn(7), 3, &row, &why, committed());
    assert_eq!(reason, format!("the row of public.outboxevent with id {ID:?} cannot be read: aggregatetype is NULL"));
    assert_eq!((letter.event_type.as_str(), letter.aggregate_id.as_str()), ("unreadable", "0/7+3"));
    let kept: serde_json::Value = letter.payload_as().unwrap();
    assert_eq!((&kept["table"], &kept["row"]["id"]), (&"public.outboxevent".into(), &ID.into()));
    assert!(kept["row"]["aggregatetype"].is_null() && letter.payload.get().len() < KEPT + 200);
}

#[test]
fn rows_of_a_table_that_lacks_a_column_or_is_another_are_no_events() {
    let mut renamed = usual(JSONB);
    renamed.columns[3].0 = "kind".to_owned();
    let why = read_with(renamed, &OutboxTable::default(), &[]).unwrap_err();
    assert_eq!(why, "it has no column type; name the columns in [source.columns]");
    let other = OutboxTable { name: "other".to_owned(), ..OutboxTable::default() };
    for table in [None, Some(&other)] {
        let layout = Layout::of(usual(JSONB), table);
        let why = layout.read(&values(&[Some(ID)]), committed()).unwrap_err();
        assert!(why.starts_with("[source] does not name the table public.outboxevent"), "{why}");
        let (_, reason) = layout.dead_letter(Lsn(7), 3, &values(&[Some(ID)]), &why, committed());
        assert!(reason.starts_with("the row of public.outboxevent cannot be read: [source]"), "{reason}");
    }
}

proptest::proptest! {
    #[test]
    fn any_row_is_an_event_or_a_dead_letter(
        texts in proptest::collection::vec(proptest::option::of("\\PC{0,12}"), 0..7),
        kind in proptest::sample::select(vec![BYTEA, TEXT, JSONB]),
    ) {
        let layout = Layout::of(usual(kind), Some(&OutboxTable::default()));
        let row: Vec<Value> = values(&texts.iter().map(Option::as_deref).collect::<Vec<_>>());
        match layout.read(&row, committed()) {
            Ok(event) => proptest::prop_assert!(crate::event::unstorable(event.payload.get()).is_none()),
            Err(why) => {
                let (letter, _) = layout.dead_letter(Lsn(1), 0, &row, &why, committed());
                proptest::prop_assert!(crate::event::unstorable(letter.payload.get()).is_none());
            }
        }
    }
}
