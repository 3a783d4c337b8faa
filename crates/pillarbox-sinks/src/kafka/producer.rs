//! The producer: librdkafka's client with its own thread, its log and its errors. It is created when something is sent, and
//! created again after a fatal error.

use std::collections::HashSet;
use std::error::Error;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use pillarbox::SendError;
use rdkafka::client::OAuthToken;
use rdkafka::config::{FromClientConfigAndContext as _, RDKafkaLogLevel};
use rdkafka::error::KafkaError as ClientError;
use rdkafka::message::{DeliveryResult, Header, OwnedHeaders};
use rdkafka::producer::{
    BaseRecord, NoCustomPartitioner, Producer as _, ProducerContext, PurgeConfig, ThreadedProducer,
};
use rdkafka::types::RDKafkaErrorCode as Code;
use rdkafka::{ClientConfig, ClientContext};
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};

use super::batch::Outgoing;
use super::oauth::Tokens;
use super::settings::{KafkaError, KafkaSettings, Sasl};
use super::{config, failure};

/// The producer of a sink, and how to make one.
pub(super) struct Producers {
    properties: ClientConfig,
    tokens: Option<Arc<Tokens>>,
    current: Mutex<Option<Arc<Producer>>>,
    /// Whether the relay sends runs. From then on, a message that a broker refuses stops the producer, because messages
    /// behind it would be stored without it.
    has_runs: AtomicBool,
}

impl Producers {
    pub(super) fn new(settings: &KafkaSettings) -> Result<Self, KafkaError> {
        let properties = config::properties(settings)?;
        properties.create_native_config().map_err(|error| KafkaError::Client(error.to_string()))?;
        let tokens = match &settings.sasl {
            Some(Sasl::OauthBearer(client)) => Some(Arc::new(Tokens::new(client, settings.tls.as_ref())?)),
            _ => None,
        };
        Ok(Self { properties, tokens, current: Mutex::default(), has_runs: AtomicBool::new(false) })
    }

    /// Lets the producers that are created from now on keep the order of runs.
    pub(super) fn expect_runs(&self) {
        self.has_runs.store(true, Ordering::Relaxed);
    }

    /// Returns the producer. Creates it if there is none, if it failed, or if it does not keep the order of runs.
    pub(super) fn get(&self) -> Result<Arc<Producer>, SendError> {
        let mut current = lock(&self.current);
        let has_runs = self.has_runs.load(Ordering::Relaxed);
        let is_usable = |producer: &&Arc<Producer>| producer.is_usable() && (producer.is_gapless || !has_runs);
        if let Some(producer) = current.as_ref().filter(is_usable) {
            return Ok(Arc::clone(producer));
        }
        let producer = Arc::new(self.create(&self.properties)?);
        *current = Some(Arc::clone(&producer));
        Ok(producer)
    }

    /// Returns a producer that sends each message in a request of its own: a broker then refuses a message for its own
    /// size, and not for its neighbours'.
    pub(super) fn one_by_one(&self) -> Result<Arc<Producer>, SendError> {
        let mut properties = self.properties.clone();
        properties.set("batch.num.messages", "1");
        self.create(&properties).map(Arc::new)
    }

    fn create(&self, properties: &ClientConfig) -> Result<Producer, SendError> {
        let is_gapless = self.has_runs.load(Ordering::Relaxed);
        let mut properties = properties.clone();
        if is_gapless {
            // One request at a time: a broker that does not know the producer yet accepts any sequence number, and would store
            // the second request after it refused the first.
            properties.set("enable.gapless.guarantee", "true").set("max.in.flight.requests.per.connection", "1");
        }
        let context =
            Context { troubles: watch::Sender::default(), tokens: self.tokens.clone(), runtime: Handle::current() };
        let client = ThreadedProducer::from_config_and_context(&properties, context);
        let client =
            client.map_err(|error| SendError::unavailable(format!("creating the Kafka producer failed: {error}")))?;
        let (is_forgotten, stored) = (AtomicBool::new(false), Mutex::default());
        Ok(Producer { client: Some(client), is_gapless, is_forgotten, stored, enqueueing: Mutex::default() })
    }
}

