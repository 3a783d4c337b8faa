//! The settings of a Celery broker, and their checks before anything is sent.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use pillarbox::Pattern;
use serde_json::{Map, Value};

use super::broker::Broker;
use crate::broker_url::UrlError;
use crate::redis_server::client::ClientError;
use crate::tls::{Tls, TlsError};
use crate::{Secret, redact};

/// Celery's name for its default queue, and for that queue's exchange and routing key.
const CELERY: &str = "celery";

/// The type of queues that name none. It also decides whether delayed delivery is used for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum QueueType {
    /// RabbitMQ's own default.
    #[default]
    Classic,
    /// Replicated; Celery then uses native delayed delivery.
    Quorum,
}

/// A Celery broker, as the configuration describes it. `Debug` shows only the broker's scheme, host and port.
#[derive(Clone)]
pub struct CelerySettings {
    /// `amqp://`, `amqps://`, `redis://`, `rediss://`, `redis+socket://` or `sentinel://`. Several addresses of RabbitMQ or
    /// of sentinels are separated by `;`.
    pub broker: Secret,
    /// The certificates that are trusted in addition to the system's, and the client's own.
    pub tls: Tls,
    /// The timeout for a batch. The sink returns a little before the relay's timeout, so that confirmed messages count.
    pub timeout: Duration,
    /// The queue of tasks that no route matches.
    pub default_queue: String,
    /// The exchange of the default queue; by default the queue's name.
    pub default_exchange: Option<String>,
    /// The type of the default queue's exchange: `direct`, `topic` or `fanout`.
    pub default_exchange_type: String,
    /// The routing key of the default queue; by default the queue's name.
    pub default_routing_key: Option<String>,
    /// The type of the default queue and of queues that are not in `queues`.
    pub queue_type: QueueType,
    /// Queues by their names. A queue that is not here is a direct queue whose exchange and routing key are its name.
    pub queues: BTreeMap<String, CeleryQueue>,
    /// Routes for tasks whose producer chose no queue. The first match decides.
    pub routes: Vec<CeleryRoute>,
    /// Whether exchanges, queues and bindings are declared before a message is sent there, as Celery does.
    pub declare: bool,
    /// The task that plain events become; by default the task with the name of the event's type.
    pub task: Option<String>,
    /// Redis: the prefix of every key, as kombu's `global_keyprefix`.
    pub key_prefix: String,
    /// Redis: the priorities that have a list of their own, as kombu's `priority_steps`.
    pub priority_steps: Vec<u8>,
    /// Redis: the separator between a queue's name and its priority, as kombu's `sep`.
    pub separator: String,
    /// Sentinel: the name of the master to ask for.
    pub master_name: Option<String>,
    /// Sentinel: the password of the sentinels themselves; the one in `broker` is the Redis server's.
    pub sentinel_password: Option<Secret>,
}

impl CelerySettings {
    /// Returns settings with Celery's defaults. Nothing is declared.
    pub fn new(broker: impl Into<Secret>) -> Self {
        Self {
            broker: broker.into(),
            tls: Tls::default(),
            timeout: Duration::from_secs(10),
            default_queue: CELERY.to_owned(),
            default_exchange: None,
            default_exchange_type: DIRECT.to_owned(),
            default_routing_key: None,
            queue_type: QueueType::default(),
            queues: BTreeMap::new(),
            routes: Vec::new(),
            declare: false,
            task: None,
            key_prefix: String::new(),
            priority_steps: vec![0, 3, 6, 9],
            separator: "\x06\x16".to_owned(),
            master_name: None,
            sentinel_password: None,
        }
    }

    /// Checks everything that can be checked without the broker.
    pub(super) fn checked(&self) -> Result<Broker, CeleryError> {
        let broker = Broker::parse(self)?;
        if self.default_queue.is_empty() {
            return Err(CeleryError::Empty { key: "default_queue".to_owned() });
        }
        if self.task.as_deref() == Some("") {
            return Err(CeleryError::Empty { key: "task".to_owned() });
        }
        self.check_names()?;
        self.check_steps()?;
        Ok(broker)
    }

