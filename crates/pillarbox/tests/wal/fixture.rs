//! An outbox whose log is enabled, a relay on it, and destinations that do as they are told.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use pillarbox::relay::BreakerSettings;
use pillarbox::source::wal::{LogMetrics, OutboxTable, WalSettings, WalStore};
use pillarbox::store::postgres::{LogSettings, PostgresSettings, PostgresStore};
use pillarbox::{
    Destination, Message, OnDelivered, Relay, RelaySettings, RetryPolicy, Route, SendError, Sink, StoreError,
};
use pillarbox_testkit::postgres::PrivatePostgres;
use pillarbox_testkit::wait_until;
use sqlx::postgres::PgPool;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use uuid::Uuid;

/// More than enough for anything that is going to happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The settings of a server whose log can be read.
pub(crate) const LOGICAL: [(&str, &str); 3] =
    [("fsync", "off"), ("wal_level", "logical"), ("max_slot_wal_keep_size", "1GB")];

pub(crate) const SLOT: &str = "pillarbox_log";

pub(crate) struct Outbox {
    pub(crate) server: PrivatePostgres,
    pub(crate) pool: PgPool,
    pub(crate) secret: String,
    /// The application's own outbox table.
    pub(crate) table: Option<OutboxTable>,
}

impl Outbox {
    pub(crate) async fn new() -> Self {
        Self::on(PrivatePostgres::start_with(&LOGICAL).await).await
    }

    pub(crate) async fn on(server: PrivatePostgres) -> Self {
        Self::enabled(server, "", None).await
    }

    /// An outbox beside an application's own outbox table, which this statement creates.
    pub(crate) async fn with_table(create: &'static str, table: OutboxTable) -> Self {
        Self::enabled(PrivatePostgres::start_with(&LOGICAL).await, create, Some(table)).await
    }

    async fn enabled(server: PrivatePostgres, create: &'static str, table: Option<OutboxTable>) -> Self {
        // On a busy machine a new server may be silent for longer than a relay would wait.
        let settings = PostgresSettings { deadline: PATIENCE, ..PostgresSettings::default() };
        let store = PostgresStore::connect_with(&server.url(), "public", settings).await.unwrap();
        store.migrate().await.unwrap();
        let pool = store.pool().clone();
        sqlx::raw_sql(create).execute(&pool).await.unwrap();
        let log = LogSettings { slot: Some(SLOT.to_owned()), table: table.clone(), ..LogSettings::default() };
        store.log_enable(&log, &mut |_| {}).await.unwrap();
        let secret = sqlx::query_scalar("SELECT secret FROM outbox_log_key").fetch_one(&pool).await.unwrap();
        Self { server, pool, secret, table }
    }

    pub(crate) async fn store(&self) -> WalStore {
        let table = self.table.clone();
        self.store_with(WalSettings { lease: Duration::from_secs(4), table, ..WalSettings::default() }).await
    }

    pub(crate) async fn store_with(&self, settings: WalSettings) -> WalStore {
        WalStore::new(PostgresStore::connect(&self.server.url(), "public").await.unwrap(), settings)
    }

    /// Opens a store on other servers than this one.
    pub(crate) async fn store_at(&self, url: &str) -> WalStore {
        let settings = WalSettings { lease: Duration::from_secs(4), ..WalSettings::default() };
        let patient = PostgresSettings { deadline: Duration::from_secs(2), ..PostgresSettings::default() };
        WalStore::new(PostgresStore::connect_with(url, "public", patient).await.unwrap(), settings)
    }

    /// Starts a relay that sends everything to this place, and waits until it reads the log and has opened the gate.
    pub(crate) async fn relay(&self, place: &Place) -> Running {
        let running = self.start(place, impatient()).await;
        self.gate_is(true).await;
        running
    }

    pub(crate) async fn start(&self, place: &Place, settings: RelaySettings) -> Running {
        Running::with(self.store().await, place, settings)
    }

    /// Connects again, after the server was restarted.
    pub(crate) async fn connect_again(&mut self) {
        self.pool = PgPool::connect(&self.server.url()).await.unwrap();
    }

