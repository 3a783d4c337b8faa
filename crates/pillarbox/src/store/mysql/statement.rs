//! Statements as the server takes them. The files number their values, `?1`, as on SQLite; MariaDB and MySQL know only `?`, in
//! order. A file of several statements stands for one with RETURNING: each statement takes the values that it names, and the
//! last one returns the rows.

use serde_json::json;
use sqlx::AssertSqlSafe;
use sqlx::mysql::{MySql, MySqlArguments};
use uuid::Uuid;

use super::moment;
use crate::emit::mysql::moment as in_range;
use crate::store::Ticket;
use crate::store::list::Bound;
use crate::store::sql::{Call, Value};

pub(super) type Query = sqlx::query::Query<'static, MySql, MySqlArguments>;

/// Returns the statements of a call, with their values.
pub(super) fn queries(call: &Call) -> Vec<Query> {
    split(&call.text).into_iter().map(|(text, places)| bound(text, &places, &call.values)).collect()
}

fn bound(text: String, places: &[usize], values: &[Value]) -> Query {
    places.iter().fold(sqlx::query(AssertSqlSafe(text)), |query, place| bind(query, &values[*place - 1]))
}

/// Splits a file into statements without comments, each with the numbers of its values.
fn split(text: &str) -> Vec<(String, Vec<usize>)> {
    let plain: String = text.lines().map(without_comment).fold(String::new(), |plain, line| plain + line + "\n");
    plain.split(';').filter(|statement| !statement.trim().is_empty()).map(positional).collect()
}

fn without_comment(line: &str) -> &str {
    line.find("-- ").map_or(line, |at| &line[..at])
}

fn positional(statement: &str) -> (String, Vec<usize>) {
    let (mut text, mut places) = (String::with_capacity(statement.len()), Vec::new());
    let mut parts = statement.split('?');
    text.push_str(parts.next().unwrap_or_default().trim_start());
    for part in parts {
        let digits = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
        places.extend(part[..digits].parse::<usize>());
        text.push('?');
        text.push_str(&part[digits..]);
    }
    (text, places)
}

fn bind(query: Query, value: &Value) -> Query {
    match value {
        Value::Number(number) => query.bind(*number),
        Value::Float(number) => query.bind(*number),
        Value::Flag(flag) => query.bind(*flag),
        Value::Text(text) => query.bind(text.clone()),
        Value::Id(id) => query.bind(*id),
        Value::Moment(at) => query.bind(at.map(in_range)),
        Value::Bound(Bound::At(at)) => query.bind(in_range(*at)),
        // `check_bound` has refused others.
        Value::Bound(Bound::Mark(mark)) => query.bind(moment::read_mark(mark).unwrap_or(moment::EARLIEST)),
        Value::Bound(Bound::Latest) => query.bind(moment::LATEST),
        Value::Ids(ids) => query.bind(ids_as_json(ids)),
        Value::Texts(texts) => query.bind(json!(texts).to_string()),
        Value::Flags(flags) => query.bind(json!(flags.iter().copied().map(u8::from).collect::<Vec<_>>()).to_string()),
    }
}

/// Returns ids as the statements read them: hexadecimal digits, which `unhex` turns into the column's bytes.
pub(super) fn ids_as_json(ids: &[Uuid]) -> String {
    json!(ids.iter().map(|id| id.simple().to_string()).collect::<Vec<_>>()).to_string()
}

/// Returns `[[id, token], …]`.
pub(super) fn pairs(tickets: &[Ticket]) -> String {
    let pair = |ticket: &Ticket| json!([ticket.id.simple().to_string(), ticket.token.simple().to_string()]);
    json!(tickets.iter().map(pair).collect::<Vec<_>>()).to_string()
}

/// Inserts a lease's token and a list of seqs into a text. These are numbers of this program; texts of others are always bound.
pub(super) fn of_lease(text: &str, token: Uuid, seqs: &[i64]) -> String {
    let seqs = seqs.iter().map(i64::to_string).collect::<Vec<_>>().join(",");
    text.replace("{token}", &token.simple().to_string()).replace("{seqs}", &seqs)
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn numbered_values_become_positions() {
        let text = "-- A file. ?1 is a comment.\nINSERT INTO a VALUES (?2, ?1, ?2); -- and ?3\nSELECT '-' FROM b WHERE c = ?10\n";
        let parts = split(text);
        assert_eq!(parts[0], ("INSERT INTO a VALUES (?, ?, ?)".to_owned(), vec![2, 1, 2]));
        assert_eq!(parts[1], ("SELECT '-' FROM b WHERE c = ?\n".to_owned(), vec![10]));
        assert_eq!(parts.len(), 2);
    }
}
