//! Migrate: the numbered files, with one transaction for all missing ones.

use super::{Call, Database, Row, Through, Transaction, database};
use crate::error::{DriverError, StoreError};
use crate::store::migrate::{self, Migration};

/// Applies the missing migrations and returns them. Several programs may do so at once.
pub(in crate::store) async fn migrate<D: Database>(store: &D) -> Result<Vec<Migration>, StoreError> {
    apply_missing(store).await.map_err(database("migrating the outbox's tables"))
}

async fn apply_missing<D: Database>(store: &D) -> Result<Vec<Migration>, DriverError> {
    let sql = D::statements();
    let mut tx = store.begin_to_migrate().await?;
    tx.script(sql.migrations_table.into()).await?;
    let made = versions(&tx.rows(Call::new(sql.migrations_made)).await?)?;
    let missing: Vec<Migration> = D::MIGRATIONS
        .iter()
        .filter(|known| made.iter().all(|(version, _)| *version != known.version))
        .copied()
        .collect();
    for migration in &missing {
        tx.script(migration.sql.into()).await?;
        let line = Call::new(sql.migrations_write)
            .bind(migration.version)
            .bind(migration.name)
            .bind(migration.least_program());
        tx.done(line).await?;
    }
    tx.commit().await?;
    Ok(missing)
}

pub(super) async fn check<D: Database>(store: &D) -> Result<(), StoreError> {
    let doing = "reading the schema's version";
    match store.rows(Through::People, Call::new(D::statements().migrations_made)).await {
        Ok(rows) => migrate::check(Some(&versions(&rows).map_err(database(doing))?), D::MIGRATIONS),
        Err(error) if D::is_missing_table(&error) => migrate::check(None, D::MIGRATIONS),
        Err(error) => Err(database(doing)(error)),
    }
}

/// Returns each applied version with the lowest program version that can work on it.
fn versions(rows: &[impl Row]) -> Result<Vec<(i32, String)>, DriverError> {
    let version = |row: &_| {
        let number = Row::number(row, "version")?;
        Ok((i32::try_from(number).unwrap_or(i32::MAX), Row::text(row, "least_program")?))
    };
    rows.iter().map(version).collect()
}
