//! The socket of a connection: TCP, and TLS with rustls and ring when the address is `amqps`.

use std::io;
use std::sync::Arc;

use amq_protocol::uri::{AMQPScheme, AMQPUri};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// A socket, with or without TLS.
pub(super) trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Socket for S {}

pub(super) async fn open(uri: &AMQPUri, tls: &Arc<ClientConfig>) -> io::Result<Box<dyn Socket>> {
    let host = &uri.authority.host;
    let socket = TcpStream::connect((host.as_str(), uri.authority.port)).await?;
    socket.set_nodelay(true)?;
    match uri.scheme {
        AMQPScheme::AMQP => Ok(Box::new(socket)),
        AMQPScheme::AMQPS => {
            let name = ServerName::try_from(host.clone()).map_err(io::Error::other)?;
            Ok(Box::new(TlsConnector::from(Arc::clone(tls)).connect(name, socket).await?))
        }
    }
}
