//! One connection: a task that reads frames and gives them to their channels, and a task that writes buffers and heartbeats.
//! Batches never touch the socket themselves, so a batch that is dropped leaves no half frame behind.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use amq_protocol::frame::AMQPFrame;
use amq_protocol::protocol::{AMQPClass, BasicProperties, basic, channel, connection};
use amq_protocol::uri::AMQPUri;
use rustls::ClientConfig;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;

use super::channel::Channel;
use super::failure::Fault;
use super::frame::{self, Frames};
use super::handshake::{self, Limits};
use super::transport;

/// How long the end of a connection may take.
const FAREWELL: Duration = Duration::from_secs(5);
/// Buffers that wait are joined up to this size, so that small frames share a write.
const JOINED: usize = 256 * 1024;

/// A frame's content for a channel.
#[derive(Debug)]
pub(super) enum Event {
    Method(AMQPClass),
    /// A message that no queue takes. It comes before its confirm.
    Returned(Box<(basic::Return, BasicProperties)>),
    /// The broker closed the channel.
    Closed(Fault),
}

/// An open connection. It is closed when the value and all its channels are dropped.
pub(super) struct Connection {
    shared: Arc<Shared>,
    reading: AbortHandle,
}

/// The parts of a connection that its channels use.
pub(super) struct Shared {
    outgoing: mpsc::UnboundedSender<Vec<u8>>,
    pub(super) limits: Limits,
    lanes: Mutex<Lanes>,
    is_blocked: AtomicBool,
    /// Tells the writing task that nobody uses the connection any more.
    _in_use: watch::Sender<()>,
}

#[derive(Default)]
struct Lanes {
    by_id: BTreeMap<u16, Lane>,
    /// Why the connection ended.
    fault: Option<Fault>,
}

enum Lane {
    Open(mpsc::UnboundedSender<Event>),
    /// The client closed the channel, and the broker has not confirmed that. The number is not free yet.
    Closing,
}

impl Connection {
    /// Connects, with TLS when the scheme is `amqps`, and logs in.
    pub(super) async fn open(uri: &AMQPUri, tls: &Arc<ClientConfig>) -> Result<Self, Fault> {
        let socket = transport::open(uri, tls).await.map_err(|error| Fault::Lost(error.to_string()))?;
        let mut wire = Frames::new(socket);
        let limits = handshake::shake(&mut wire, uri).await?;
        let (socket, received) = wire.into_parts();
        let (reader, writer) = tokio::io::split(socket);
        let (outgoing, buffers) = mpsc::unbounded_channel();
        let (in_use, used) = watch::channel(());
        let shared = Arc::new(Shared {
            outgoing,
            limits,
            lanes: Mutex::default(),
            is_blocked: AtomicBool::new(false),
            _in_use: in_use,
        });
        tokio::spawn(write(writer, buffers, used, Arc::downgrade(&shared)));
        let reading = tokio::spawn(read(Frames::with_received(reader, received), Arc::clone(&shared)));
        Ok(Self { shared, reading: reading.abort_handle() })
    }

    /// Opens a channel.
    pub(super) async fn channel(&self) -> Result<Channel, Fault> {
        let (sender, events) = mpsc::unbounded_channel();
        let id = self.shared.enter(sender)?;
        let mut channel = Channel::new(id, events, Arc::clone(&self.shared));
        channel.call(AMQPClass::Channel(channel::AMQPMethod::Open(channel::Open {}))).await?;
        Ok(channel)
    }

    pub(super) fn is_open(&self) -> bool {
        self.shared.lanes().fault.is_none()
    }

    pub(super) fn is_blocked(&self) -> bool {
        self.shared.is_blocked.load(Ordering::Relaxed)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.reading.abort();
        let close = connection::Close { reply_code: 200, reply_text: "closed".into(), class_id: 0, method_id: 0 };
        self.shared.call(0, AMQPClass::Connection(connection::AMQPMethod::Close(close)));
    }
}

