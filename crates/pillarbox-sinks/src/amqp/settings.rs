//! The settings of a destination of kind "amqp".

use std::fmt;
use std::time::Duration;

use amq_protocol::uri::AMQPUri;

use crate::broker_url::{self, UrlError};
use crate::content::{Content, SourceError};
use crate::rabbitmq::address;
use crate::tls::{Tls, TlsError};
use crate::{Secret, Template, redact};

/// Where events go, and how.
#[derive(Clone)]
#[non_exhaustive]
pub struct AmqpSettings {
    /// `amqp://user:password@host:5672/vhost` or `amqps://…`. Several addresses are separated by `;` and tried in order.
    pub url: Secret,
    /// The exchange. An empty name is the default exchange, whose routing keys are the names of queues.
    pub exchange: Template,
    /// The routing key.
    pub routing_key: Template,
    /// Whether a message that no queue takes is a failure. Without it, RabbitMQ confirms and drops such messages.
    pub mandatory: bool,
    /// Whether messages survive a restart of the broker in durable queues.
    pub persistent: bool,
    /// What is declared before messages are sent.
    pub declare: Option<AmqpDeclare>,
    /// The format of messages.
    pub content: Content,
    /// The timeout of a send.
    pub timeout: Duration,
    /// Certificates.
    pub tls: Tls,
}

/// What is declared before messages are sent. Exchanges and queues are durable.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AmqpDeclare {
    /// `direct`, `topic`, `fanout`, `headers`, or a type that a plugin of RabbitMQ adds. Without it, the exchange is not
    /// declared.
    pub exchange_type: Option<String>,
    /// The queue that is declared and bound to the exchange.
    pub queue: Option<Template>,
    /// The routing key of the binding, for a topic exchange with `*` and `#`. Without it, the routing key of each event.
    pub binding: Option<Template>,
    /// The type of the queue.
    pub queue_type: QueueType,
}

/// The type of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum QueueType {
    /// On one node.
    #[default]
    Classic,
    /// Replicated to a majority of the nodes.
    Quorum,
}

impl AmqpSettings {
    /// Returns the settings for the default exchange of this broker.
    pub fn new(url: impl Into<String>, routing_key: Template) -> Self {
        Self {
            url: Secret::new(url.into()),
            exchange: Template::fixed(""),
            routing_key,
            mandatory: true,
            persistent: true,
            declare: None,
            content: Content::default(),
            timeout: Duration::from_secs(10),
            tls: Tls::default(),
        }
    }

    /// Checks everything that can be checked without the broker.
    pub(super) fn checked(&self) -> Result<Vec<AMQPUri>, AmqpError> {
        let urls = broker_url::parse(self.url.expose())?;
        let addresses = urls.iter().map(address::parse).collect::<Result<Vec<_>, _>>()?;
        let queue = self.declare.as_ref().and_then(|declare| declare.queue.as_ref());
        let named =
            [("exchange", Some(&self.exchange)), ("routing_key", Some(&self.routing_key)), ("declare.queue", queue)];
        for (key, template) in named {
            if template.and_then(Template::constant).is_some_and(|name| name.len() > 255) {
                return Err(AmqpError::TooLong { key });
            }
        }
        let is_default = self.exchange.constant() == Some("");
        if is_default && self.routing_key.constant() == Some("") {
            return Err(AmqpError::Nowhere);
        }
        let declare = self.declare.as_ref();
        if is_default && declare.is_some_and(|declare| declare.exchange_type.is_some()) {
            return Err(AmqpError::DefaultExchange);
        }
        self.content.check()?;
        Ok(addresses)
    }
}

impl fmt::Debug for AmqpSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AmqpSettings")
            .field("url", &redact::origins(self.url.expose()))
            .field("exchange", &self.exchange)
            .field("routing_key", &self.routing_key)
            .field("mandatory", &self.mandatory)
            .field("persistent", &self.persistent)
            .field("declare", &self.declare)
            .field("content", &self.content)
            .field("timeout", &self.timeout)
            .field("tls", &self.tls)
            .finish()
    }
}

/// A setting that cannot work, with the name of its key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AmqpError {
    /// The URL does not parse.
    #[error("url is not a URL ({reason}); write it like amqp://user:password@host:5672/vhost")]
    Url {
        /// The reason, without the URL.
        reason: String,
    },
    /// The URL's scheme is not supported.
    #[error("url has the scheme {scheme:?}; use amqp or amqps (several addresses are separated by `;`)")]
    Scheme {
        /// The scheme that was given.
        scheme: String,
    },
    /// A key in the URL's query that is not supported.
    #[error("url has `{key}` in its query; {advice}")]
    Query {
        /// The key.
        key: String,
        /// What to do.
        advice: &'static str,
    },
    /// A name is too long for AMQP.
    #[error("{key} is longer than the 255 bytes that AMQP can carry")]
    TooLong {
        /// The key.
        key: &'static str,
    },
    /// Neither an exchange nor a queue.
    #[error("routing_key is empty; write the name of a queue, or set exchange")]
    Nowhere,
    /// The default exchange cannot be declared.
    #[error("declare.exchange_type is set, but the default exchange exists always; set exchange, or remove it")]
    DefaultExchange,
    /// The CloudEvents source is wrong.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// A certificate or a key is wrong.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

impl From<UrlError> for AmqpError {
    fn from(error: UrlError) -> Self {
        match error {
            UrlError::Malformed { reason } => Self::Url { reason },
            UrlError::Scheme { scheme } => Self::Scheme { scheme },
            UrlError::Query { key, advice } => Self::Query { key, advice },
            other => Self::Url { reason: format!("{other:?}") },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(change: impl FnOnce(&mut AmqpSettings)) -> String {
        let mut settings = AmqpSettings::new("amqp://u:hunter2@localhost/", Template::fixed("orders"));
        assert!(settings.checked().is_ok() && !format!("{settings:?}").contains("hunter2"));
        change(&mut settings);
        settings.checked().unwrap_err().to_string()
    }

    #[test]
    fn what_cannot_work_is_refused_by_its_key() {
        let refused = problem(|settings| settings.url = Secret::new("redis://localhost"));
        assert_eq!(refused, "url has the scheme \"redis\"; use amqp or amqps (several addresses are separated by `;`)");
        assert!(problem(|settings| settings.url = Secret::new("")).starts_with("url is not a URL (it is empty)"));
        assert!(problem(|settings| settings.routing_key = Template::fixed("")).starts_with("routing_key is empty"));
        let long = Template::fixed("x".repeat(256));
        assert!(problem(|settings| settings.exchange = long).starts_with("exchange is longer than the 255 bytes"));
        let topic = AmqpDeclare { exchange_type: Some("topic".to_owned()), ..AmqpDeclare::default() };
        assert!(problem(|settings| settings.declare = Some(topic)).starts_with("declare.exchange_type is set"));
    }
}