    /// Checks the length of names. AMQP carries them as short strings.
    fn check_names(&self) -> Result<(), CeleryError> {
        let short = |key: String, name: &str| {
            if name.len() > 255 { Err(CeleryError::TooLong { key }) } else { Ok(()) }
        };
        short("default_queue".to_owned(), &self.default_queue)?;
        check_type("default_exchange_type", &self.default_exchange_type)?;
        for (name, queue) in &self.queues {
            if name.is_empty() {
                return Err(CeleryError::Empty { key: "a queue's name".to_owned() });
            }
            let key = format!("queues.{name}");
            short(key.clone(), name)?;
            short(format!("{key}.exchange"), queue.exchange.as_deref().unwrap_or_default())?;
            short(format!("{key}.routing_key"), queue.routing_key.as_deref().unwrap_or_default())?;
            check_type(&format!("{key}.exchange_type"), &queue.exchange_type)?;
        }
        for (position, route) in self.routes.iter().enumerate() {
            let key = format!("routes[{position}]");
            if route.queue.is_none() && route.exchange.is_none() && route.routing_key.is_none() {
                return Err(CeleryError::RouteToNowhere { position });
            }
            if route.exchange.is_some() != route.routing_key.is_some() && route.queue.is_none() {
                return Err(CeleryError::HalfARoute { position });
            }
            for name in [&route.queue, &route.exchange, &route.routing_key].into_iter().flatten() {
                short(key.clone(), name)?;
            }
            if route.queue.as_deref() == Some("") {
                return Err(CeleryError::Empty { key: format!("{key}.queue") });
            }
        }
        Ok(())
    }

    fn check_steps(&self) -> Result<(), CeleryError> {
        let rising = self.priority_steps.windows(2).all(|pair| pair[0] < pair[1]);
        if self.priority_steps.is_empty() || !rising { Err(CeleryError::PrioritySteps) } else { Ok(()) }
    }
}

/// The exchange type of queues that are published to by their name.
pub(super) const DIRECT: &str = "direct";

fn check_type(key: &str, given: &str) -> Result<(), CeleryError> {
    if given.is_empty() {
        return Err(CeleryError::Empty { key: key.to_owned() });
    }
    Ok(())
}

/// A queue that differs from Celery's usual direct queue.
#[derive(Debug, Clone, PartialEq)]
pub struct CeleryQueue {
    /// The exchange; by default the queue's name.
    pub exchange: Option<String>,
    /// `direct`, `topic`, `fanout`, `headers`, or a type that a plugin of RabbitMQ adds.
    pub exchange_type: String,
    /// The routing key; by default the queue's name.
    pub routing_key: Option<String>,
    /// The arguments of its declaration: `{"x-queue-type": "quorum"}`.
    pub arguments: Map<String, Value>,
    /// Whether the queue and the exchange survive a restart of the broker.
    pub durable: bool,
}

impl Default for CeleryQueue {
    fn default() -> Self {
        Self {
            exchange: None,
            exchange_type: DIRECT.to_owned(),
            routing_key: None,
            arguments: Map::new(),
            durable: true,
        }
    }
}

/// A route for tasks, by their names.
#[derive(Debug, Clone)]
pub struct CeleryRoute {
    /// The pattern that the task's name must match.
    pub tasks: Pattern,
    /// The queue. Its own exchange and routing key are used unless the route has its own.
    pub queue: Option<String>,
    /// An exchange. Together with a routing key, it decides alone.
    pub exchange: Option<String>,
    /// A routing key. For direct queues, it counts only together with an exchange.
    pub routing_key: Option<String>,
    /// The priority of tasks that have none.
    pub priority: Option<u8>,
}

impl CeleryRoute {
    /// Returns a route of the tasks that match the pattern to this queue.
    pub fn new(tasks: impl Into<Pattern>, queue: impl Into<String>) -> Self {
        Self { tasks: tasks.into(), queue: Some(queue.into()), exchange: None, routing_key: None, priority: None }
    }
}

