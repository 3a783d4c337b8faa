//! Migrate on SQLite: the numbered files, one transaction for all that are missing.

use sqlx::{AssertSqlSafe, Executor};

use super::{SqliteStore, database};
use crate::error::StoreError;
use crate::store::migrate::{self, Migration};

const MIGRATIONS: &[Migration] =
    &[Migration { version: 1, name: "outbox", sql: include_str!("../../../sql/sqlite/migrations/0001_outbox.sql") }];

impl SqliteStore {
    /// Applies what is missing and answers it: nothing, when the schema is up to date. Several may do so at once.
    ///
    /// # Errors
    /// What the database said; nothing was applied then.
    pub async fn migrate(&self) -> Result<Vec<Migration>, StoreError> {
        self.apply_missing().await.map_err(database("migrating the outbox's tables"))
    }

    async fn apply_missing(&self) -> Result<Vec<Migration>, sqlx::Error> {
        let mut tx = self.durable.begin_with("BEGIN IMMEDIATE").await?;
        tx.execute(include_str!("../../../sql/sqlite/migrations_table.sql")).await?;
        let made: Vec<(i32, String)> =
            sqlx::query_as(include_str!("../../../sql/sqlite/migrations_made.sql")).fetch_all(&mut *tx).await?;
        let missing: Vec<Migration> = MIGRATIONS
            .iter()
            .filter(|known| made.iter().all(|(version, _)| *version != known.version))
            .copied()
            .collect();
        for migration in &missing {
            tx.execute(sqlx::raw_sql(AssertSqlSafe(migration.sql))).await?;
            sqlx::query("INSERT INTO outbox_migration (version, name, least_program) VALUES (?1, ?2, ?3)")
                .bind(migration.version)
                .bind(migration.name)
                .bind(migration.least_program())
                .execute(&mut *tx)
                .await?;
        }
        tx.commit().await?;
        Ok(missing)
    }

    pub(super) async fn check_schema(&self) -> Result<(), StoreError> {
        let made: Result<Vec<(i32, String)>, sqlx::Error> =
            sqlx::query_as(include_str!("../../../sql/sqlite/migrations_made.sql")).fetch_all(&self.durable).await;
        match made {
            Ok(made) => migrate::check(Some(&made), MIGRATIONS),
            Err(sqlx::Error::Database(error)) if error.message().contains("no such table") => {
                migrate::check(None, MIGRATIONS)
            }
            Err(error) => Err(database("looking at the outbox's tables")(error)),
        }
    }
}