impl Shared {
    fn lanes(&self) -> MutexGuard<'_, Lanes> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a number to a channel.
    fn enter(&self, sender: mpsc::UnboundedSender<Event>) -> Result<u16, Fault> {
        let mut lanes = self.lanes();
        if let Some(fault) = &lanes.fault {
            return Err(fault.clone());
        }
        let free = (1..=self.limits.channels).find(|id| !lanes.by_id.contains_key(id));
        let id = free.ok_or_else(|| Fault::Lost("the connection has no free channel".to_owned()))?;
        lanes.by_id.insert(id, Lane::Open(sender));
        Ok(id)
    }

    /// Closes a channel that the broker has not closed. The number of one that it has closed may belong to another already.
    pub(super) fn leave(&self, id: u16, events: &mpsc::UnboundedReceiver<Event>) {
        let mut lanes = self.lanes();
        if events.is_closed() {
            return;
        }
        lanes.by_id.insert(id, Lane::Closing);
        let close = channel::Close { reply_code: 200, reply_text: "closed".into(), class_id: 0, method_id: 0 };
        self.call(id, AMQPClass::Channel(channel::AMQPMethod::Close(close)));
    }

    /// Queues the frames of a channel, unless it is closed. The lock keeps them before the answer to the broker's close: after
    /// that answer the broker ends the connection of a client that sends anything on the channel.
    pub(super) fn write_while_open(&self, events: &mpsc::UnboundedReceiver<Event>, bytes: Vec<u8>) {
        let _lanes = self.lanes();
        if !events.is_closed() {
            self.write(bytes);
        }
    }

    /// Queues bytes. They are lost if the connection has ended, and then its channels report that.
    pub(super) fn write(&self, bytes: Vec<u8>) {
        let _ = self.outgoing.send(bytes);
    }

    fn call(&self, id: u16, class: AMQPClass) {
        if let Ok(bytes) = frame::method(id, class) {
            self.write(bytes);
        }
    }

    /// Returns why the connection ended.
    pub(super) fn fault(&self) -> Fault {
        self.lanes().fault.clone().unwrap_or_else(|| Fault::Lost("the connection was closed".to_owned()))
    }

    /// Ends the connection: all channels learn it.
    fn end(&self, fault: Fault) {
        let mut lanes = self.lanes();
        lanes.fault.get_or_insert(fault);
        lanes.by_id.clear();
    }

    fn give(&self, id: u16, event: Event) {
        if let Some(Lane::Open(sender)) = self.lanes().by_id.get(&id) {
            let _ = sender.send(event);
        }
    }

    /// Handles a frame. Returns a fault if the connection ends with it.
    fn take(&self, frame: AMQPFrame, returns: &mut BTreeMap<u16, basic::Return>) -> Option<Fault> {
        match frame {
            AMQPFrame::Method(0, AMQPClass::Connection(method)) => return self.take_of_connection(method),
            AMQPFrame::Method(id, AMQPClass::Channel(method)) => self.take_of_channel(id, method),
            AMQPFrame::Method(id, AMQPClass::Basic(basic::AMQPMethod::Return(returned))) => {
                returns.insert(id, returned);
            }
            AMQPFrame::Method(id, class) => self.give(id, Event::Method(class)),
            AMQPFrame::Header(id, header) => {
                if let Some(returned) = returns.remove(&id) {
                    self.give(id, Event::Returned(Box::new((returned, header.properties))));
                }
            }
            // The body of a returned message, and heartbeats.
            _ => {}
        }
        None
    }

    fn take_of_connection(&self, method: connection::AMQPMethod) -> Option<Fault> {
        match method {
            connection::AMQPMethod::Close(close) => {
                self.call(0, AMQPClass::Connection(connection::AMQPMethod::CloseOk(connection::CloseOk {})));
                return Some(Fault::connection(close.reply_code, &close.reply_text));
            }
            connection::AMQPMethod::Blocked(_) => self.is_blocked.store(true, Ordering::Relaxed),
            connection::AMQPMethod::Unblocked(_) => self.is_blocked.store(false, Ordering::Relaxed),
            _ => {}
        }
        None
    }

