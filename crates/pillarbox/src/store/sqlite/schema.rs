//! Migrate on SQLite: the numbered files.

use super::SqliteStore;
use crate::error::StoreError;
use crate::store::migrate::Migration;
use crate::store::sql;

pub(super) const MIGRATIONS: &[Migration] = &[
    Migration { version: 1, name: "outbox", sql: include_str!("../../../sql/sqlite/migrations/0001_outbox.sql") },
    Migration { version: 2, name: "desk", sql: include_str!("../../../sql/sqlite/migrations/0002_desk.sql") },
];

impl SqliteStore {
    /// Applies the missing migrations and returns them. Several programs may do so at once.
    ///
    /// # Errors
    /// When the database returns an error; then nothing was applied.
    pub async fn migrate(&self) -> Result<Vec<Migration>, StoreError> {
        sql::migrate(self).await
    }
}
