//! A connection that streams a replication slot. It goes to the servers of a database's URL, with their passwords and
//! encryption, as the store's connections do.
//!
//! It is a small client of its own on the driver's protocol crate. The driver cannot stream a slot, and the published clients
//! have settings of their own: one host, other rules of encryption. It knows frames, not events: `source/wal` decodes them.

use std::io;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256};
use postgres_protocol::message::frontend;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use tokio_postgres::Config;
use tokio_postgres::config::{Host as Named, SslMode};
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::lsn::Lsn;
use super::servers::Servers;
use crate::error::DriverError;

/// Frames larger than this are not PostgreSQL's: it limits a message to 1 GB.
const LARGEST: usize = 1 << 30;
/// The smallest buffer for reading.
const BUFFER: usize = 64 * 1024;

/// The error of a replication connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReplicationError {
    /// The server refused something, or ended the stream.
    #[error("{message}")]
    Server {
        /// The server's code, such as `55006`.
        code: String,
        message: String,
    },
    /// The connection failed or was lost.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The connection cannot be made with these settings.
    #[error("{0}")]
    Settings(DriverError),
}

impl ReplicationError {
    /// Returns whether another connection streams the slot.
    pub(crate) fn is_slot_in_use(&self) -> bool {
        matches!(self, Self::Server { code, .. } if code == "55006")
    }
}

fn broken(what: &'static str) -> ReplicationError {
    ReplicationError::Io(io::Error::new(io::ErrorKind::InvalidData, what))
}

/// What to stream.
#[derive(Debug, Clone)]
pub(crate) struct Subscription {
    pub(crate) slot: String,
    pub(crate) publication: String,
    /// The position from which transactions are sent.
    pub(crate) from: Lsn,
}

/// The identity of a server. Positions of one identity can be compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) system: String,
    pub(crate) timeline: String,
}

trait Duplex: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Duplex for T {}

/// A connection that streams.
pub(crate) struct Replication {
    stream: Box<dyn Duplex>,
    read: BytesMut,
    write: BytesMut,
    is_standby: bool,
}

impl Servers {
    /// Connects to the first server that can stream the slot. A standby does not have it.
    pub(super) async fn replicate(
        &self,
        wanted: &Subscription,
        limit: Duration,
    ) -> Result<(Replication, Identity), ReplicationError> {
        let mut failures = Vec::new();
        for (address, config, tls) in self.each() {
            let tls = tls.map_err(|error| ReplicationError::Settings(error.into()))?;
            let started = timeout(limit, async {
                let mut replication = Replication::connect(config, tls).await?;
                let identity = replication.identify().await?;
                replication.start(wanted).await?;
                Ok((replication, identity))
            });
            match started.await {
                Ok(Ok(started)) => return Ok(started),
                Ok(Err(error)) => failures.push((address, error)),
                Err(_) => {
                    let silent = io::Error::new(io::ErrorKind::TimedOut, format!("no response within {limit:?}"));
                    failures.push((address, silent.into()));
                }
            }
        }
        if failures.len() == 1 {
            return Err(failures.remove(0).1);
        }
        // A slot in use is the only one that the caller handles.
        if let Some(place) = failures.iter().position(|(_, error)| error.is_slot_in_use()) {
            return Err(failures.remove(place).1);
        }
        let told: Vec<String> = failures.iter().map(|(address, error)| format!("{address}: {error}")).collect();
        Err(io::Error::other(format!("no usable server: {}", told.join("; "))).into())
    }
}

impl Replication {
    async fn connect(config: &Config, tls: MakeRustlsConnect) -> Result<Self, ReplicationError> {
        let port = config.get_ports().first().copied().unwrap_or(5432);
        let stream: Box<dyn Duplex> = match config.get_hosts().first() {
            Some(Named::Unix(directory)) => {
                Box::new(UnixStream::connect(directory.join(format!(".s.PGSQL.{port}"))).await?)
            }
            Some(Named::Tcp(host)) => {
                let stream = TcpStream::connect((host.as_str(), port)).await?;
                stream.set_nodelay(true)?;
                encrypted(stream, config.get_ssl_mode(), host, tls).await?
            }
            None => return Err(ReplicationError::Settings("the URL names no host".into())),
        };
        let mut connection =
            Self { stream, read: BytesMut::with_capacity(BUFFER), write: BytesMut::new(), is_standby: false };
        connection.start_up(config).await?;
        connection.authenticate(config).await?;
        connection.until_ready().await?;
        if connection.is_standby {
            return Err(ReplicationError::Settings("it is a standby".into()));
        }
        Ok(connection)
    }

