//! The start of a connection: the protocol, the login, the limits and the virtual host.

use amq_protocol::frame::{AMQPFrame, ProtocolVersion};
use amq_protocol::protocol::{AMQPClass, connection};
use amq_protocol::types::{AMQPValue, FieldTable, LongString};
use amq_protocol::uri::AMQPUri;
use tokio::io::AsyncWriteExt as _;

use super::failure::Fault;
use super::frame::{self, Frames};
use super::transport::Socket;

/// The limits that client and broker agreed on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) channels: u16,
    pub(super) frame_max: usize,
    /// Seconds; 0 means no heartbeats.
    pub(super) heartbeat: u16,
}

/// The largest frame that is sent, unless the broker takes only smaller ones.
const FRAME_MAX: u32 = 128 * 1024;

/// What the client understands. Without `connection.blocked` the broker does not report that it blocks publishers.
const CAPABILITIES: [&str; 5] = [
    "publisher_confirms",
    "basic.nack",
    "connection.blocked",
    "authentication_failure_close",
    "exchange_exchange_bindings",
];

type Wire = Frames<Box<dyn Socket>>;

pub(super) async fn shake(wire: &mut Wire, uri: &AMQPUri) -> Result<Limits, Fault> {
    let mut header = Vec::new();
    frame::put(&mut header, &AMQPFrame::ProtocolHeader(ProtocolVersion::amqp_0_9_1()))?;
    write(wire, &header).await?;
    expect(wire, |method| matches!(method, connection::AMQPMethod::Start(_)).then_some(())).await?;
    send(wire, connection::AMQPMethod::StartOk(login(uri))).await?;
    let tune = expect(wire, |method| match method {
        connection::AMQPMethod::Tune(tune) => Some(tune.clone()),
        _ => None,
    })
    .await?;
    let frame_max = if tune.frame_max == 0 { FRAME_MAX } else { tune.frame_max.min(FRAME_MAX) };
    let heartbeat = uri.query.heartbeat.unwrap_or(tune.heartbeat);
    let channel_max = tune.channel_max;
    send(wire, connection::AMQPMethod::TuneOk(connection::TuneOk { channel_max, frame_max, heartbeat })).await?;
    let virtual_host = super::short(&uri.vhost).ok_or_else(|| Fault::Encode("the virtual host is too long".into()))?;
    send(wire, connection::AMQPMethod::Open(connection::Open { virtual_host })).await?;
    expect(wire, |method| matches!(method, connection::AMQPMethod::OpenOk(_)).then_some(())).await?;
    let channels = if channel_max == 0 { u16::MAX } else { channel_max };
    Ok(Limits { channels, frame_max: frame_max as usize, heartbeat })
}

fn login(uri: &AMQPUri) -> connection::StartOk {
    let mut capabilities = FieldTable::default();
    for name in CAPABILITIES {
        capabilities.insert(name.into(), AMQPValue::Boolean(true));
    }
    let mut client_properties = FieldTable::default();
    for (name, text) in [
        ("product", "pillarbox"),
        ("connection_name", "pillarbox"),
        ("version", env!("CARGO_PKG_VERSION")),
        ("platform", "rust"),
    ] {
        client_properties.insert(name.into(), AMQPValue::LongString(text.into()));
    }
    client_properties.insert("capabilities".into(), AMQPValue::FieldTable(capabilities));
    let user = &uri.authority.userinfo;
    let response = LongString::from(format!("\0{}\0{}", user.username, user.password));
    connection::StartOk { client_properties, mechanism: "PLAIN".into(), response, locale: "en_US".into() }
}

async fn write(wire: &mut Wire, bytes: &[u8]) -> Result<(), Fault> {
    let socket = wire.socket();
    let written = async {
        socket.write_all(bytes).await?;
        socket.flush().await
    };
    written.await.map_err(|error| Fault::Lost(error.to_string()))
}

async fn send(wire: &mut Wire, method: connection::AMQPMethod) -> Result<(), Fault> {
    write(wire, &frame::method(0, AMQPClass::Connection(method))?).await
}

/// Reads until the method that `wanted` takes. A broker that refuses says why with a close.
async fn expect<T>(wire: &mut Wire, wanted: impl Fn(&connection::AMQPMethod) -> Option<T>) -> Result<T, Fault> {
    loop {
        let AMQPFrame::Method(0, AMQPClass::Connection(method)) = wire.next().await? else { continue };
        if let Some(found) = wanted(&method) {
            return Ok(found);
        }
        if let connection::AMQPMethod::Close(close) = method {
            let _ = send(wire, connection::AMQPMethod::CloseOk(connection::CloseOk {})).await;
            return Err(Fault::connection(close.reply_code, &close.reply_text));
        }
    }
}
