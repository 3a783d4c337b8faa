//! Builds the request for a message: headers, their precedence, and the body. Knows nothing of connections.
//!
//! An event's own headers come first, then those of the settings, then Pillarbox's own. Later ones win.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use hyper::http::uri::InvalidUri;
use hyper::{Method, Request, Uri};
use pillarbox::event::{JSON, PAYLOAD_CONTENT_TYPE};
use pillarbox::sink::test_event;
use pillarbox::{Headers, Message, SendError, StoredEvent};
use url::Url;

use super::settings::{HttpError, HttpSettings};
use super::signature::Keys;
use crate::content::Content;
use crate::registry::EventParts;
use crate::{Secret, content};

const TRACEPARENT: HeaderName = HeaderName::from_static(pillarbox::trace::TRACEPARENT);
const WEBHOOK_ID: HeaderName = HeaderName::from_static("webhook-id");
const WEBHOOK_TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const WEBHOOK_SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");
const EVENT_TYPE: HeaderName = HeaderName::from_static(content::EVENT_TYPE);
const AGGREGATE_TYPE: HeaderName = HeaderName::from_static(content::AGGREGATE_TYPE);
const AGGREGATE_ID: HeaderName = HeaderName::from_static(content::AGGREGATE_ID);
const TEST: HeaderName = HeaderName::from_static(test_event::HEADER);
const ATTEMPT: HeaderName = HeaderName::from_static("pillarbox-attempt");
/// The largest number of Pillarbox's own headers in a request.
const OWN_HEADERS: usize = 11;

/// Headers that frame the message or belong to one connection. Only the client sets them.
const FRAMING: [&str; 14] = [
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];
/// Headers that only the configuration sets. An event must not choose its credentials.
const CONFIGURED: [&str; 4] = ["authorization", "content-type", "cookie", "user-agent"];
const OWN_PREFIXES: [&str; 2] = ["webhook-", "pillarbox-"];

