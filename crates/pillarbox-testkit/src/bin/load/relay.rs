//! The relay of a measurement: the library's relay, on a database, with one destination.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use pillarbox::sink::Discard;
use pillarbox::source::wal::{WalSettings, WalStore};
use pillarbox::{
    ClaimBy, Destination, Message, OnDelivered, OnFailed, Order, Relay, RelayBuilder, RelaySettings, Route, SendError,
    Store,
};
use pillarbox_sinks::celery::{CelerySettings, CelerySink};
use pillarbox_sinks::http::{HttpSettings, HttpSink};
use serde_json::{Value, json};

use crate::database::Database;
use crate::order::schemas;

/// The destination of the events.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Kind {
    /// An application's handler that does nothing, called once for each event.
    Noop,
    /// The sink that discards whole batches.
    Discard,
    /// An HTTP receiver.
    Http,
    /// A broker of Celery.
    Celery,
}

/// Whether the events of one aggregate are sent one after another.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Ordering {
    /// Events are sent in any order.
    None,
    /// Events are sent in order, and a failed event blocks the others of its aggregate.
    Aggregate,
}

/// The source and the destination of the events.
#[derive(Args)]
pub(crate) struct RelayArguments {
    /// postgres://… or mysql://…
    #[arg(long)]
    pub(crate) database: String,
    #[arg(long, value_enum, default_value = "noop")]
    sink: Kind,
    /// The URL of the HTTP receiver.
    #[arg(long)]
    url: Option<String>,
    /// The URL of the broker: amqp://… or redis://…
    #[arg(long)]
    broker: Option<String>,
    /// The queue of Celery's messages.
    #[arg(long, default_value = "celery")]
    queue: String,
    /// Delete delivered events.
    #[arg(long)]
    delete: bool,
    #[arg(long)]
    batch_size: Option<usize>,
    /// The number of concurrent sends.
    #[arg(long)]
    concurrency: Option<usize>,
    #[arg(long, value_enum, default_value = "none")]
    order: Ordering,
    /// Hold claims by leases only.
    #[arg(long)]
    lease: bool,
    /// Read events from PostgreSQL's write-ahead log, too.
    #[arg(long)]
    wal: bool,
    /// Check each payload against the JSON Schema of the orders of `fill --form order`.
    #[arg(long)]
    schema: bool,
}

impl RelayArguments {
    pub(crate) async fn open(&self) -> Result<Database> {
        Database::open(&self.database).await
    }

    /// Returns the store of the relay, and its log if it reads one.
    pub(crate) fn store(&self, database: &Database) -> (Arc<dyn Store>, Option<WalStore>) {
        match database {
            Database::Postgres(store) if self.wal => {
                let log = WalStore::new(store.clone(), WalSettings::default());
                (Arc::new(log.clone()), Some(log))
            }
            _ => (database.store(), None),
        }
    }

    pub(crate) fn settings(&self) -> RelaySettings {
        let mut settings = RelaySettings::default();
        settings.on_delivered = if self.delete { OnDelivered::Delete } else { OnDelivered::Keep };
        settings.batch_size = self.batch_size.unwrap_or(settings.batch_size);
        // A broker receives whole batches, and the program sends two of them at once.
        let usual = if matches!(self.sink, Kind::Celery) { 2 } else { settings.concurrency };
        settings.concurrency = self.concurrency.unwrap_or(usual);
        settings.order = match self.order {
            Ordering::None => Order::None,
            Ordering::Aggregate => Order::Aggregate(OnFailed::Block),
        };
        settings.claim_by = if self.lease { ClaimBy::Lease } else { ClaimBy::Auto };
        settings.shutdown_timeout = Duration::from_secs(5);
        settings
    }

    fn builder(&self, store: Arc<dyn Store>) -> RelayBuilder {
        let builder = Relay::builder(store).settings(self.settings());
        if self.schema { builder.check(Arc::new(schemas())) } else { builder }
    }

    /// Returns a relay that sends all events to a handler in this process, whatever the sink argument is.
    pub(crate) fn handled<R>(
        &self,
        store: Arc<dyn Store>,
        handler: impl Fn(Message) -> R + Send + Sync + 'static,
    ) -> RelayBuilder
    where
        R: Future<Output = Result<(), SendError>> + Send + 'static,
    {
        self.builder(store).handler("*", handler)
    }

    /// Returns a relay that sends all events to the one destination.
    pub(crate) fn relay(&self, store: Arc<dyn Store>) -> Result<RelayBuilder> {
        let destination = match self.sink {
            Kind::Noop => return Ok(self.handled(store, async |_| Ok(()))),
            Kind::Discard => Destination::new("there", Discard),
            Kind::Http => Destination::new("there", http(self.url.as_deref().context("--sink http needs --url")?)?),
            Kind::Celery => {
                let broker = self.broker.as_deref().context("--sink celery needs --broker")?;
                Destination::new("there", celery(broker, &self.queue)?)
            }
        };
        let builder = self.builder(store);
        Ok(builder.destination(destination).route(Route::new("*", ["there"])))
    }
}

/// The timeout of the gate to be opened.
const PATIENCE: Duration = Duration::from_secs(30);

/// Waits until the relay reads the log and lets emits write into it: a heartbeat has said so.
pub(crate) async fn gate_open(log: &WalStore) -> Result<()> {
    let opened = async {
        let mut metrics = log.log_metrics();
        while !metrics.leads || metrics.closed.is_some() || metrics.lag_bytes.is_none() {
            tokio::time::sleep(Duration::from_millis(100)).await;
            metrics = log.log_metrics();
        }
    };
    tokio::time::timeout(PATIENCE, opened).await.context("the log has not been opened")
}

/// Returns how many events were delivered from the log, and how many went into the table.
pub(crate) fn counts(log: &WalStore) -> Value {
    let metrics = log.log_metrics();
    json!({ "delivered": metrics.delivered, "spilled": metrics.spilled })
}

/// Returns a sink for a receiver on this host.
pub(crate) fn http(url: &str) -> Result<HttpSink> {
    Ok(HttpSink::new(HttpSettings { allow_private: true, ..HttpSettings::new(url) })?)
}

/// Returns a sink for a broker. A missing queue is declared, as Celery does.
pub(crate) fn celery(broker: &str, queue: &str) -> Result<CelerySink> {
    let settings = CelerySettings { declare: true, default_queue: queue.to_owned(), ..CelerySettings::new(broker) };
    Ok(CelerySink::new(settings)?)
}