impl fmt::Debug for CelerySettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CelerySettings")
            .field("broker", &redact::origins(self.broker.expose()))
            .field("tls", &self.tls)
            .field("timeout", &self.timeout)
            .field("default_queue", &self.default_queue)
            .field("default_exchange", &self.default_exchange)
            .field("default_exchange_type", &self.default_exchange_type)
            .field("default_routing_key", &self.default_routing_key)
            .field("queue_type", &self.queue_type)
            .field("queues", &self.queues)
            .field("routes", &self.routes)
            .field("declare", &self.declare)
            .field("task", &self.task)
            .field("key_prefix", &self.key_prefix)
            .field("priority_steps", &self.priority_steps)
            .field("separator", &self.separator)
            .field("master_name", &self.master_name)
            .field("sentinel_password", &self.sentinel_password)
            .finish()
    }
}

/// A setting that cannot work, with the name of its key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CeleryError {
    /// The URL does not parse.
    #[error("broker is not a URL ({reason}); write it like amqp://user:password@host:5672// or redis://host:6379/0")]
    Broker {
        /// The reason, without the URL.
        reason: String,
    },
    /// The URL's scheme is not supported.
    #[error(
        "broker has the scheme {scheme:?}; use amqp, amqps, redis, rediss, redis+socket or sentinel (several addresses are separated by `;`)"
    )]
    Scheme {
        /// The given scheme.
        scheme: String,
    },
    /// Several addresses, for a broker that can have only one.
    #[error(
        "broker has several addresses; only RabbitMQ (amqp, amqps) and sentinel can have them, each with its scheme"
    )]
    SeveralAddresses,
    /// A key in the URL's query that this client does not support.
    #[error("broker has {key} in its query; {advice}")]
    Query {
        /// The query's key.
        key: String,
        /// What to do instead.
        advice: &'static str,
    },
    /// The name of a Redis database is not a number.
    #[error("broker names the Redis database {given:?}, which is not a number; write it like redis://host:6379/0")]
    Database {
        /// The given name.
        given: String,
    },
    /// The master's name is missing. Sentinels watch several masters.
    #[error("broker is a sentinel, and master_name is missing; set it to the sentinels' name of the master")]
    MasterName,
    /// A required value is empty.
    #[error("{key} is empty; give it a value or remove it")]
    Empty {
        /// The key.
        key: String,
    },
    /// A name is longer than AMQP can carry.
    #[error("{key} is longer than the 255 bytes that AMQP can carry; choose a shorter name")]
    TooLong {
        /// The key.
        key: String,
    },
    /// A route without a queue or an exchange.
    #[error("routes[{position}] has neither queue nor exchange; set queue")]
    RouteToNowhere {
        /// The route's index, from 0.
        position: usize,
    },
    /// An exchange without a routing key, or the other way round.
    #[error("routes[{position}] has only one of exchange and routing_key; set both, or queue")]
    HalfARoute {
        /// The route's index, from 0.
        position: usize,
    },
    /// The list of priorities does not rise.
    #[error("priority_steps must be increasing numbers, like [0, 3, 6, 9]")]
    PrioritySteps,
    /// A certificate or a key cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The client could not be built.
    #[error("creating the broker client failed: {0}")]
    Client(String),
}

impl From<UrlError> for CeleryError {
    fn from(error: UrlError) -> Self {
        match error {
            UrlError::Malformed { reason } => Self::Broker { reason },
            UrlError::Scheme { scheme } => Self::Scheme { scheme },
            UrlError::SeveralAddresses => Self::SeveralAddresses,
            UrlError::Query { key, advice } => Self::Query { key, advice },
            UrlError::Database { given } => Self::Database { given },
            UrlError::MasterName => Self::MasterName,
        }
    }
}

impl From<ClientError> for CeleryError {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Tls(error) => Self::Tls(error),
            ClientError::Client(reason) => Self::Client(reason),
        }
    }
}