/// A running client.
pub(super) struct Producer {
    /// Present until the drop.
    client: Option<ThreadedProducer<Context>>,
    is_gapless: bool,
    /// The brokers do not know this producer any more.
    is_forgotten: AtomicBool,
    /// Topics and keys whose partitions have stored a message of this producer, by their hashes.
    stored: Mutex<HashSet<u64>>,
    /// Locked while messages are enqueued, and by a purge.
    enqueueing: Mutex<()>,
}

/// The most topics and keys that a producer remembers.
const MOST_STORED: usize = 100_000;

impl Producer {
    fn client(&self) -> &ThreadedProducer<Context> {
        self.client.as_ref().expect("the client is taken by the drop only")
    }

    /// Returns whether the partition of this topic and key is known to have stored a message of this producer.
    pub(super) fn has_stored(&self, partition: u64) -> bool {
        lock(&self.stored).contains(&partition)
    }

    /// Notes that the partition of this topic and key has stored a message of this producer.
    pub(super) fn stored(&self, partition: u64) {
        let mut stored = lock(&self.stored);
        if self.is_gapless {
            if stored.len() >= MOST_STORED {
                stored.clear();
            }
            stored.insert(partition);
        }
    }

    /// Enqueues a message. Its report goes to this place of the reports.
    pub(super) fn enqueue(&self, message: &Outgoing<'_>, reports: &Arc<Reports>, place: usize) -> Result<(), Code> {
        let mut headers = OwnedHeaders::new_with_capacity(message.headers.len());
        for (name, value) in &message.headers {
            headers = headers.insert(Header { key: name.as_ref(), value: Some(value.as_bytes()) });
        }
        let report = Box::new(Report { reports: Arc::clone(reports), place });
        let mut record: BaseRecord<'_, str, [u8], _> =
            BaseRecord::with_opaque_to(&message.topic, report).payload(&*message.body).headers(headers);
        if let Some(key) = &message.key {
            record = record.key(key);
        }
        reports.expect_one();
        self.client().send(record).map_err(|(error, _)| {
            reports.refused();
            error.rdkafka_error_code().unwrap_or(Code::Fail)
        })
    }

    /// Removes the messages that were not sent yet, those of other batches too: they are sent again. Messages in flight stay: if
    /// a broker stores them late, then before everything that this producer sends after them. A producer that keeps the order of
    /// runs is not used again, because the purge may remove a message and not the one behind it.
    pub(super) fn purge(&self) {
        let _enqueueing = lock(&self.enqueueing);
        if self.is_gapless {
            self.forget();
        }
        self.client().purge(PurgeConfig::default().queue().non_blocking());
    }

    /// Keeps purges out while messages are enqueued. Returns `None` if the producer is not used any more.
    pub(super) fn begin(&self) -> Option<MutexGuard<'_, ()>> {
        let enqueueing = lock(&self.enqueueing);
        self.is_usable().then_some(enqueueing)
    }

    /// Returns the fatal error after which the producer sends nothing.
    pub(super) fn failed(&self) -> Option<(Code, String)> {
        self.client().client().fatal_error()
    }

    /// Records that the brokers do not know this producer any more, so that the next send creates another.
    pub(super) fn forget(&self) {
        self.is_forgotten.store(true, Ordering::Relaxed);
    }

    /// Returns whether the producer can send.
    pub(super) fn is_usable(&self) -> bool {
        self.failed().is_none() && !self.is_forgotten.load(Ordering::Relaxed)
    }

    /// Returns the problems with brokers, as they come.
    pub(super) fn troubles(&self) -> watch::Receiver<Troubles> {
        self.client().client().context().troubles.subscribe()
    }

    /// Asks the brokers for their topics, or for one topic. Blocks.
    pub(super) fn metadata(
        &self,
        topic: Option<&str>,
        deadline: Instant,
    ) -> Result<rdkafka::metadata::Metadata, ClientError> {
        self.client().client().fetch_metadata(topic, deadline.saturating_duration_since(Instant::now()))
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        // The client waits for its threads, which must not block the runtime.
        let client = self.client.take();
        std::thread::spawn(move || drop(client));
    }
}