    fn take_of_channel(&self, id: u16, method: channel::AMQPMethod) {
        match method {
            channel::AMQPMethod::Close(close) => {
                let mut lanes = self.lanes();
                self.call(id, AMQPClass::Channel(channel::AMQPMethod::CloseOk(channel::CloseOk {})));
                // The broker still confirms the close of a channel that the client closes too.
                if matches!(lanes.by_id.get(&id), Some(Lane::Open(_)))
                    && let Some(Lane::Open(sender)) = lanes.by_id.remove(&id)
                {
                    let _ = sender.send(Event::Closed(Fault::channel(close.reply_code, &close.reply_text)));
                }
            }
            channel::AMQPMethod::CloseOk(_) => {
                self.lanes().by_id.remove(&id);
            }
            channel::AMQPMethod::Flow(channel::Flow { active }) => {
                self.call(id, AMQPClass::Channel(channel::AMQPMethod::FlowOk(channel::FlowOk { active })));
            }
            other => self.give(id, Event::Method(AMQPClass::Channel(other))),
        }
    }
}

async fn read(mut frames: Frames<impl AsyncRead + Unpin>, shared: Arc<Shared>) {
    let heartbeat = shared.limits.heartbeat;
    // The broker sends something at least every half of the heartbeat.
    let silence = if heartbeat == 0 { Duration::MAX } else { Duration::from_secs(2 * u64::from(heartbeat)) };
    let mut returns = BTreeMap::new();
    let fault = loop {
        match tokio::time::timeout(silence, frames.next()).await {
            Ok(Ok(frame)) => {
                if let Some(fault) = shared.take(frame, &mut returns) {
                    break fault;
                }
            }
            Ok(Err(fault)) => break fault,
            Err(_) => break Fault::Lost(format!("the broker sent no heartbeat for {silence:?}")),
        }
    };
    shared.end(fault);
}

async fn write(
    mut socket: impl AsyncWrite + Unpin,
    mut buffers: mpsc::UnboundedReceiver<Vec<u8>>,
    mut used: watch::Receiver<()>,
    shared: Weak<Shared>,
) {
    let heartbeat = shared.upgrade().map_or(0, |shared| shared.limits.heartbeat);
    let pause = if heartbeat == 0 { Duration::MAX } else { Duration::from_secs(u64::from(heartbeat)) / 2 };
    let mut beat = Vec::new();
    let _ = frame::put(&mut beat, &AMQPFrame::Heartbeat);
    loop {
        let bytes = match tokio::time::timeout(pause, buffers.recv()).await {
            Ok(Some(bytes)) => joined(bytes, &mut buffers),
            Ok(None) => break,
            Err(_) => beat.clone(),
        };
        let written = async {
            socket.write_all(&bytes).await?;
            socket.flush().await
        };
        // A broker that takes no bytes must not keep the socket of a connection that was given up.
        let given_up = async {
            while used.changed().await.is_ok() {}
            tokio::time::sleep(FAREWELL).await;
        };
        let result = tokio::select! {
            biased;
            result = written => result,
            () = given_up => break,
        };
        if let Err(error) = result {
            if let Some(shared) = shared.upgrade() {
                shared.end(Fault::Lost(error.to_string()));
            }
            break;
        }
    }
    let _ = tokio::time::timeout(FAREWELL, socket.shutdown()).await;
}

/// Appends the buffers that wait already.
fn joined(mut bytes: Vec<u8>, buffers: &mut mpsc::UnboundedReceiver<Vec<u8>>) -> Vec<u8> {
    while bytes.len() < JOINED {
        let Ok(more) = buffers.try_recv() else { break };
        bytes.extend_from_slice(&more);
    }
    bytes
}