    /// Waits until emits would write into the log, or into the table.
    pub(crate) async fn gate_is(&self, open: bool) {
        wait_until(if open { "the gate is open" } else { "the gate is closed" }, PATIENCE, async || {
            self.is_open().await == open
        })
        .await;
    }

    pub(crate) async fn is_open(&self) -> bool {
        let until = "SELECT coalesce(pg_sequence_last_value('outbox_log_until') > date_part('epoch', clock_timestamp()), false)";
        sqlx::query_scalar(until).fetch_one(&self.pool).await.unwrap()
    }

    /// Commits a transaction with so many events in the log; returns their ids.
    pub(crate) async fn emit(&self, count: usize) -> Vec<Uuid> {
        let mut tx = self.pool.begin().await.unwrap();
        let ids = self.emit_in(&mut tx, count).await;
        tx.commit().await.unwrap();
        ids
    }

    pub(crate) async fn emit_in(&self, connection: &mut sqlx::PgConnection, count: usize) -> Vec<Uuid> {
        let ids: Vec<Uuid> = (0..count).map(|_| Uuid::now_v7()).collect();
        let emit = "SELECT count(pg_logical_emit_message(true, 'pillarbox:' || $1, '1' || jsonb_build_object('id', id, \
                    'aggregate_type', 'Order', 'aggregate_id', place::text, 'event_type', 'order.placed', 'payload', \
                    jsonb_build_object('n', place), 'headers', jsonb_build_object('tenant', 'acme'), 'max_attempts', null, \
                    'created_at', to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"'))::text)) \
                    FROM unnest($2::uuid[]) WITH ORDINALITY AS given (id, place)";
        sqlx::query(emit).bind(&self.secret).bind(&ids).execute(connection).await.unwrap();
        ids
    }

    /// Writes a message into the log as it is.
    pub(crate) async fn message(&self, prefix: &str, content: &str) {
        let emit = sqlx::query("SELECT pg_logical_emit_message(true, $1, $2)");
        emit.bind(prefix).bind(content).execute(&self.pool).await.unwrap();
    }

    /// The number of rows of each status.
    pub(crate) async fn rows(&self) -> BTreeMap<String, i64> {
        let count = "SELECT status::text, count(*) FROM outbox_event GROUP BY status";
        sqlx::query_as::<_, (String, i64)>(count).fetch_all(&self.pool).await.unwrap().into_iter().collect()
    }

    /// Waits until the stored position is at the end of the log: nothing is left to read.
    pub(crate) async fn is_drained(&self) {
        let end: String =
            sqlx::query_scalar("SELECT pg_current_wal_insert_lsn()::text").fetch_one(&self.pool).await.unwrap();
        wait_until("everything is confirmed", PATIENCE, async || {
            let reached =
                sqlx::query_scalar("SELECT coalesce(confirmed >= $1::pg_lsn, false) FROM outbox_log").bind(&end);
            reached.fetch_one(&self.pool).await.unwrap()
        })
        .await;
    }
}

/// Changes settings of a server, which must not be among those that it was started with.
pub(crate) async fn set(pool: &PgPool, statement: &'static str) {
    sqlx::raw_sql(statement).execute(pool).await.unwrap();
    sqlx::raw_sql("SELECT pg_reload_conf()").execute(pool).await.unwrap();
}

pub(crate) async fn create_slot(pool: &PgPool) {
    let slot = "SELECT pg_create_logical_replication_slot('pillarbox_log', 'pgoutput')";
    sqlx::query(slot).execute(pool).await.unwrap();
}

/// Retries soon, probes soon, deletes what is delivered.
pub(crate) fn impatient() -> RelaySettings {
    RelaySettings {
        retry: RetryPolicy { base: Duration::from_millis(50), ..RetryPolicy::default() },
        breaker: BreakerSettings {
            threshold: 3,
            base: Duration::from_millis(20),
            cap: Duration::from_millis(20),
            patience: 1000,
        },
        poll_interval: Duration::from_millis(50),
        on_delivered: OnDelivered::Delete,
        shutdown_timeout: Duration::from_secs(2),
        ..RelaySettings::default()
    }
}

