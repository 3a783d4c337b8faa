//! Frames as bytes: encoding into a buffer, and parsing of what was received.

use amq_protocol::frame::{AMQPContentHeader, AMQPFrame, WriteContext, gen_frame, parse_frame};
use amq_protocol::protocol::{AMQPClass, BasicProperties, basic};
use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::failure::Fault;

const BODY: u8 = 3;
const END: u8 = 0xCE;
/// The bytes of a frame before its content: type, channel and size.
const HEAD: usize = 7;
/// The class of `basic` methods.
const BASIC: u16 = 60;
/// A longer frame is not from an AMQP broker.
const LONGEST: usize = 16 * 1024 * 1024;
/// The bytes that are read at once.
const ROOM: usize = 32 * 1024;

/// Appends a frame. A frame that cannot be encoded leaves the buffer as it was.
pub(super) fn put(buffer: &mut Vec<u8>, frame: &AMQPFrame) -> Result<(), Fault> {
    // The encoder takes the buffer, and does not return it with an error.
    let encoded = gen_frame(frame)(WriteContext::from(Vec::with_capacity(256)));
    let (bytes, _) = encoded.map_err(|error| Fault::Encode(error.to_string()))?.into_inner();
    buffer.extend_from_slice(&bytes);
    Ok(())
}

/// Returns the bytes of a method.
pub(super) fn method(channel: u16, class: AMQPClass) -> Result<Vec<u8>, Fault> {
    let mut buffer = Vec::new();
    put(&mut buffer, &AMQPFrame::Method(channel, class))?;
    Ok(buffer)
}

/// Appends the frames of one message.
pub(super) fn put_message(
    buffer: &mut Vec<u8>,
    channel: u16,
    publish: basic::Publish,
    properties: BasicProperties,
    body: &[u8],
    frame_max: usize,
) -> Result<(), Fault> {
    let before = buffer.len();
    let header = AMQPContentHeader { class_id: BASIC, body_size: body.len() as u64, properties };
    let publish = AMQPClass::Basic(basic::AMQPMethod::Publish(publish));
    let heads = put(buffer, &AMQPFrame::Method(channel, publish))
        .and_then(|()| put(buffer, &AMQPFrame::Header(channel, header)));
    if let Err(fault) = heads {
        buffer.truncate(before);
        return Err(fault);
    }
    for part in body.chunks(frame_max - HEAD - 1) {
        buffer.push(BODY);
        buffer.extend_from_slice(&channel.to_be_bytes());
        buffer.extend_from_slice(&u32::try_from(part.len()).unwrap_or(u32::MAX).to_be_bytes());
        buffer.extend_from_slice(part);
        buffer.push(END);
    }
    Ok(())
}

/// Reads frames from a socket.
pub(super) struct Frames<R> {
    socket: R,
    received: Vec<u8>,
    /// The start of the bytes that are not parsed yet.
    start: usize,
}

impl<R: AsyncRead + Unpin> Frames<R> {
    pub(super) fn new(socket: R) -> Self {
        Self::with_received(socket, Vec::new())
    }

    /// Returns the socket, and the bytes that were received but not parsed.
    pub(super) fn into_parts(self) -> (R, Vec<u8>) {
        (self.socket, self.received[self.start..].to_vec())
    }

    pub(super) fn with_received(socket: R, received: Vec<u8>) -> Self {
        Self { socket, received, start: 0 }
    }

    pub(super) fn socket(&mut self) -> &mut R {
        &mut self.socket
    }

    /// Returns the next frame.
    pub(super) async fn next(&mut self) -> Result<AMQPFrame, Fault> {
        loop {
            if let Some(frame) = self.parsed()? {
                return Ok(frame);
            }
            if self.start > 0 {
                self.received.drain(..self.start);
                self.start = 0;
            }
            // A vector without room is given very little by `read_buf`.
            self.received.reserve(ROOM);
            let read =
                self.socket.read_buf(&mut self.received).await.map_err(|error| Fault::Lost(error.to_string()))?;
            if read == 0 {
                return Err(Fault::Lost("the broker closed the connection".to_owned()));
            }
        }
    }

    /// Returns the next frame that was received whole.
    fn parsed(&mut self) -> Result<Option<AMQPFrame>, Fault> {
        let bytes = &self.received[self.start..];
        let Some(&[kind, _, _, a, b, c, d]) = bytes.first_chunk::<HEAD>() else { return Ok(None) };
        let length = HEAD + u32::from_be_bytes([a, b, c, d]) as usize + 1;
        if kind == b'A' || length > LONGEST {
            return Err(Fault::Lost("the server does not speak AMQP 0-9-1".to_owned()));
        }
        if bytes.len() < length {
            return Ok(None);
        }
        let (_, frame) = parse_frame(&bytes[..length])
            .map_err(|_| Fault::Lost("the broker sent a frame that is not AMQP".to_owned()))?;
        self.start += length;
        Ok(Some(frame))
    }
}
