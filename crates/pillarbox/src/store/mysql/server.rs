//! The server: which one it is, and whether an outbox can work on it.

use std::collections::HashMap;

use sqlx::mysql::{MySqlConnection, MySqlRow};
use sqlx::{Executor, Row};

use super::SQL;
use crate::error::{DriverError, StoreError};

/// The oldest versions with SKIP LOCKED, JSON_TABLE, CHECK and defaults that are expressions.
const OLDEST_MARIADB: (u32, u32, u32) = (10, 6, 0);
const OLDEST_MYSQL: (u32, u32, u32) = (8, 0, 19);

/// The server's settings by name, and the place that the store connects to.
#[derive(Debug)]
pub(super) struct Server {
    settings: HashMap<String, String>,
    /// The account that the server has chosen for the user, such as `relay@%`.
    account: String,
    database: String,
}

impl Server {
    pub(super) async fn read(connection: &mut MySqlConnection) -> Result<Self, DriverError> {
        let settings = pairs(&connection.fetch_all(sqlx::raw_sql(SQL.server)).await?)?;
        let (account, database) = pair(&connection.fetch_one(sqlx::raw_sql(SQL.server_account)).await?)?;
        Ok(Self { settings, account, database })
    }

    pub(super) fn account(&self) -> &str {
        &self.account
    }

    pub(super) fn database(&self) -> &str {
        &self.database
    }

    /// Returns a setting; empty if this server does not have it.
    pub(super) fn get(&self, name: &str) -> &str {
        self.settings.get(name).map_or("", String::as_str)
    }

    pub(super) fn is_mariadb(&self) -> bool {
        self.get("version").contains("MariaDB")
    }

    /// Returns the binary collation without padding: `a` and `a ` are two names.
    pub(super) fn collation(&self) -> &'static str {
        if self.is_mariadb() { "utf8mb4_nopad_bin" } else { "utf8mb4_0900_bin" }
    }

    /// Refuses a server that is too old, and a Galera cluster.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        let (version, oldest) = (self.get("version"), if self.is_mariadb() { OLDEST_MARIADB } else { OLDEST_MYSQL });
        let refused = |why: String| StoreError::Database { doing: "checking the server", source: why.into() };
        if parts(version) < oldest {
            return Err(refused(format!("version {version} is too old; use MariaDB 10.6 or MySQL 8.0.19, or newer")));
        }
        if self.get("wsrep_on").eq_ignore_ascii_case("on") {
            return Err(refused(
                "the server is a node of a Galera cluster, whose nodes share neither row locks nor a clock: relays on two nodes \
                 would claim the same events, and fail at commit; use a server without Galera, or replication with one primary"
                    .to_owned(),
            ));
        }
        Ok(())
    }
}

/// Returns the rows of `SHOW VARIABLES`, by name.
pub(super) fn pairs(rows: &[MySqlRow]) -> Result<HashMap<String, String>, DriverError> {
    rows.iter().map(pair).collect()
}

fn pair(row: &MySqlRow) -> Result<(String, String), DriverError> {
    Ok((row.try_get_unchecked(0)?, row.try_get_unchecked(1)?))
}

/// Returns the numbers of a version such as `10.11.6-MariaDB-log`.
fn parts(version: &str) -> (u32, u32, u32) {
    let numbers = version.split(|c: char| !c.is_ascii_digit());
    let mut numbers = numbers.map(|number| number.parse().unwrap_or(0));
    let mut next = || numbers.next().unwrap_or(0);
    (next(), next(), next())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(version: &str, wsrep_on: &str) -> Server {
        let settings = [("version", version), ("wsrep_on", wsrep_on)];
        let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        Server { settings, account: "ann@%".to_owned(), database: "shop".to_owned() }
    }

    #[test]
    fn old_servers_and_galera_are_refused() {
        for version in ["10.6.0-MariaDB", "10.11.19-MariaDB-0+deb12u1", "11.4.2-MariaDB", "8.0.19", "8.4.0", "9.1.0"] {
            assert!(server(version, "OFF").check().is_ok(), "{version}");
        }
        for version in ["10.5.27-MariaDB", "5.7.44-log", "8.0.18", ""] {
            assert!(server(version, "").check().unwrap_err().to_string().contains("too old"), "{version}");
        }
        let refused = server("10.11.19-MariaDB", "ON").check().unwrap_err().to_string();
        assert!(refused.contains("Galera"), "{refused}");
    }

    #[test]
    fn each_server_has_its_binary_collation() {
        assert_eq!(server("10.6.0-MariaDB", "").collation(), "utf8mb4_nopad_bin");
        assert_eq!(server("8.0.36", "").collation(), "utf8mb4_0900_bin");
    }
}