/// A relay that runs.
pub(crate) struct Running {
    pub(crate) store: WalStore,
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<(), StoreError>>,
}

impl Running {
    /// Starts a relay that sends everything to this place.
    pub(crate) fn to(store: WalStore, place: &Place) -> Self {
        Self::with(store, place, impatient())
    }

    fn with(store: WalStore, place: &Place, settings: RelaySettings) -> Self {
        let destination = Destination::new("place", place.clone()).timeout(Duration::from_secs(1));
        let relay = Relay::builder(Arc::new(store.clone())).settings(settings).destination(destination);
        Self::start(store, relay.route(Route::new("*", ["place"])).build().unwrap())
    }

    pub(crate) fn start(store: WalStore, relay: Relay) -> Self {
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(async move { relay.run(async { drop(stopped.await) }).await });
        Self { store, stop, task }
    }

    pub(crate) fn metrics(&self) -> LogMetrics {
        self.store.log_metrics()
    }

    pub(crate) async fn leads(&self) {
        wait_until("the relay leads", PATIENCE, async || self.metrics().leads).await;
    }

    pub(crate) async fn stop(self) -> LogMetrics {
        let _ = self.stop.send(());
        self.task.await.unwrap().unwrap();
        self.store.log_metrics()
    }
}

/// A destination whose behaviour the test sets, and which remembers what it got.
#[derive(Clone)]
pub(crate) struct Place(Arc<Inner>);

type Behaviour = dyn Fn(&Message) -> Result<(), SendError> + Send + Sync;

struct Inner {
    behave: Mutex<Arc<Behaviour>>,
    got: Mutex<Vec<Uuid>>,
    asked: AtomicUsize,
    slow: Mutex<Duration>,
}

impl Place {
    pub(crate) fn that(behave: impl Fn(&Message) -> Result<(), SendError> + Send + Sync + 'static) -> Self {
        Self(Arc::new(Inner {
            behave: Mutex::new(Arc::new(behave)),
            got: Mutex::default(),
            asked: AtomicUsize::new(0),
            slow: Mutex::default(),
        }))
    }

    pub(crate) fn fine() -> Self {
        Self::that(|_| Ok(()))
    }

    pub(crate) fn now(&self, behave: impl Fn(&Message) -> Result<(), SendError> + Send + Sync + 'static) {
        *self.0.behave.lock().unwrap() = Arc::new(behave);
    }

    pub(crate) fn takes(&self, time: Duration) {
        *self.0.slow.lock().unwrap() = time;
    }

    /// What it has confirmed, in order.
    pub(crate) fn got(&self) -> Vec<Uuid> {
        self.0.got.lock().unwrap().clone()
    }

    /// What it has confirmed, each once and sorted.
    pub(crate) fn got_once(&self) -> Vec<Uuid> {
        let mut got = self.got();
        got.sort_unstable();
        got.dedup();
        got
    }

    pub(crate) fn asked(&self) -> usize {
        self.0.asked.load(Ordering::SeqCst)
    }

    /// Waits until it has got all of these.
    pub(crate) async fn gets(&self, ids: &[Uuid]) {
        let mut wanted = ids.to_vec();
        wanted.sort_unstable();
        wait_until("everything has arrived", PATIENCE, async || {
            let got = self.got_once();
            wanted.iter().all(|id| got.binary_search(id).is_ok())
        })
        .await;
    }
}

#[async_trait]
impl Sink for Place {
    async fn send(&self, messages: &[Message]) -> Vec<Result<(), SendError>> {
        let slow = *self.0.slow.lock().unwrap();
        if !slow.is_zero() {
            tokio::time::sleep(slow).await;
        }
        let behave = Arc::clone(&self.0.behave.lock().unwrap());
        let mut answers = Vec::new();
        for message in messages {
            self.0.asked.fetch_add(1, Ordering::SeqCst);
            let answer = behave(message);
            if answer.is_ok() {
                self.0.got.lock().unwrap().push(message.id);
            }
            answers.push(answer);
        }
        answers
    }
}