/// The parts that all requests to a receiver share.
pub(super) struct Requests {
    uri: Uri,
    content: Content,
    keys: Keys,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Requests {
    pub(super) fn new(url: &Url, settings: HttpSettings) -> Result<Self, HttpError> {
        settings.content.check()?;
        let uri = url.as_str().parse().map_err(|error: InvalidUri| HttpError::Url(error.into()))?;
        let headers = configured_headers(&settings)?;
        Ok(Self { uri, keys: Keys::new(&settings.secrets)?, content: settings.content, headers })
    }

    /// Returns the request that asks whether the receiver is there.
    pub(super) fn head(&self) -> Request<Bytes> {
        let mut request = Request::new(Bytes::new());
        *request.method_mut() = Method::HEAD;
        *request.uri_mut() = self.uri.clone();
        request
    }

    /// Builds the request of a message.
    ///
    /// # Errors
    /// Fails only if the envelope cannot be written.
    pub(super) fn build(&self, message: &Message) -> Result<Request<Bytes>, SendError> {
        let body = self.body(message)?;
        let headers = self.headers(message, &body, unix_seconds())?;
        let mut request = Request::new(body);
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = headers;
        Ok(request)
    }

    fn body(&self, message: &Message) -> Result<Bytes, SendError> {
        Ok(match self.content.body(message)? {
            Cow::Borrowed(_) => Bytes::from_owner(Payload(message.clone())),
            Cow::Owned(body) => Bytes::from(body),
        })
    }

    fn headers(&self, message: &Message, body: &[u8], now: u64) -> Result<HeaderMap, SendError> {
        let mut headers = HeaderMap::with_capacity(message.headers.len() + self.headers.len() + OWN_HEADERS);
        insert_event_headers(&mut headers, message);
        if let Some(span) = message.trace() {
            headers.insert(TRACEPARENT, value(span.to_string())?);
        }
        for (name, value) in &self.headers {
            headers.insert(name, value.clone());
        }
        if message.is_opaque() {
            headers.insert(CONTENT_TYPE, value(self.content.content_type(&message.headers))?);
        }
        let (id, timestamp) = (message.id.to_string(), now.to_string());
        if let Some(signature) = self.keys.sign(&id, &timestamp, body) {
            headers.insert(WEBHOOK_SIGNATURE, value(signature)?);
        }
        headers.insert(WEBHOOK_ID, value(id)?);
        headers.insert(WEBHOOK_TIMESTAMP, value(timestamp)?);
        let event = EventParts::from(&**message);
        for (name, text) in names(&event) {
            headers.insert(name, value(text)?);
        }
        for (name, text) in self.content.attributes(&event, message.traceparent()) {
            headers.insert(attribute(name)?, value(encoded(&text).into_owned())?);
        }
        headers.insert(ATTEMPT, HeaderValue::from(message.attempt()));
        if message.is_test() {
            headers.insert(TEST, HeaderValue::from_static("true"));
        }
        Ok(headers)
    }
}

/// Returns the headers that name the event.
fn names<'a>(event: &EventParts<'a>) -> [(HeaderName, Cow<'a, str>); 3] {
    [
        (EVENT_TYPE, encoded(event.event_type)),
        (AGGREGATE_TYPE, encoded(event.aggregate_type)),
        (AGGREGATE_ID, encoded(event.aggregate_id)),
    ]
}

/// Returns the header of a CloudEvents attribute in binary mode.
fn attribute(name: &str) -> Result<HeaderName, SendError> {
    HeaderName::try_from(format!("ce-{name}")).map_err(SendError::reject)
}

/// The headers and the body of a request, for people. An opaque body is not shown.
type Shown = (Vec<(String, String)>, Option<String>);

/// Returns the headers and the body of an event's request: without secrets, and without headers that differ at each attempt.
pub(super) fn shown(event: &EventParts<'_>, content: &Content, configured: &[(String, String)]) -> Option<Shown> {
    let traceparent = || event.headers.get(pillarbox::trace::TRACEPARENT).map(|text| text.as_str().into());
    let body = match content.envelope(event, traceparent()).ok()? {
        None if event.headers.contains_key(PAYLOAD_CONTENT_TYPE) => None,
        None => Some(event.payload.get().to_owned()),
        Some(envelope) => Some(String::from_utf8(envelope).ok()?),
    };
    let mut headers = vec![
        (CONTENT_TYPE.to_string(), content.content_type(event.headers).to_owned()),
        (WEBHOOK_ID.to_string(), event.id.to_string()),
    ];
    headers.extend(names(event).map(|(name, text)| (name.to_string(), text.into_owned())));
    let attributes = content.attributes(event, traceparent());
    headers.extend(attributes.iter().map(|(name, text)| (format!("ce-{name}"), encoded(text).into_owned())));
    let is_configured = |name: &str| configured.iter().any(|(given, _)| given.eq_ignore_ascii_case(name));
    for (name, text) in event.headers {
        // Some control characters can be sent, but a terminal must not show them.
        if event_header(name, text).is_ok() && !is_configured(name) && !text.contains(char::is_control) {
            headers.push((name.clone(), text.clone()));
        }
    }
    Some((headers, body))
}

/// A payload that is sent from the claim's memory, without a copy.
struct Payload(Message);

impl AsRef<[u8]> for Payload {
    fn as_ref(&self) -> &[u8] {
        self.0.payload.get().as_bytes()
    }
}

fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn configured_headers(settings: &HttpSettings) -> Result<Vec<(HeaderName, HeaderValue)>, HttpError> {
    let mut headers = vec![
        (CONTENT_TYPE, default_type(&settings.content)),
        (USER_AGENT, HeaderValue::from_static(concat!("pillarbox/", env!("CARGO_PKG_VERSION")))),
    ];
    if let Some(token) = &settings.bearer {
        headers.push((AUTHORIZATION, bearer(token)?));
    }
    for (name, secret) in &settings.headers {
        headers.push(configured_header(name, secret, settings.bearer.is_some())?);
    }
    Ok(headers)
}

/// Returns the type of bodies whose payload is JSON.
fn default_type(content: &Content) -> HeaderValue {
    HeaderValue::from_str(content.content_type(&Headers::new())).unwrap_or_else(|_| HeaderValue::from_static(JSON))
}

fn bearer(token: &Secret) -> Result<HeaderValue, HttpError> {
    let token = token.expose();
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(HttpError::Bearer);
    }
    let mut value = HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| HttpError::Bearer)?;
    value.set_sensitive(true);
    Ok(value)
}