/// Problems with brokers.
#[derive(Debug, Default, Clone)]
pub(super) struct Troubles {
    /// When and why a broker refused credentials or TLS failed.
    pub(super) refused: Option<(Instant, String)>,
    /// Since when and why no broker is reachable. Cleared by the next confirmation.
    pub(super) down: Option<(Instant, String)>,
    /// The last problem of any kind. Cleared by the next confirmation.
    pub(super) last: Option<String>,
}

/// Receives what librdkafka reports.
pub(super) struct Context {
    troubles: watch::Sender<Troubles>,
    tokens: Option<Arc<Tokens>>,
    runtime: Handle,
}

impl ClientContext for Context {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        match level {
            RDKafkaLogLevel::Emerg | RDKafkaLogLevel::Alert | RDKafkaLogLevel::Critical => {
                tracing::error!("librdkafka: {facility}: {message}");
            }
            RDKafkaLogLevel::Error | RDKafkaLogLevel::Warning => tracing::warn!("librdkafka: {facility}: {message}"),
            RDKafkaLogLevel::Notice | RDKafkaLogLevel::Info => tracing::info!("librdkafka: {facility}: {message}"),
            RDKafkaLogLevel::Debug => tracing::debug!("librdkafka: {facility}: {message}"),
        }
    }

    fn error(&self, error: ClientError, reason: &str) {
        let code = error.rdkafka_error_code();
        tracing::debug!(?code, "librdkafka: {reason}");
        let now = || (Instant::now(), reason.to_owned());
        self.troubles.send_modify(|troubles| match code {
            Some(Code::Authentication | Code::SSL) => troubles.refused = Some(now()),
            Some(Code::AllBrokersDown) => {
                let why = troubles.last.clone().unwrap_or_else(|| reason.to_owned());
                troubles.down.get_or_insert((Instant::now(), why));
            }
            _ => troubles.last = Some(reason.to_owned()),
        });
    }

    fn generate_oauth_token(&self, _: Option<&str>) -> Result<OAuthToken, Box<dyn Error>> {
        let tokens = self.tokens.as_ref().ok_or("no token endpoint is configured")?;
        Ok(self.runtime.block_on(tokens.fetch())?)
    }
}

impl ProducerContext<NoCustomPartitioner> for Context {
    type DeliveryOpaque = Box<Report>;

    fn delivery(&self, result: &DeliveryResult<'_>, report: Box<Report>) {
        if result.is_ok() {
            self.troubles.send_if_modified(|troubles| {
                let _ = (troubles.down.take(), troubles.last.take());
                false
            });
        }
        let outcome = match result {
            Ok(_) => Ok(()),
            Err((error, _)) => Err(error.rdkafka_error_code().unwrap_or(Code::Fail)),
        };
        report.reports.set(report.place, outcome);
    }
}

/// The place of a message among the reports of its batch.
pub(super) struct Report {
    reports: Arc<Reports>,
    place: usize,
}

/// The delivery reports of a batch.
pub(super) struct Reports {
    outcomes: Mutex<Vec<Option<Result<(), Code>>>>,
    open: AtomicUsize,
    pub(super) all_in: Notify,
}

impl Reports {
    pub(super) fn new(messages: usize) -> Arc<Self> {
        Arc::new(Self { outcomes: Mutex::new(vec![None; messages]), open: AtomicUsize::new(0), all_in: Notify::new() })
    }

    /// Returns the number of messages without a report.
    pub(super) fn open(&self) -> usize {
        self.open.load(Ordering::Acquire)
    }

    /// Returns the reports so far.
    pub(super) fn outcomes(&self) -> Vec<Option<Result<(), Code>>> {
        lock(&self.outcomes).clone()
    }

    fn expect_one(&self) {
        self.open.fetch_add(1, Ordering::AcqRel);
    }

    fn refused(&self) {
        self.open.fetch_sub(1, Ordering::AcqRel);
    }

    fn set(&self, place: usize, outcome: Result<(), Code>) {
        if let Some(slot) = lock(&self.outcomes).get_mut(place) {
            *slot = Some(outcome);
        }
        if self.open.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.all_in.notify_one();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Producer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Producer").field("is_gapless", &self.is_gapless).finish_non_exhaustive()
    }
}

/// Returns the error of a producer that failed, if it did.
pub(super) fn fatal(producer: &Producer) -> Option<SendError> {
    producer.failed().map(|(code, reason)| failure::fatal(code, &reason))
}
