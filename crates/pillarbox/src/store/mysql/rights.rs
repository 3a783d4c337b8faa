//! Missing rights: the server's error, with the GRANT that is missing.

use super::server::Server;
use crate::error::DriverError;

/// An error of a missing right.
#[derive(Debug, thiserror::Error)]
#[error("{told}")]
pub(super) struct Denied {
    told: String,
    /// The right and its table, such as `UPDATE on outbox_event`; empty if the error is about something else.
    pub(super) missing: String,
    #[source]
    source: sqlx::Error,
}

impl Denied {
    /// Returns the driver's error.
    pub(super) fn driver(&self) -> &sqlx::Error {
        &self.source
    }
}

/// No access to a database, wrong password, no right on a table, on a column, for an operation, on a routine.
const DATABASE: u16 = 1044;
const LOGIN: u16 = 1045;
const TABLE: u16 = 1142;
const COLUMN: u16 = 1143;
const OPERATION: u16 = 1227;
const ROUTINE: u16 = 1370;

/// Returns whether the server's error means a missing right.
pub(super) fn is_denied(number: u16) -> bool {
    [DATABASE, TABLE, COLUMN, OPERATION, ROUTINE].contains(&number)
}

/// Adds the missing GRANT to an error of a missing right. Other errors stay as they are. Before the server has said which account
/// it has chosen, the account of its message is named.
pub(super) fn explain(error: DriverError, server: Option<&Server>) -> DriverError {
    let error = match error.downcast::<sqlx::Error>() {
        Ok(error) => *error,
        Err(other) => return other,
    };
    let found = error.as_database_error();
    let found = found.and_then(|error| error.try_downcast_ref::<sqlx::mysql::MySqlDatabaseError>());
    match found.and_then(|found| advice(found.number(), found.message(), server)) {
        Some((told, missing)) => Box::new(Denied { told, missing, source: error }),
        None => Box::new(error),
    }
}

/// Returns what to tell, and the missing right.
fn advice(number: u16, message: &str, server: Option<&Server>) -> Option<(String, String)> {
    let named = message.split("user ").nth(1).map_or("", |rest| rest.split([' ', ';']).next().unwrap_or(rest));
    let account = server.map_or_else(|| named.to_owned(), |server| quoted_account(server.account()));
    let user = named.split('@').next().unwrap_or(named).trim_matches(['\'', '`']);
    let database = server.map(|server| identifier(server.database()));
    let within = database.as_deref().unwrap_or("DATABASE");
    let right = message.split(" command denied").next().unwrap_or_default().to_uppercase();
    let lacks = |right: &str, on: &str, grant: String| {
        let told = format!("the user {user:?} lacks {right} on {on}; run as an administrator: {grant} TO {account}");
        Some((told, format!("{right} on {on}")))
    };
    match number {
        LOGIN => Some((format!("{message}; check the user, the password and ssl-mode in the URL"), String::new())),
        DATABASE => {
            let name = last_name(message);
            lacks("rights", &name, format!("GRANT SELECT, INSERT, UPDATE, DELETE ON {}.*", identifier(&name)))
        }
        TABLE => {
            let table = last_name(message);
            // A table that does not exist yet.
            let on = if right == "CREATE" { "*".to_owned() } else { identifier(&table) };
            lacks(&right, &table, format!("GRANT {right} ON {within}.{on}"))
        }
        COLUMN => {
            let (column, table) = (name_after(message, "for column "), last_name(message));
            let grant = format!("GRANT {right} ({}) ON {within}.{}", identifier(&column), identifier(&table));
            lacks(&format!("{right} ({column})"), &table, grant)
        }
        ROUTINE => {
            let routine = last_name(message);
            // To call a routine, to change it, or to create one.
            let (right, on) = match right.as_str() {
                "EXECUTE" => ("EXECUTE", format!("PROCEDURE {within}.{}", identifier(&routine))),
                _ => ("ALTER ROUTINE", format!("{within}.*")),
            };
            lacks(right, &routine, format!("GRANT {right} ON {on}"))
        }
        OPERATION => {
            // The message names the rights, but not the user.
            let right = name_after(message, "(at least one of) the ");
            let user = account.clone();
            let told =
                format!("the user {user} lacks {right}; run as an administrator: GRANT {right} ON *.* TO {account}");
            Some((told, right))
        }
        _ => None,
    }
}