    async fn start_up(&mut self, config: &Config) -> Result<(), ReplicationError> {
        let mut parameters = vec![
            ("client_encoding", "UTF8"),
            ("replication", "database"),
            ("user", config.get_user().unwrap_or_default()),
            ("application_name", "pillarbox/log"),
            // The forms of values in rows, whatever the role's settings are.
            ("datestyle", "ISO"),
            ("timezone", "UTC"),
            ("bytea_output", "hex"),
            // While it decodes a large transaction of others, the server sends signs of life at half of this time.
            ("wal_sender_timeout", "10s"),
        ];
        parameters.extend(config.get_dbname().map(|name| ("database", name)));
        parameters.extend(config.get_options().map(|options| ("options", options)));
        frontend::startup_message(parameters, &mut self.write)?;
        self.flush().await
    }

    async fn authenticate(&mut self, config: &Config) -> Result<(), ReplicationError> {
        let password = || {
            let missing = || ReplicationError::Settings("the server asks for a password, and the URL has none".into());
            config.get_password().ok_or_else(missing)
        };
        let mut scram = None;
        loop {
            let mut body = self.expect(b'R').await?;
            if body.len() < 4 {
                return Err(broken("the server's authentication request is too short"));
            }
            match body.get_i32() {
                0 => return Ok(()),
                3 => frontend::password_message(password()?, &mut self.write)?,
                5 => {
                    let salt = body.get(..4).and_then(|salt| salt.try_into().ok());
                    let salt = salt.ok_or_else(|| broken("the server's authentication request is too short"))?;
                    let hashed = md5_hash(config.get_user().unwrap_or_default().as_bytes(), password()?, salt);
                    frontend::password_message(hashed.as_bytes(), &mut self.write)?;
                }
                10 if body.split(|byte| *byte == 0).any(|name| name == SCRAM_SHA_256.as_bytes()) => {
                    let begun = ScramSha256::new(password()?, ChannelBinding::unsupported());
                    frontend::sasl_initial_response(SCRAM_SHA_256, begun.message(), &mut self.write)?;
                    scram = Some(begun);
                }
                11 => {
                    let scram = scram.as_mut().ok_or_else(|| broken("the server continues what was not begun"))?;
                    scram.update(&body)?;
                    frontend::sasl_response(scram.message(), &mut self.write)?;
                }
                12 => {
                    let scram = scram.as_mut().ok_or_else(|| broken("the server ends what was not begun"))?;
                    scram.finish(&body)?;
                }
                _ => {
                    let unknown = "the server asks for another authentication than a password";
                    return Err(ReplicationError::Settings(unknown.into()));
                }
            }
            self.flush().await?;
        }
    }

    /// Returns which server this is, and on which timeline.
    async fn identify(&mut self) -> Result<Identity, ReplicationError> {
        frontend::query("IDENTIFY_SYSTEM", &mut self.write)?;
        self.flush().await?;
        let mut columns = columns(self.expect(b'D').await?).into_iter();
        self.until_ready().await?;
        match (columns.next(), columns.next()) {
            (Some(system), Some(timeline)) => Ok(Identity { system, timeline }),
            _ => Err(broken("the server does not identify itself")),
        }
    }

    async fn start(&mut self, wanted: &Subscription) -> Result<(), ReplicationError> {
        let name = |name: &str| name.replace('"', "\"\"").replace('\'', "''");
        // Version 1 of the protocol: transactions arrive whole and in the order of their commits. The server writes large ones
        // to its disk meanwhile, and leaves out what was rolled back to a savepoint.
        let command = format!(
            "START_REPLICATION SLOT \"{}\" LOGICAL {} (proto_version '1', publication_names '\"{}\"', messages 'true')",
            wanted.slot.replace('"', "\"\""),
            wanted.from,
            name(&wanted.publication),
        );
        frontend::query(&command, &mut self.write)?;
        self.flush().await?;
        self.expect(b'W').await?;
        Ok(())
    }

    /// Returns the next frame of the stream. It may be cancelled.
    pub(crate) async fn frame(&mut self) -> Result<Bytes, ReplicationError> {
        self.expect(b'd').await
    }

    /// Returns the next frame if it was received already.
    pub(crate) fn received(&mut self) -> Result<Option<Bytes>, ReplicationError> {
        while let Some((tag, body)) = self.take()? {
            match tag {
                b'd' => return Ok(Some(body)),
                _ => unexpected(tag, &body)?,
            }
        }
        Ok(None)
    }

    /// Tells the server which part of the log is no longer needed. With `reply`, asks how far it has sent.
    pub(crate) async fn confirm(&mut self, received: Lsn, done: Lsn, reply: bool) -> Result<(), ReplicationError> {
        let mut status = BytesMut::with_capacity(34);
        status.put_u8(b'r');
        status.put_u64(received.0.max(done.0));
        status.put_u64(done.0);
        status.put_u64(done.0);
        // The time of this host, which the server only shows.
        status.put_i64(0);
        status.put_u8(u8::from(reply));
        frontend::CopyData::new(status.freeze())?.write(&mut self.write);
        self.flush().await
    }

