//! Migrate on PostgreSQL: the numbered files, and the grants.

use super::error::Error;
use super::{PostgresStore, SQL, database};
use crate::error::StoreError;
use crate::store::migrate::{Migration, Role};
use crate::store::sql;

pub(super) const MIGRATIONS: &[Migration] = &[
    Migration { version: 1, name: "outbox", sql: include_str!("../../../sql/postgres/migrations/0001_outbox.sql") },
    Migration { version: 2, name: "desk", sql: include_str!("../../../sql/postgres/migrations/0002_desk.sql") },
];

impl PostgresStore {
    /// Applies the missing migrations and returns them. Several programs may do so at once.
    ///
    /// # Errors
    /// When the database returns an error; then nothing was applied.
    pub async fn migrate(&self) -> Result<Vec<Migration>, StoreError> {
        sql::migrate(self).await
    }

    /// Returns the statements that grant a database role its rights, for people to read.
    #[must_use]
    pub fn grants(&self, kind: Role, role: &str) -> String {
        let text = match kind {
            Role::Emit => SQL.grants_emit,
            Role::Relay => SQL.grants_relay,
        };
        let quoted = format!("\"{}\"", role.replace('"', "\"\""));
        self.schema.sql(text).replace("{role}", &quoted)
    }

    /// Grants a database role its rights.
    ///
    /// # Errors
    /// When the database returns an error; then nothing was granted.
    pub async fn grant(&self, kind: Role, role: &str) -> Result<(), StoreError> {
        self.apply_grants(kind, role).await.map_err(database("granting rights"))
    }

    async fn apply_grants(&self, kind: Role, role: &str) -> Result<(), Error> {
        let mut tx = self.pool.begin().await?;
        tx.run(&self.grants(kind, role)).await?;
        tx.commit().await
    }
}