fn configured_header(given: &str, secret: &Secret, bearer: bool) -> Result<(HeaderName, HeaderValue), HttpError> {
    let name = HeaderName::try_from(given).map_err(|_| HttpError::HeaderName { name: given.to_owned() })?;
    if FRAMING.contains(&name.as_str()) || is_own(&name) {
        return Err(HttpError::ReservedHeader { name: given.to_owned() });
    }
    if bearer && name == AUTHORIZATION {
        return Err(HttpError::TwoAuthorizations);
    }
    let mut value =
        HeaderValue::try_from(secret.expose()).map_err(|_| HttpError::HeaderValue { name: given.to_owned() })?;
    value.set_sensitive(true);
    Ok((name, value))
}

fn is_own(name: &HeaderName) -> bool {
    OWN_PREFIXES.iter().any(|prefix| name.as_str().starts_with(prefix))
}

fn insert_event_headers(headers: &mut HeaderMap, event: &StoredEvent) {
    for (name, text) in &event.headers {
        match event_header(name, text) {
            Ok((name, value)) => {
                headers.insert(name, value);
            }
            Err(reason) => tracing::debug!(event = %event.id, header = name, reason, "event header not sent"),
        }
    }
}

fn event_header(name: &str, text: &str) -> Result<(HeaderName, HeaderValue), &'static str> {
    let name = HeaderName::try_from(name).map_err(|_| "its name is not a valid HTTP header name")?;
    if FRAMING.contains(&name.as_str()) || CONFIGURED.contains(&name.as_str()) || is_own(&name) {
        return Err("only the destination's settings can set it");
    }
    let value = HeaderValue::from_bytes(text.as_bytes()).map_err(|_| "its value contains control characters")?;
    Ok((name, value))
}

fn value<'a>(text: impl Into<Cow<'a, str>>) -> Result<HeaderValue, SendError> {
    let value = match text.into() {
        Cow::Borrowed(text) => HeaderValue::from_str(text),
        Cow::Owned(text) => HeaderValue::try_from(text),
    };
    value.map_err(SendError::reject)
}

