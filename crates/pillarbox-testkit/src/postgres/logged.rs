//! An outbox on a private PostgreSQL whose write-ahead log can be decoded, for tests of events in the log.

use pillarbox::store::postgres::{LogSettings, PostgresStore};
use serde_json::Value;
use sqlx::{AssertSqlSafe, Executor};

use super::PrivatePostgres;

/// The slot that reads for the test. Unlike the outbox's, it shows messages as text.
const PROBE: &str = "probe";

/// A server of its own with a migrated outbox, whose log is enabled and whose gate is the test's.
#[derive(Debug)]
pub struct LoggedPostgres {
    store: PostgresStore,
    server: PrivatePostgres,
}

impl LoggedPostgres {
    /// Starts the server and enables the log. The gate is shut.
    ///
    /// # Panics
    /// When something of that fails.
    pub async fn start() -> Self {
        let server = PrivatePostgres::start_logical().await;
        let store = PostgresStore::connect(&server.url(), "public").await.expect("a connection");
        store.migrate().await.expect("a migration");
        store.log_enable(&LogSettings::default(), &mut |_| {}).await.expect("the log can be enabled");
        let logged = Self { store, server };
        logged.execute(&format!("SELECT pg_create_logical_replication_slot('{PROBE}', 'test_decoding')")).await;
        logged
    }

    /// Opens the gate for an hour, as a relay does for seconds.
    ///
    /// # Panics
    /// When the database returns an error.
    pub async fn open_gate(&self) {
        self.execute("SELECT setval('outbox_log_until', ceil(extract(epoch FROM clock_timestamp()))::bigint + 3600)")
            .await;
    }

    /// Shuts the gate.
    ///
    /// # Panics
    /// When the database returns an error.
    pub async fn shut_gate(&self) {
        self.execute("SELECT setval('outbox_log_until', 0)").await;
    }

    /// Returns the events that were committed to the log since the last call, in the order of their commits. Their prefix has the
    /// secret, and their content the version.
    ///
    /// # Panics
    /// When one is not as it must be.
    pub async fn events(&self) -> Vec<Value> {
        let prefix: Option<String> = sqlx::query_scalar("SELECT 'pillarbox:' || secret FROM outbox_log_key")
            .fetch_optional(self.store.pool())
            .await
            .expect("the key can be read");
        let prefix = prefix.unwrap_or_default();
        let read = "SELECT data FROM pg_logical_slot_get_changes($1, NULL, NULL) WHERE data LIKE 'message: %'";
        let messages: Vec<String> =
            sqlx::query_scalar(read).bind(PROBE).fetch_all(self.store.pool()).await.expect("the slot can be read");
        let event = |message: &String| {
            let expected = format!("message: transactional: 1 prefix: {prefix}, ");
            let rest = message.strip_prefix(&expected).unwrap_or_else(|| panic!("{message}"));
            let (_, content) = rest.split_once(" content:1").unwrap_or_else(|| panic!("{message}"));
            serde_json::from_str(content).unwrap_or_else(|error| panic!("{error}: {message}"))
        };
        messages.iter().map(event).collect()
    }

    /// Returns the number of events in the table.
    ///
    /// # Panics
    /// When the database returns an error.
    pub async fn rows(&self) -> i64 {
        let count = sqlx::query_scalar("SELECT count(*) FROM outbox_event");
        count.fetch_one(self.store.pool()).await.expect("the table can be read")
    }

    /// Runs statements without values.
    ///
    /// # Panics
    /// When the database returns an error.
    pub async fn execute(&self, statements: &str) {
        let statements = sqlx::raw_sql(AssertSqlSafe(statements.to_owned()));
        self.store.pool().execute(statements).await.expect("statements that work");
    }

    /// Returns the store.
    pub fn store(&self) -> &PostgresStore {
        &self.store
    }

    /// Returns the server.
    pub fn server(&self) -> &PrivatePostgres {
        &self.server
    }

    /// Returns the database's URL.
    pub fn url(&self) -> String {
        self.server.url()
    }
}
