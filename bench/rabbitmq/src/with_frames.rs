//! A publisher that writes frames itself: each batch is encoded into one buffer and written at once.

use amq_protocol::frame::{AMQPContentHeader, AMQPFrame, ProtocolVersion, WriteContext, gen_frame, parse_frame};
use amq_protocol::protocol::{AMQPClass, basic, channel, confirm, connection};
use amq_protocol::types::FieldTable;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::Load;
use crate::messages::{BODY, properties};

struct Wire {
    socket: TcpStream,
    received: Vec<u8>,
    start: usize,
}

fn put(buffer: Vec<u8>, frame: &AMQPFrame) -> Vec<u8> {
    let context = WriteContext::from(buffer);
    gen_frame(frame)(context).unwrap().into_inner().0
}

impl Wire {
    async fn write(&mut self, frame: &AMQPFrame) {
        self.socket.write_all(&put(Vec::new(), frame)).await.unwrap();
    }

    async fn method(&mut self, channel: u16, class: AMQPClass) {
        self.write(&AMQPFrame::Method(channel, class)).await;
    }

    fn parsed(&mut self) -> Option<AMQPFrame> {
        match parse_frame(&self.received[self.start..]) {
            Ok((rest, frame)) => {
                self.start = self.received.len() - rest.len();
                Some(frame)
            }
            Err(_) => None,
        }
    }

    async fn next(&mut self) -> AMQPFrame {
        loop {
            if let Some(frame) = self.parsed() {
                return frame;
            }
            self.received.drain(..self.start);
            self.start = 0;
            self.socket.read_buf(&mut self.received).await.unwrap();
        }
    }

    async fn open(load: &Load) -> Self {
        let address = load.url.split('@').nth(1).unwrap().split('/').next().unwrap();
        let socket = TcpStream::connect(address).await.unwrap();
        socket.set_nodelay(true).unwrap();
        let mut wire = Self { socket, received: Vec::with_capacity(65536), start: 0 };
        wire.write(&AMQPFrame::ProtocolHeader(ProtocolVersion::amqp_0_9_1())).await;
        wire.next().await;
        let ok = connection::StartOk {
            client_properties: FieldTable::default(),
            mechanism: "PLAIN".into(),
            response: "\0guest\0guest".into(),
            locale: "en_US".into(),
        };
        wire.method(0, AMQPClass::Connection(connection::AMQPMethod::StartOk(ok))).await;
        wire.next().await;
        let tune = connection::TuneOk { channel_max: 2047, frame_max: 131072, heartbeat: 0 };
        wire.method(0, AMQPClass::Connection(connection::AMQPMethod::TuneOk(tune))).await;
        let open = connection::Open { virtual_host: "/".into() };
        wire.method(0, AMQPClass::Connection(connection::AMQPMethod::Open(open))).await;
        wire.next().await;
        wire.method(1, AMQPClass::Channel(channel::AMQPMethod::Open(channel::Open {}))).await;
        wire.next().await;
        wire.method(1, AMQPClass::Confirm(confirm::AMQPMethod::Select(confirm::Select { nowait: false }))).await;
        wire.next().await;
        wire
    }
}

/// `lanes` batches are in flight on one channel.
pub async fn run(load: &Load) {
    let mut wire = Wire::open(load).await;
    let (mut sent, mut confirmed) = (0, 0);
    let window = load.batch * load.lanes;
    while confirmed < load.count {
        while sent < load.count && sent + load.batch.min(load.count - sent) <= confirmed + window {
            let batch = load.batch.min(load.count - sent);
            let mut buffer = Vec::with_capacity(batch * 512);
            for _ in 0..batch {
                let publish = basic::Publish {
                    exchange: "".into(),
                    routing_key: load.queue.as_str().into(),
                    mandatory: true,
                    immediate: false,
                };
                buffer = put(buffer, &AMQPFrame::Method(1, AMQPClass::Basic(basic::AMQPMethod::Publish(publish))));
                let header = AMQPContentHeader {
                    class_id: 60,
                    body_size: BODY.len() as u64,
                    properties: properties(&load.shape),
                };
                buffer = put(buffer, &AMQPFrame::Header(1, header));
                buffer = put(buffer, &AMQPFrame::Body(1, BODY.to_vec()));
            }
            wire.socket.write_all(&buffer).await.unwrap();
            sent += batch;
        }
        match wire.next().await {
            AMQPFrame::Method(1, AMQPClass::Basic(basic::AMQPMethod::Ack(ack))) => {
                if ack.multiple {
                    confirmed = confirmed.max(ack.delivery_tag as usize);
                } else {
                    // Single confirms of one queue come in order.
                    confirmed = ack.delivery_tag as usize;
                }
            }
            other => panic!("{other:?}"),
        }
    }
}
