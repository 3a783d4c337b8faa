//! Migrate: the numbered files of each database, and the check whether this program can work on the schema.

use crate::error::StoreError;

/// One numbered step of a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Migration {
    /// The number, counted from 1.
    pub version: i32,
    /// The file's name without the number.
    pub name: &'static str,
    pub(crate) sql: &'static str,
}

impl Migration {
    /// Returns the lowest program version that can work on a schema with this step, as its file declares.
    #[must_use]
    pub fn least_program(&self) -> &'static str {
        self.sql.lines().find_map(|line| line.strip_prefix("-- Least program: ")).unwrap_or("0.1.0").trim()
    }
}

/// The rights of a database role on the outbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The role may emit events, and nothing else.
    Emit,
    /// The role may run relays and administer the outbox.
    Relay,
}

/// Checks the applied migrations against the migrations that this program knows. `None` means that the table of migrations
/// does not exist.
pub(crate) fn check(made: Option<&[(i32, String)]>, known: &[Migration]) -> Result<(), StoreError> {
    let needed = known.last().map_or(0, |migration| migration.version);
    let not_migrated = |found: String| Err(StoreError::NotMigrated { found, needed });
    let Some((version, _)) = made.and_then(<[_]>::last) else { return not_migrated("missing".to_owned()) };
    if *version < needed {
        return not_migrated(format!("at version {version}"));
    }
    let ours = env!("CARGO_PKG_VERSION");
    let too_new = made.into_iter().flatten().find(|(_, least)| parts(least) > parts(ours));
    match too_new {
        Some((found, least)) => Err(StoreError::ProgramTooOld { found: *found, least: least.clone(), ours }),
        None => Ok(()),
    }
}

fn parts(version: &str) -> Vec<u32> {
    version.split('.').map(|part| part.parse().unwrap_or(0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[Migration] = &[
        Migration { version: 1, name: "a", sql: "-- Least program: 0.1.0\n" },
        Migration { version: 2, name: "b", sql: "-- Least program: 0.1.0\n" },
    ];

    fn verdict(made: Option<&[(i32, &str)]>) -> Result<(), String> {
        let made: Option<Vec<(i32, String)>> =
            made.map(|made| made.iter().map(|(version, least)| (*version, (*least).to_owned())).collect());
        check(made.as_deref(), KNOWN).map_err(|error| error.to_string())
    }

    #[test]
    fn an_older_schema_is_refused_with_the_command_to_run() {
        assert!(verdict(None).unwrap_err().contains("missing, this program needs version 2; run `pillarbox migrate`"));
        assert!(verdict(Some(&[(1, "0.1.0")])).unwrap_err().contains("at version 1"));
    }

    #[test]
    fn a_newer_schema_is_fine_until_it_says_otherwise() {
        assert!(verdict(Some(&[(1, "0.1.0"), (2, "0.1.0"), (3, "0.1.0")])).is_ok());
        let error = verdict(Some(&[(1, "0.1.0"), (2, "0.1.0"), (3, "99.0.0")])).unwrap_err();
        assert!(error.contains("version 3, which needs pillarbox 99.0.0"), "{error}");
    }
}
