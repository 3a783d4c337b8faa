//! A directory to run the program in.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use pillarbox::celery::{Task, send_task};
use pillarbox::store::sqlite::SqliteStore;
use serde_json::Value;
use sqlx::Connection;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use tempfile::TempDir;

/// Routes everything to a destination that succeeds at once.
pub(crate) const DISCARD: &str = "[destinations.nowhere]\nkind = \"discard\"\n[[routes]]\nto = [\"nowhere\"]\n";

/// An empty directory and an environment without settings, but for where the admin is not served.
pub(crate) struct Home {
    directory: TempDir,
    variables: Vec<(String, String)>,
}

/// What came of running the program.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Home {
    pub(crate) fn new() -> Self {
        Self { directory: tempfile::tempdir().expect("a temporary directory"), variables: Vec::new() }
    }

    pub(crate) fn with_config(text: &str) -> Self {
        let home = Self::new();
        home.write("pillarbox.toml", text);
        home
    }

    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.variables.push((name.to_owned(), value.to_owned()));
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("a file can be written");
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pillarbox"));
        command.args(arguments).current_dir(self.directory.path()).env_clear();
        // Many relays run beside each other, and the usual place is one.
        command.env("PILLARBOX_ADMIN_LISTEN", "off");
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Done {
        Done::of(self.command(arguments).stdin(Stdio::null()).output().expect("the program runs"))
    }

    pub(crate) fn run_with_input(&self, arguments: &[&str], input: &str) -> Done {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        child.stdin.take().expect("stdin is piped").write_all(input.as_bytes()).expect("it reads its input");
        Done::of(child.wait_with_output().expect("the program ends"))
    }

    /// Runs it with `--json`, which must succeed, and answers the one value it wrote.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let done = self.run(&[arguments, &["--json"]].concat());
        assert_eq!(done.code, 0, "{done:?}");
        done.json()
    }

    pub(crate) fn emit(&self, aggregate_id: &str, more: &[&str]) -> String {
        let emitted = self.json(&[&["emit", "Order", aggregate_id, "order.placed"], more].concat());
        emitted["id"].as_str().expect("an id").to_owned()
    }

    /// As if the event had been emitted, and had failed, so many hours earlier. On SQLite.
    pub(crate) async fn age(&self, id: &str, hours: u32) {
        let file = SqliteConnectOptions::new().filename(self.path("pillarbox.db"));
        let mut connection = SqliteConnection::connect_with(&file).await.expect("the outbox's file");
        let earlier = "UPDATE outbox_event SET updated_at = strftime('%Y-%m-%dT%H:%M:%fZ', updated_at, ?2),
                       created_at = strftime('%Y-%m-%dT%H:%M:%fZ', created_at, ?2) WHERE id = ?1";
        let aged = sqlx::query(earlier).bind(id).bind(format!("-{hours} hours")).execute(&mut connection).await;
        assert_eq!(aged.expect("an update").rows_affected(), 1);
        connection.close().await.expect("the file is closed");
    }

    /// As if another program had written a payload that is no base64. On SQLite.
    pub(crate) async fn spoil_payload(&self, id: &str) {
        let file = SqliteConnectOptions::new().filename(self.path("pillarbox.db"));
        let mut connection = SqliteConnection::connect_with(&file).await.expect("the outbox's file");
        let spoilt =
            sqlx::query("UPDATE outbox_event SET payload = '{}' WHERE id = ?1").bind(id).execute(&mut connection);
        assert_eq!(spoilt.await.expect("an update").rows_affected(), 1);
        connection.close().await.expect("the file is closed");
    }

    /// As if somebody had dropped the outbox. On SQLite.
    pub(crate) async fn forget_tables(&self) {
        let file = SqliteConnectOptions::new().filename(self.path("pillarbox.db"));
        let mut connection = SqliteConnection::connect_with(&file).await.expect("the outbox's file");
        sqlx::query("DROP TABLE outbox_migration").execute(&mut connection).await.expect("the table is dropped");
        connection.close().await.expect("the file is closed");
    }

    /// Sends a Celery task in a transaction of its own, as an application does.
    pub(crate) async fn send_task(&self, task: Task) {
        let store = SqliteStore::open(self.path("pillarbox.db")).await.expect("the outbox");
        let mut tx = store.pool().begin().await.expect("a transaction");
        send_task(&mut tx, task).await.expect("a task that can be sent");
        tx.commit().await.expect("a commit");
    }

    /// The state of an event, as `events show` has it.
    pub(crate) fn state(&self, id: &str) -> String {
        self.json(&["events", "show", id])["state"].as_str().expect("a state").to_owned()
    }
}

impl Done {
    fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        Self { code: output.status.code().expect("no signal"), out: text(output.stdout), err: text(output.stderr) }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The error of a run with `--json`.
    pub(crate) fn json_error(&self) -> String {
        let error: Value = serde_json::from_str(&self.err).unwrap_or_else(|error| panic!("{error}: {self:?}"));
        error["error"].as_str().expect("an error").to_owned()
    }

    pub(crate) fn succeeded(self) -> Self {
        assert_eq!(self.code, 0, "{self:?}");
        self
    }
}
