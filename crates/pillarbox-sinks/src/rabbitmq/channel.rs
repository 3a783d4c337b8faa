//! A channel: the lane of one batch, or of one declaration. The broker closes a channel on which something was wrong, and the
//! other channels go on.

use std::sync::Arc;

use amq_protocol::protocol::{AMQPClass, BasicProperties, basic, confirm, exchange, queue};
use amq_protocol::types::{FieldTable, ShortString};
use tokio::sync::mpsc;

use super::connection::{Event, Shared};
use super::failure::Fault;
use super::frame;

/// The most events that are taken at once.
const MANY: usize = 256;

/// A channel that one task uses. It is closed when it is dropped.
pub(crate) struct Channel {
    id: u16,
    events: mpsc::UnboundedReceiver<Event>,
    shared: Arc<Shared>,
    /// The tag of the last message. The broker counts them alike.
    tag: u64,
}

impl Channel {
    pub(super) fn new(id: u16, events: mpsc::UnboundedReceiver<Event>, shared: Arc<Shared>) -> Self {
        Self { id, events, shared, tag: 0 }
    }

    /// Returns whether neither the broker nor the end of the connection has closed it.
    pub(super) fn is_open(&self) -> bool {
        !self.events.is_closed()
    }

    /// Sends a method, and waits until the broker has done it.
    pub(super) async fn call(&mut self, class: AMQPClass) -> Result<(), Fault> {
        self.write(frame::method(self.id, class)?);
        loop {
            match self.events.recv().await {
                Some(Event::Method(_)) => return Ok(()),
                Some(Event::Returned(_)) => {}
                Some(Event::Closed(fault)) => return Err(fault),
                None => return Err(self.shared.fault()),
            }
        }
    }

    /// Makes the broker confirm every message.
    pub(super) async fn confirm(&mut self) -> Result<(), Fault> {
        self.call(AMQPClass::Confirm(confirm::AMQPMethod::Select(confirm::Select { nowait: false }))).await
    }

    /// Returns the tag of the last message.
    pub(super) fn last_tag(&self) -> u64 {
        self.tag
    }

    /// Appends a message to the buffer.
    pub(super) fn encode(
        &mut self,
        buffer: &mut Vec<u8>,
        publish: basic::Publish,
        properties: BasicProperties,
        body: &[u8],
    ) -> Result<(), Fault> {
        frame::put_message(buffer, self.id, publish, properties, body, self.shared.limits.frame_max)?;
        self.tag += 1;
        Ok(())
    }

    /// Queues frames of this channel. They are dropped if the channel is closed.
    pub(super) fn write(&self, buffer: Vec<u8>) {
        self.shared.write_while_open(&self.events, buffer);
    }

    /// Waits for events, and takes all that are there.
    pub(super) async fn events(&mut self, into: &mut Vec<Event>) -> Result<(), Fault> {
        if self.events.recv_many(into, MANY).await == 0 { Err(self.shared.fault()) } else { Ok(()) }
    }

    /// Checks that an exchange exists.
    #[cfg(feature = "amqp")]
    pub(crate) async fn find_exchange(&mut self, exchange: ShortString) -> Result<(), Fault> {
        self.declare(exchange, "direct", false, true).await
    }

    /// Checks that a queue exists.
    #[cfg(feature = "amqp")]
    pub(crate) async fn find_queue(&mut self, queue: ShortString) -> Result<(), Fault> {
        self.queue(queue, false, true, FieldTable::default()).await
    }

    pub(crate) async fn declare_exchange(
        &mut self,
        exchange: ShortString,
        kind: &str,
        durable: bool,
    ) -> Result<(), Fault> {
        self.declare(exchange, kind, durable, false).await
    }

    async fn declare(&mut self, exchange: ShortString, kind: &str, durable: bool, passive: bool) -> Result<(), Fault> {
        let kind = super::short(kind).ok_or_else(|| Fault::Encode("the exchange's type is too long".to_owned()))?;
        let declare = exchange::Declare {
            exchange,
            kind,
            passive,
            durable,
            auto_delete: false,
            internal: false,
            nowait: false,
            arguments: FieldTable::default(),
        };
        self.call(AMQPClass::Exchange(exchange::AMQPMethod::Declare(declare))).await
    }

    pub(crate) async fn declare_queue(
        &mut self,
        queue: ShortString,
        durable: bool,
        arguments: FieldTable,
    ) -> Result<(), Fault> {
        self.queue(queue, durable, false, arguments).await
    }

    async fn queue(
        &mut self,
        queue: ShortString,
        durable: bool,
        passive: bool,
        arguments: FieldTable,
    ) -> Result<(), Fault> {
        let declare =
            queue::Declare { queue, passive, durable, exclusive: false, auto_delete: false, nowait: false, arguments };
        self.call(AMQPClass::Queue(queue::AMQPMethod::Declare(declare))).await
    }

    pub(crate) async fn bind_queue(
        &mut self,
        queue: ShortString,
        exchange: ShortString,
        routing_key: ShortString,
    ) -> Result<(), Fault> {
        let bind = queue::Bind { queue, exchange, routing_key, nowait: false, arguments: FieldTable::default() };
        self.call(AMQPClass::Queue(queue::AMQPMethod::Bind(bind))).await
    }

    #[cfg(feature = "celery")]
    pub(crate) async fn bind_exchange(
        &mut self,
        destination: ShortString,
        source: ShortString,
        routing_key: ShortString,
    ) -> Result<(), Fault> {
        let arguments = FieldTable::default();
        let bind = exchange::Bind { destination, source, routing_key, nowait: false, arguments };
        self.call(AMQPClass::Exchange(exchange::AMQPMethod::Bind(bind))).await
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.shared.leave(self.id, &self.events);
    }
}