    async fn flush(&mut self) -> Result<(), ReplicationError> {
        // What was written is removed at once, so that a cancelled write goes on where it was.
        while !self.write.is_empty() {
            let written = self.stream.write(&self.write).await?;
            if written == 0 {
                return Err(io::Error::from(io::ErrorKind::WriteZero).into());
            }
            self.write.advance(written);
        }
        Ok(self.stream.flush().await?)
    }

    /// Waits for a message of this kind. Messages about the session are skipped.
    async fn expect(&mut self, wanted: u8) -> Result<Bytes, ReplicationError> {
        loop {
            while let Some((tag, body)) = self.take()? {
                match tag {
                    _ if tag == wanted => return Ok(body),
                    // A standby may have a slot of the same name, too.
                    b'S' if body.starts_with(b"in_hot_standby\0on") => self.is_standby = true,
                    _ => unexpected(tag, &body)?,
                }
            }
            self.read.reserve(BUFFER);
            if self.stream.read_buf(&mut self.read).await? == 0 {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection").into());
            }
        }
    }

    async fn until_ready(&mut self) -> Result<(), ReplicationError> {
        self.expect(b'Z').await.map(drop)
    }

    /// Takes a whole message from what was read.
    fn take(&mut self) -> Result<Option<(u8, Bytes)>, ReplicationError> {
        let Some(header) = self.read.get(..5) else { return Ok(None) };
        let (tag, length) = (header[0], i32::from_be_bytes([header[1], header[2], header[3], header[4]]));
        let length = usize::try_from(length).ok().filter(|length| (4..=LARGEST).contains(length));
        let length = length.ok_or_else(|| broken("a message has an invalid length"))?;
        if self.read.len() < length + 1 {
            self.read.reserve(length + 1 - self.read.len());
            return Ok(None);
        }
        let mut body = self.read.split_to(length + 1);
        body.advance(5);
        Ok(Some((tag, body.freeze())))
    }
}

/// Checks a message that is not the expected one: an error ends the connection, and what describes the session is skipped.
fn unexpected(tag: u8, body: &[u8]) -> Result<(), ReplicationError> {
    match tag {
        b'E' => Err(refusal(body)),
        b'S' | b'N' | b'K' | b'T' | b'C' | b'Z' | b'A' => Ok(()),
        b'c' => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server ended the stream").into()),
        _ => Err(broken("the server sent an unexpected message")),
    }
}

/// Reads an error of the server.
fn refusal(body: &[u8]) -> ReplicationError {
    let (mut code, mut message) = (String::new(), "the server refused".to_owned());
    for field in body.split(|byte| *byte == 0) {
        match field.split_first() {
            Some((b'C', text)) => code = String::from_utf8_lossy(text).into_owned(),
            Some((b'M', text)) => message = String::from_utf8_lossy(text).into_owned(),
            _ => {}
        }
    }
    ReplicationError::Server { code, message }
}

/// Reads the columns of a row as text. NULL is an empty text.
fn columns(mut row: Bytes) -> Vec<String> {
    let mut columns = Vec::new();
    if row.len() >= 2 {
        row.advance(2);
    }
    while row.len() >= 4 {
        let length = usize::try_from(row.get_i32()).unwrap_or(0).min(row.len());
        columns.push(String::from_utf8_lossy(&row.split_to(length)).into_owned());
    }
    columns
}

/// Asks the server for encryption, as the URL wants it.
async fn encrypted(
    mut stream: TcpStream,
    mode: SslMode,
    host: &str,
    mut tls: MakeRustlsConnect,
) -> Result<Box<dyn Duplex>, ReplicationError> {
    if mode == SslMode::Disable {
        return Ok(Box::new(stream));
    }
    let mut ask = BytesMut::new();
    frontend::ssl_request(&mut ask);
    stream.write_all(&ask).await?;
    if stream.read_u8().await? != b'S' {
        if mode == SslMode::Require {
            return Err(ReplicationError::Settings("the server does not support TLS, which sslmode asks for".into()));
        }
        return Ok(Box::new(stream));
    }
    let connector = MakeTlsConnect::<TcpStream>::make_tls_connect(&mut tls, host);
    let connector = connector.map_err(|error| ReplicationError::Settings(error.into()))?;
    let stream = connector.connect(stream).await.map_err(|error| ReplicationError::Settings(error.into()))?;
    Ok(Box::new(stream))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_has_a_code_and_a_message() {
        let body = b"SERROR\0VERROR\0C55006\0Mreplication slot \"a\" is active for PID 7\0\0";
        let error = refusal(body);
        assert!(error.is_slot_in_use());
        assert_eq!(error.to_string(), "replication slot \"a\" is active for PID 7");
    }

    #[test]
    fn any_row_can_be_read() {
        let row = b"\0\x02\0\0\0\x017\xff\xff\xff\xff";
        assert_eq!(columns(Bytes::from_static(row)), ["7", ""]);
        assert_eq!(columns(Bytes::from_static(b"\0\x01\0\0\0\x09ab")), ["ab"]);
        assert!(columns(Bytes::from_static(b"\0")).is_empty());
    }
}
