//! An event as a message of AMQP 0-9-1. Pure.

use std::borrow::Cow;

use amq_protocol::protocol::{BasicProperties, basic};
use amq_protocol::types::{AMQPValue, FieldTable, ShortString};
use pillarbox::{Message, SendError};

use super::settings::AmqpSettings;
use crate::content::CONTENT_TYPE;
use crate::rabbitmq::publish::Parcel;
use crate::rabbitmq::{LARGEST_HEADERS, short};

/// The prefix of CloudEvents attributes, from the binding for AMQP 1.0. There is no binding for AMQP 0-9-1, and RabbitMQ
/// translates headers to the application properties of AMQP 1.0.
const CLOUD_EVENTS: &str = "cloudEvents_";
const APP: &str = "pillarbox";

/// An event with its target.
pub(super) struct Letter<'a> {
    pub(super) position: usize,
    pub(super) message: &'a Message,
    settings: &'a AmqpSettings,
    pub(super) exchange: ShortString,
    pub(super) routing_key: ShortString,
    body: Cow<'a, [u8]>,
    id: String,
}

impl<'a> Letter<'a> {
    pub(super) fn new(position: usize, message: &'a Message, settings: &'a AmqpSettings) -> Result<Self, SendError> {
        Ok(Self {
            position,
            message,
            settings,
            exchange: name("exchange", &settings.exchange.render(message)?)?,
            routing_key: name("routing_key", &settings.routing_key.render(message)?)?,
            body: settings.content.body(message)?,
            id: message.id.to_string(),
        })
    }

    fn headers(&self) -> Result<FieldTable, SendError> {
        let mut table = FieldTable::default();
        let mut size = 0;
        for (name, value) in self.settings.content.headers(self.message, CLOUD_EVENTS) {
            if name == CONTENT_TYPE {
                // It is a property of the message.
                continue;
            }
            size += name.len() + value.len() + 6;
            table.insert(self::name("header", &name)?, AMQPValue::LongString(value.into_owned().into()));
        }
        if size > LARGEST_HEADERS {
            return Err(SendError::reject(format!(
                "the headers of the event have {size} bytes, but RabbitMQ takes {LARGEST_HEADERS}; put large values into \
                 the payload"
            )));
        }
        Ok(table)
    }
}

/// Returns a name as AMQP carries it.
pub(super) fn name(key: &str, text: &str) -> Result<ShortString, SendError> {
    short(text).ok_or_else(|| {
        let start: String = text.chars().take(40).collect();
        let bytes = text.len();
        SendError::reject(format!("{key} {start:?}… has {bytes} bytes, but AMQP names have at most 255"))
    })
}

impl Parcel for Letter<'_> {
    fn address(&self) -> (&ShortString, &ShortString) {
        (&self.exchange, &self.routing_key)
    }

    fn body(&self) -> &[u8] {
        &self.body
    }

    fn properties(&self) -> Result<BasicProperties, SendError> {
        let mut properties = BasicProperties::default()
            .with_content_type(name(CONTENT_TYPE, self.settings.content.content_type(&self.message.headers))?)
            .with_headers(self.headers()?)
            .with_delivery_mode(if self.settings.persistent { 2 } else { 1 })
            .with_message_id(self.id.as_str().into())
            .with_app_id(APP.into());
        // Headers carry a type that is too long for the property.
        if let Some(event_type) = short(&self.message.event_type) {
            properties = properties.with_type(event_type);
        }
        if let Ok(seconds) = u64::try_from(self.message.created_at.timestamp()) {
            properties = properties.with_timestamp(seconds);
        }
        Ok(properties)
    }

    fn is_mandatory(&self) -> bool {
        self.settings.mandatory
    }

    fn is(&self, returned: &BasicProperties) -> bool {
        returned.message_id().as_ref().map(ShortString::as_str) == Some(self.id.as_str())
    }

    fn shown(&self) -> String {
        if self.exchange.as_str().is_empty() {
            return format!("the queue {:?}", self.routing_key.as_str());
        }
        format!("the routing key {:?} of the exchange {:?}", self.routing_key.as_str(), self.exchange.as_str())
    }

    fn advice(&self) -> &'static str {
        "create the exchange, or set declare.exchange_type"
    }

    fn returned(&self, returned: &basic::Return) -> SendError {
        let reason = format!("{} {}", returned.reply_code, returned.reply_text);
        let routing_key = self.routing_key.as_str();
        if self.exchange.as_str().is_empty() {
            return SendError::retry(format!(
                "the queue {routing_key:?} does not exist: {reason}; create it, or set declare.queue"
            ));
        }
        SendError::retry(format!(
            "the exchange {:?} has no queue for the routing key {routing_key:?}: {reason}; bind a queue, or set \
             declare.queue",
            self.exchange.as_str()
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pillarbox::{SendErrorKind, StoredEvent};

    use super::*;
    use crate::{Content, Format, Template};

    fn letter_of(change: impl FnOnce(&mut StoredEvent), settings: &AmqpSettings) -> Result<(), SendError> {
        let mut event = StoredEvent::for_tests("order.placed", "{}");
        change(&mut event);
        let message = Message::new(Arc::new(event), 1);
        Letter::new(0, &message, settings)?.properties().map(drop)
    }

    #[test]
    fn names_and_headers_that_amqp_cannot_carry_are_rejected() {
        let settings = AmqpSettings::new("", Template::fixed("{event_type}"));
        let settings = AmqpSettings { routing_key: "{event_type}".parse().unwrap(), ..settings };
        let error = letter_of(|event| event.event_type = "x".repeat(256), &settings).unwrap_err();
        assert_eq!(error.kind, SendErrorKind::Reject);
        assert!(error.message.contains("routing_key") && error.message.contains("256 bytes"), "{error}");
        let long = |event: &mut StoredEvent| drop(event.headers.insert("h".repeat(256), "1".to_owned()));
        assert!(letter_of(long, &settings).unwrap_err().message.contains("header \"hhhh"));
        let large = |event: &mut StoredEvent| drop(event.headers.insert("large".to_owned(), "x".repeat(130_000)));
        assert!(letter_of(large, &settings).unwrap_err().message.contains("put large values into the payload"));
        let settings = AmqpSettings { routing_key: Template::fixed("orders"), ..settings };
        assert_eq!(letter_of(|event| event.event_type = "x".repeat(256), &settings), Ok(()), "the header carries it");
    }

    #[test]
    fn cloud_events_attributes_are_headers_with_their_prefix() {
        let content = Content::new(Format::CloudEventsBinary);
        let settings = AmqpSettings { content, ..AmqpSettings::new("", Template::fixed("orders")) };
        let message = Message::new(Arc::new(StoredEvent::for_tests("order.placed", "{}")), 1);
        let properties = Letter::new(0, &message, &settings).unwrap().properties().unwrap();
        let headers = properties.headers().clone().unwrap();
        let text = |name: &str| headers.inner().get(name).cloned();
        assert_eq!(text("cloudEvents_type"), Some(AMQPValue::LongString("order.placed".into())));
        assert_eq!(text("content-type"), None);
        assert_eq!(properties.content_type().as_ref().unwrap().as_str(), "application/json");
    }
}