/// Returns the word after `before`, without quotes.
fn name_after(message: &str, before: &str) -> String {
    let rest = message.split_once(before).map_or("", |(_, rest)| rest);
    rest.split(' ').next().unwrap_or(rest).trim_matches(['\'', '`', ',']).to_owned()
}

/// Returns the last quoted name of a message, without its database: some versions write `shop`.`outbox_event`, others
/// 'outbox_event'.
fn last_name(message: &str) -> String {
    let last = message.rsplit(' ').next().unwrap_or(message);
    last.rsplit('.').next().unwrap_or(last).trim_matches(['\'', '`']).to_owned()
}

/// Returns an account such as `relay@%` in quotes. A name without a host is one for all hosts.
pub(super) fn quoted_account(account: &str) -> String {
    let (user, host) = account.rsplit_once('@').unwrap_or((account, "%"));
    let quoted = |part: &str| {
        let part = part.strip_prefix('\'').and_then(|part| part.strip_suffix('\'')).unwrap_or(part);
        format!("'{}'", part.replace('\\', "\\\\").replace('\'', "''"))
    };
    format!("{}@{}", quoted(user), quoted(host))
}

/// Returns a name in backticks.
pub(super) fn identifier(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The texts of both servers and of several versions.
    #[test]
    fn messages_name_the_missing_grant() {
        for (number, message, expected) in [
            (
                1142,
                "UPDATE command denied to user 'relay'@'10.0.0.1' for table `shop`.`outbox_event`",
                "the user \"relay\" lacks UPDATE on outbox_event; run as an administrator: \
                 GRANT UPDATE ON DATABASE.`outbox_event` TO 'relay'@'10.0.0.1'",
            ),
            (
                1142,
                "SELECT, INSERT command denied to user 'relay'@'%' for table 'outbox_event'",
                "the user \"relay\" lacks SELECT, INSERT on outbox_event; run as an administrator: \
                 GRANT SELECT, INSERT ON DATABASE.`outbox_event` TO 'relay'@'%'",
            ),
            (
                1143,
                "SELECT command denied to user 'e'@'h' for column 'payload' in table 'outbox_event'",
                "the user \"e\" lacks SELECT (payload) on outbox_event; run as an administrator: \
                 GRANT SELECT (`payload`) ON DATABASE.`outbox_event` TO 'e'@'h'",
            ),
            (
                1044,
                "Access denied for user 'e'@'h' to database 'shop'",
                "the user \"e\" lacks rights on shop; run as an administrator: \
                 GRANT SELECT, INSERT, UPDATE, DELETE ON `shop`.* TO 'e'@'h'",
            ),
            (
                1370,
                "execute command denied to user 'e'@'h' for routine 'shop.outbox_emit'",
                "the user \"e\" lacks EXECUTE on outbox_emit; run as an administrator: \
                 GRANT EXECUTE ON PROCEDURE DATABASE.`outbox_emit` TO 'e'@'h'",
            ),
        ] {
            assert_eq!(advice(number, message, None).unwrap().0, expected);
        }
        let login = advice(1045, "Access denied for user 'e'@'h' (using password: YES)", None).unwrap().0;
        assert!(login.ends_with("check the user, the password and ssl-mode in the URL"), "{login}");
        assert_eq!(advice(1146, "Table 'shop.outbox_event' doesn't exist", None), None);
    }

    #[test]
    fn accounts_are_quoted() {
        assert_eq!(quoted_account("relay"), "'relay'@'%'");
        assert_eq!(quoted_account("o'neil@10.0.%"), "'o''neil'@'10.0.%'");
        assert_eq!(quoted_account("'relay'@'localhost'"), "'relay'@'localhost'");
        assert_eq!(quoted_account("a@b@c"), "'a@b'@'c'");
    }
}
