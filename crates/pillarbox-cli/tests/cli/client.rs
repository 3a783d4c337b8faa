//! A small HTTP client that shows everything, cookies and headers included, and adds nothing of its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Answer {
    /// All values of a header.
    pub(crate) fn all(&self, name: &str) -> Vec<&str> {
        self.headers.iter().filter(|(one, _)| one == name).map(|(_, value)| value.as_str()).collect()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.all(name).first().copied().unwrap_or("")
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// One that keeps its cookies, like a browser.
pub(crate) struct Client {
    address: String,
    tls: Option<CertificateDer<'static>>,
    pub(crate) host: String,
    cookies: BTreeMap<String, String>,
    pub(crate) headers: Vec<(String, String)>,
}

impl Client {
    pub(crate) fn new(address: &str) -> Self {
        let (cookies, headers) = (BTreeMap::new(), Vec::new());
        Self { address: address.to_owned(), tls: None, host: address.to_owned(), cookies, headers }
    }

    /// Speaks TLS, and trusts only this certificate.
    pub(crate) fn trusting(address: &str, certificate: CertificateDer<'static>) -> Self {
        Self { tls: Some(certificate), ..Self::new(address) }
    }

    pub(crate) async fn get(&mut self, path: &str) -> Answer {
        self.send("GET", path, &[], "").await
    }

    pub(crate) async fn post(&mut self, path: &str, form: &[(&str, &str)]) -> Answer {
        let fields: Vec<String> = form.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
        self.send("POST", path, &[("content-type", "application/x-www-form-urlencoded")], &fields.join("&")).await
    }

    pub(crate) async fn send(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut request =
            format!("{method} {path} HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
        if !self.host.is_empty() {
            request.push_str(&format!("Host: {}\r\n", self.host));
        }
        let own = self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        for (name, value) in headers.iter().copied().chain(own) {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        let cookies: Vec<String> = self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        if !cookies.is_empty() {
            request.push_str(&format!("Cookie: {}\r\n", cookies.join("; ")));
        }
        request.push_str("\r\n");
        request.push_str(body);
        let stream = TcpStream::connect(&self.address).await.unwrap();
        let answer = match &self.tls {
            None => exchange(stream, &request).await,
            Some(certificate) => {
                let name = ServerName::try_from("localhost").unwrap();
                let stream = connector(certificate.clone()).connect(name, stream).await.unwrap();
                exchange(stream, &request).await
            }
        };
        self.keep_cookies(&answer);
        answer
    }

    fn keep_cookies(&mut self, answer: &Answer) {
        for cookie in answer.all("set-cookie") {
            let (name, value) = cookie.split(';').next().unwrap().split_once('=').unwrap();
            if value.is_empty() {
                self.cookies.remove(name);
            } else {
                self.cookies.insert(name.to_owned(), value.to_owned());
            }
        }
    }

    /// Asks another server from now on, under the same name: as behind a proxy.
    pub(crate) fn go_to(&mut self, address: &str) {
        address.clone_into(&mut self.address);
    }

    pub(crate) fn keep_cookie(&mut self, name: &str, value: &str) {
        self.cookies.insert(name.to_owned(), value.to_owned());
    }

    pub(crate) fn cookies(&self) -> &BTreeMap<String, String> {
        &self.cookies
    }

    pub(crate) async fn log_in(&mut self, name: &str, password: &str) -> Answer {
        self.post("/login", &[("name", name), ("password", password)]).await
    }

    /// The CSRF token of the session, as the forms of a page have it.
    pub(crate) async fn csrf(&mut self) -> String {
        let page = self.get("/").await.body;
        let (_, rest) = page.split_once("name=\"csrf\" value=\"").unwrap_or_else(|| panic!("no form in {page}"));
        rest.split('"').next().unwrap().to_owned()
    }
}

fn connector(certificate: CertificateDer<'static>) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    roots.add(certificate).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    TlsConnector::from(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}

async fn exchange<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, request: &str) -> Answer {
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let header = |line: &str| line.split_once(':').map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()));
    let headers: Vec<_> = lines.filter_map(header).collect();
    let chunked = headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked");
    Answer { status, body: if chunked { joined(body) } else { body.to_owned() }, headers }
}

/// A body that came in chunks.
fn joined(mut rest: &str) -> String {
    let mut body = String::new();
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap();
        body.push_str(&after[..size]);
        rest = after[size..].trim_start_matches("\r\n");
        if size == 0 {
            break;
        }
    }
    body
}

fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~');
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}
