//! Migrate on PostgreSQL: the numbered files, one transaction for all that are missing, and the grants.

use std::time::Duration;

use sqlx::AssertSqlSafe;

use super::{PostgresStore, database};
use crate::error::StoreError;
use crate::store::migrate::{self, Migration, Role};

pub(super) const MIGRATIONS: &[Migration] =
    &[Migration { version: 1, name: "outbox", sql: include_str!("../../../sql/postgres/migrations/0001_outbox.sql") }];

/// How long a migration may take, of a table with many rows for instance.
const LONGEST: Duration = Duration::from_secs(4 * 3600);
/// Relation does not exist, and schema does not exist.
const NOT_THERE: [&str; 2] = ["42P01", "3F000"];

impl PostgresStore {
    /// Applies what is missing and answers it: nothing, when the schema is up to date. Several may do so at once.
    ///
    /// # Errors
    /// What the database said; nothing was applied then.
    pub async fn migrate(&self) -> Result<Vec<Migration>, StoreError> {
        self.apply_missing().await.map_err(database("migrating the outbox's tables"))
    }

    async fn apply_missing(&self) -> Result<Vec<Migration>, sqlx::Error> {
        let mut tx = self.pool.patient(LONGEST).begin().await?;
        tx.run("SELECT pg_advisory_xact_lock(hashtext('pillarbox migrate'))").await?;
        // IF NOT EXISTS would still ask for the right to create schemas, which an owner of tables need not have.
        let there: bool = self
            .schema
            .query_scalar("SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)")
            .bind(self.schema.name())
            .fetch_one(&mut *tx)
            .await?;
        if !there {
            tx.run(self.schema.sql("CREATE SCHEMA {schema}")).await?;
        }
        tx.run(self.schema.sql("SET LOCAL search_path TO {schema}")).await?;
        tx.run(include_str!("../../../sql/postgres/migrations_table.sql")).await?;
        let made: Vec<(i32, String)> =
            self.schema.query_as(include_str!("../../../sql/postgres/migrations_made.sql")).fetch_all(&mut *tx).await?;
        let missing: Vec<Migration> = MIGRATIONS
            .iter()
            .filter(|known| made.iter().all(|(version, _)| *version != known.version))
            .copied()
            .collect();
        for migration in &missing {
            tx.run(migration.sql).await?;
            self.schema
                .query("INSERT INTO outbox_migration (version, name, least_program) VALUES ($1, $2, $3)")
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
            self.schema.query_as(include_str!("../../../sql/postgres/migrations_made.sql")).fetch_all(&self.pool).await;
        match made {
            Ok(made) => migrate::check(Some(&made), MIGRATIONS),
            Err(sqlx::Error::Database(error))
                if error.code().is_some_and(|code| NOT_THERE.contains(&code.as_ref())) =>
            {
                migrate::check(None, MIGRATIONS)
            }
            Err(error) => Err(database("looking at the outbox's tables")(error)),
        }
    }

    /// The statements that give a database role what it needs, for people to read.
    #[must_use]
    pub fn grants(&self, kind: Role, role: &str) -> String {
        let text = match kind {
            Role::Emit => include_str!("../../../sql/postgres/grants_emit.sql"),
            Role::Relay => include_str!("../../../sql/postgres/grants_relay.sql"),
        };
        let quoted = format!("\"{}\"", role.replace('"', "\"\""));
        self.schema.sql(text).0.replace("{role}", &quoted)
    }

    /// Gives a database role what it needs.
    ///
    /// # Errors
    /// What the database said; nothing was granted then.
    pub async fn grant(&self, kind: Role, role: &str) -> Result<(), StoreError> {
        self.apply_grants(kind, role).await.map_err(database("granting rights"))
    }

    async fn apply_grants(&self, kind: Role, role: &str) -> Result<(), sqlx::Error> {
        let mut tx = self.pool.begin().await?;
        tx.run(AssertSqlSafe(self.grants(kind, role))).await?;
        tx.commit().await
    }
}