/// Encodes a name as a header's value, as CloudEvents does. Space, quote, percent and all characters that are not printable
/// ASCII are percent-encoded, so that every name arrives and can be decoded.
fn encoded(text: &str) -> Cow<'_, str> {
    let plain = |byte: u8| byte.is_ascii_graphic() && byte != b'"' && byte != b'%';
    if text.bytes().all(plain) {
        return Cow::Borrowed(text);
    }
    let mut encoded = String::with_capacity(text.len() * 3);
    for byte in text.bytes() {
        if plain(byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a String does not fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    Cow::Owned(encoded)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::content::Format;

    fn requests(settings: HttpSettings) -> Result<Requests, HttpError> {
        Requests::new(&settings.checked_url()?, settings)
    }

    fn with_header(name: &str, value: &str) -> HttpSettings {
        let mut settings = HttpSettings::new("https://receiver.example");
        settings.headers.insert(name.to_owned(), value.into());
        settings
    }

    fn refusal(settings: HttpSettings) -> String {
        requests(settings).err().unwrap().to_string()
    }

    fn sent(settings: HttpSettings, headers: &[(&str, &str)]) -> HeaderMap {
        let mut event = StoredEvent::for_tests("order.placed", "{}");
        event.headers.extend(headers.iter().map(|(name, value)| (name.to_string(), value.to_string())));
        requests(settings).unwrap().build(&Message::new(Arc::new(event), 1)).unwrap().headers().clone()
    }

    #[test]
    fn names_are_percent_encoded_where_a_header_cannot_hold_them() {
        assert_eq!(encoded("order.placed"), "order.placed");
        assert_eq!(encoded("Größe 100%\n"), "Gr%C3%B6%C3%9Fe%20100%25%0A");
    }

    #[test]
    fn settings_that_no_header_can_hold_are_refused_without_their_values() {
        assert!(refusal(with_header("x key", "hunter2")).contains(r#"the name "x key""#));
        let value = refusal(with_header("x-key", "hunter2\n"));
        assert!(value.contains("a value for x-key") && !value.contains("hunter2"), "{value}");
        for name in ["Host", "content-length", "Webhook-Id", "pillarbox-attempt"] {
            assert!(
                refusal(with_header(name, "x")).contains(&format!("headers sets {name}, which Pillarbox")),
                "{name}"
            );
        }
        for token in ["", "Bearer hunter2", "hunter2\n"] {
            let bearer = refusal(HttpSettings { bearer: Some(token.into()), ..HttpSettings::new("http://a.example") });
            assert!(bearer.contains("give the token alone") && !bearer.contains("hunter2"), "{bearer}");
        }
        let both = HttpSettings { bearer: Some("t".into()), ..with_header("Authorization", "Basic x") };
        assert!(refusal(both).contains("keep one of them"));
    }

    #[test]
    fn an_event_cannot_set_what_is_reserved_or_configured() {
        let names = ["Host", "authorization", "COOKIE", "content-type", "transfer-encoding", "webhook-signature"];
        let headers = names.map(|name| (name, "forged"));
        let sent = sent(with_header("x-key", "configured"), &[&headers[..], &[("X-Key", "forged")]].concat());
        assert!(sent.values().all(|value| value != "forged"), "{sent:?}");
        assert_eq!(sent["x-key"].to_str().unwrap(), "configured");
    }

    #[test]
    fn an_events_own_headers_travel_if_http_can_carry_them() {
        let sent = sent(
            HttpSettings::new("https://receiver.example"),
            &[("traceparent", "00-1-2-01"), ("Tenant", "Müller"), ("bad name", "x"), ("split", "a\r\nhost: b")],
        );
        assert_eq!(sent["traceparent"], "00-1-2-01");
        assert_eq!(sent["tenant"].as_bytes(), "Müller".as_bytes());
        assert!(!sent.contains_key("split"));
        let own = ["content-type", "user-agent", "webhook-id", "webhook-timestamp"].len()
            + ["event-type", "aggregate-type", "aggregate-id", "attempt"].len();
        assert_eq!(sent.len(), own + 2);
    }

    #[test]
    fn a_receiver_is_told_the_span_of_the_attempt_in_place_of_the_producers() {
        let span = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let mut event = StoredEvent::for_tests("order.placed", "{}");
        event.headers.insert("traceparent".to_owned(), "00-1-2-01".to_owned());
        let message = Message::new(Arc::new(event), 1).traced(span.parse().unwrap());
        for format in [Format::Payload, Format::CloudEvents, Format::CloudEventsBinary] {
            let content = Content::new(format);
            let settings = HttpSettings { content, ..HttpSettings::new("https://receiver.example") };
            let request = requests(settings).unwrap().build(&message).unwrap();
            assert_eq!(request.headers()["traceparent"], span);
            let is_binary = format == Format::CloudEventsBinary;
            assert_eq!(request.headers().get("ce-traceparent").is_some_and(|value| value == span), is_binary);
            let body = String::from_utf8_lossy(request.body()).into_owned();
            assert!(body == "{}" || body.contains(&format!(r#""traceparent":"{span}""#)), "{body}");
        }
    }

    #[test]
    fn secrets_are_marked_as_such() {
        let settings = HttpSettings { bearer: Some("hunter2".into()), ..with_header("x-key", "hunter3") };
        assert!(!format!("{:?}", sent(settings, &[])).contains("hunter"));
    }
}
