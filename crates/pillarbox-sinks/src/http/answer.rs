//! Judges a receiver's response: delivered, or the kind of failure, with the beginning of the body for people.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::time::{Duration, SystemTime};

use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use hyper::header::{DATE, HeaderMap, HeaderName, LOCATION, RETRY_AFTER};
use hyper::{Response, StatusCode};
use pillarbox::SendError;
use pillarbox::sink::Receipt;
use url::Url;

use super::settings::HttpSettings;

/// The number of bytes of a response that are kept.
const PIECE: usize = 1024;
/// The timeout for the body of a response. The status has already decided; the body is read to reuse the connection, and
/// for people. 100 milliseconds are longer than a delayed acknowledgement between header and body.
const PATIENCE_DELIVERED: Duration = Duration::from_millis(100);
const PATIENCE_FAILED: Duration = Duration::from_secs(1);
/// The longest `Retry-After`. A receiver's mistake must not park its events forever.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 60 * 60);
/// The shortest secret that is hidden. A shorter text is part of too many words.
const SHORTEST_HIDDEN: usize = 6;
/// A part of a path from this length on is a token, not a word.
const LONG_WORD: usize = 20;

/// Reads the responses of one receiver.
pub(super) struct Answers {
    url: Url,
    max_answer: usize,
    hidden: Vec<String>,
}

impl Answers {
    pub(super) fn new(url: &Url, settings: &HttpSettings) -> Self {
        let given = settings.secrets.iter().chain(&settings.bearer).chain(settings.headers.values());
        let mut hidden: Vec<String> = given.map(|secret| secret.expose().to_owned()).collect();
        hidden.extend(url.query().map(str::to_owned));
        hidden.extend(url.query_pairs().map(|(_, value)| value.into_owned()));
        hidden.extend(in_path(url));
        hidden.retain(|text| text.len() >= SHORTEST_HIDDEN);
        // Longer texts first: a text may contain another.
        hidden.sort_by_key(|text| Reverse(text.len()));
        Self { url: url.clone(), max_answer: settings.max_answer, hidden }
    }

    /// Returns whether the event was delivered. `left` is the rest of the timeout. Reading the body must not use it up,
    /// because the status has already decided.
    pub(super) async fn judge(&self, response: Response<Incoming>, left: Duration) -> Result<Receipt, SendError> {
        let (head, mut body) = response.into_parts();
        let status = head.status;
        if status.is_success() {
            if !body.is_end_stream() {
                self.read(&mut body, PATIENCE_DELIVERED.min(left / 2), |_| {}).await;
            }
            return Ok(Receipt::with_status(status.as_u16()));
        }
        let mut read = Vec::new();
        self.read(&mut body, PATIENCE_FAILED.min(left / 2), |chunk| read.extend_from_slice(chunk)).await;
        let piece = self.piece(&read);
        Err(failed(status, &head.headers, &self.url, SystemTime::now()).answered(status.as_u16(), piece))
    }

    /// Reads until the end, the limit, an error or the timeout. None of them changes the result.
    async fn read(&self, body: &mut Incoming, patience: Duration, mut keep: impl FnMut(&[u8])) {
        let all = async {
            let mut room = self.max_answer;
            while room > 0 {
                let Some(Ok(frame)) = body.frame().await else { break };
                let Ok(chunk) = frame.into_data() else { continue };
                let chunk = &chunk[..chunk.len().min(room)];
                room -= chunk.len();
                keep(chunk);
            }
        };
        // A timeout has the same effect as the limit.
        let _ = tokio::time::timeout(patience, all).await;
    }

    /// Returns the beginning of a response as text that every database can store. Secrets are hidden, because some
    /// receivers show the request on their error page.
    fn piece(&self, read: &[u8]) -> String {
        let mut text = String::from_utf8_lossy(read);
        for hidden in &self.hidden {
            if text.contains(hidden) {
                text = Cow::Owned(text.replace(hidden, "***"));
            }
        }
        let text = text.trim();
        let piece = &text[..text.floor_char_boundary(PIECE)];
        piece.replace(|letter: char| letter.is_control() && !matches!(letter, '\n' | '\t'), " ")
    }
}

fn failed(status: StatusCode, headers: &HeaderMap, url: &Url, now: SystemTime) -> SendError {
    let reason = status.canonical_reason().unwrap_or("an unknown status");
    let message = format!("the receiver answered {} {reason}", status.as_u16());
    let error = match status.as_u16() {
        410 => SendError::reject(format_args!("{message}: it no longer accepts this")),
        422 => SendError::reject(format_args!("{message}: it refuses this event for good")),
        429 | 502 | 503 | 504 => SendError::unavailable(message),
        300..=399 => SendError::retry(format_args!("{message}{}", redirect(headers, url))),
        _ => SendError::retry(message),
    };
    error.after(retry_after(headers, now))
}

/// Returns the path and those of its parts that may be tokens, as webhooks often have them. Plain words are not hidden by
/// themselves.
fn in_path(url: &Url) -> Vec<String> {
    let path = url.path().trim_matches('/');
    let parts = path.split('/').flat_map(|part| [part.to_owned(), decoded(part)]);
    let mut hidden: Vec<String> = parts.filter(|part| is_token(part)).collect();
    hidden.push(path.to_owned());
    hidden
}

/// Decodes percent-encoding.
fn decoded(part: &str) -> String {
    let (mut bytes, mut rest) = (Vec::with_capacity(part.len()), part.as_bytes());
    while let [first, more @ ..] = rest {
        let digits = more.get(..2).filter(|_| *first == b'%').and_then(|digits| str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => (bytes.push(byte), rest = &more[2..]),
            None => (bytes.push(*first), rest = more),
        };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn is_token(text: &str) -> bool {
    text.len() >= LONG_WORD || !text.chars().all(|c| c.is_ascii_lowercase() || matches!(c, '-' | '_' | '.'))
}

/// Describes a redirect. Only the host of the target is shown: the rest may contain tokens.
fn redirect(headers: &HeaderMap, url: &Url) -> String {
    let target = text(headers, LOCATION).and_then(|location| url.join(location).ok());
    match target.as_ref().and_then(Url::host_str) {
        Some(host) => format!(" to the host {host}; redirects are not followed, set url to the final address"),
        None => "; redirects are not followed".to_owned(),
    }
}

/// Reads `Retry-After`: seconds, or a date. A date is compared with the receiver's clock if the response has it, so that a
/// wrong clock on this host does not matter.
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let given = text(headers, RETRY_AFTER)?.trim();
    let wait = match given.parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => {
            let date = httpdate::parse_http_date(given).ok()?;
            let now = text(headers, DATE).and_then(|date| httpdate::parse_http_date(date).ok()).unwrap_or(now);
            date.duration_since(now).unwrap_or_default()
        }
    };
    Some(wait.min(LONGEST_WAIT))
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

#[cfg(test)]
mod tests {
    use pillarbox::SendErrorKind;

    use super::*;

    fn error(status: u16, headers: &[(HeaderName, &str)]) -> SendError {
        let headers = headers.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect();
        let url = Url::parse("https://receiver.example/events?token=hunter2").unwrap();
        // Sun, 06 Nov 1994 08:49:37 GMT
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        failed(StatusCode::from_u16(status).unwrap(), &headers, &url, now)
    }

    fn after(headers: &[(HeaderName, &str)]) -> Option<u64> {
        error(503, headers).after.map(|wait| wait.as_secs())
    }

    #[test]
    fn the_status_says_which_kind_of_failure_it_is() {
        use SendErrorKind::{Reject, Retry, Unavailable};
        for (status, kind) in [
            (301, Retry),
            (304, Retry),
            (400, Retry),
            (401, Retry),
            (404, Retry),
            (408, Retry),
            (409, Retry),
            (410, Reject),
            (413, Retry),
            (422, Reject),
            (429, Unavailable),
            (500, Retry),
            (501, Retry),
            (502, Unavailable),
            (503, Unavailable),
            (504, Unavailable),
            (505, Retry),
            (599, Retry),
        ] {
            assert_eq!(error(status, &[]).kind, kind, "{status}");
        }
        assert_eq!(error(503, &[]).message, "the receiver answered 503 Service Unavailable");
        let refused = "the receiver answered 422 Unprocessable Entity: it refuses this event for good";
        assert_eq!(error(422, &[]).message, refused);
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        assert_eq!(after(&[]), None);
        assert_eq!(after(&[(RETRY_AFTER, "120")]), Some(120));
        // A receiver that still handles the same event says when to ask again.
        assert_eq!(error(409, &[(RETRY_AFTER, "5")]).after, Some(Duration::from_secs(5)));
        assert_eq!(after(&[(RETRY_AFTER, "Sun, 06 Nov 1994 08:51:37 GMT")]), Some(120));
        assert_eq!(after(&[(RETRY_AFTER, "Sun, 06 Nov 1994 08:00:00 GMT")]), Some(0));
        assert_eq!(after(&[(RETRY_AFTER, "soon")]), None);
        assert_eq!(after(&[(RETRY_AFTER, "-1")]), None);
        assert_eq!(after(&[(RETRY_AFTER, "18446744073709551615")]), Some(24 * 60 * 60));
    }

    #[test]
    fn a_date_is_compared_with_the_receivers_clock() {
        let date = (DATE, "Wed, 15 Nov 1995 06:00:00 GMT");
        assert_eq!(after(&[(RETRY_AFTER, "Wed, 15 Nov 1995 06:00:30 GMT"), date]), Some(30));
    }

    #[test]
    fn a_redirect_shows_the_host_it_points_to_and_nothing_else() {
        let message = |location| error(302, &[(LOCATION, location)]).message;
        let absolute = message("https://ann:hunter2@login.example/hunter2?token=hunter2");
        assert_eq!(
            absolute,
            "the receiver answered 302 Found to the host login.example; redirects are not followed, set url to the final address"
        );
        assert!(message("/elsewhere").contains("to the host receiver.example;"));
        assert_eq!(error(302, &[]).message, "the receiver answered 302 Found; redirects are not followed");
    }

    #[test]
    fn a_token_in_the_path_is_in_no_piece() {
        let url = "https://hooks.example/services/T0001/B%2b0002/xoxbSecretToken?for=us";
        let settings = HttpSettings::new(url);
        let answers = Answers::new(&settings.checked_url().unwrap(), &settings);
        let piece = |text: &str| answers.piece(text.as_bytes());
        assert_eq!(piece("no POST /services/T0001/B%2b0002/xoxbSecretToken here"), "no POST /*** here");
        assert_eq!(piece("services: xoxbSecretToken is unknown, B+0002 too"), "services: *** is unknown, *** too");
    }

    #[test]
    fn a_piece_is_short_storable_and_without_our_secrets() {
        let settings = HttpSettings {
            bearer: Some("hunter2".into()),
            ..HttpSettings::new("https://receiver.example?key=hunter22")
        };
        let answers = Answers::new(&settings.checked_url().unwrap(), &settings);
        assert_eq!(answers.piece(b" Bearer hunter2\0refused\xff\n"), "Bearer *** refused\u{fffd}");
        assert_eq!(answers.piece(b"?key=hunter22 hunter22"), "?*** ***");
        let long = answers.piece("é".repeat(PIECE).as_bytes());
        assert_eq!(long.len(), PIECE);
        let cut_in_a_secret = format!("{}hunter2", "x".repeat(PIECE - 3));
        assert!(!answers.piece(cut_in_a_secret.as_bytes()).contains("hun"));
    }

    proptest::proptest! {
        #[test]
        fn any_answer_is_judged(
            status in 100_u16..1000,
            values in proptest::collection::vec((0_usize..3, "[ -~]{0,40}|[0-9]{0,25}|[A-Z][a-z]{2}, [0-9]{2} [A-Z][a-z]{2} [0-9]{4} [0-9:]{8} GMT"), 0..4),
        ) {
            let name = |number: usize| [RETRY_AFTER, DATE, LOCATION][number].clone();
            let mut headers = HeaderMap::new();
            for (number, value) in values {
                headers.append(name(number), value.parse().unwrap());
            }
            let url = Url::parse("https://receiver.example/hunter2?token=hunter2").unwrap();
            let error = failed(StatusCode::from_u16(status).unwrap(), &headers, &url, SystemTime::now());
            proptest::prop_assert!(error.after.is_none_or(|wait| wait <= LONGEST_WAIT));
            proptest::prop_assert!(!error.message.contains("hunter2"));
        }

        #[test]
        fn a_piece_of_any_answer_is_short_and_storable(
            before in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..1500),
            quoted in "hunter2token|hooks/hunter2token|/hooks/hunter2token|key-hunter2|key=key-hunter2",
            behind in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..40),
        ) {
            let settings = HttpSettings::new("https://receiver.example/hooks/hunter2token?key=key-hunter2");
            let answers = Answers::new(&settings.checked_url().unwrap(), &settings);
            let piece = answers.piece(&[&before[..], quoted.as_bytes(), &behind].concat());
            proptest::prop_assert!(piece.len() <= PIECE && !piece.contains("hunter2"), "{piece}");
            proptest::prop_assert!(!piece.contains(|c: char| c.is_control() && !matches!(c, '\n' | '\t')), "{piece:?}");
        }

        #[test]
        fn any_url_is_taken_or_refused_and_its_secrets_are_not_shown(
            scheme in "https?|ftp|[a-z]{0,4}",
            host in "a[a-z0-9.:\\[\\]-]{0,20}",
            path in "[a-zA-Z0-9/?=&%#@:. -]{0,20}",
        ) {
            for text in [format!("{scheme}://{host}/{path}hunter2"), format!("{scheme}://ann:hunter2@{host}/{path}")] {
                let settings = HttpSettings::new(text);
                let checked = settings.checked_url();
                let shown = format!("{settings:?} {:?}", checked.as_ref().err().map(ToString::to_string));
                proptest::prop_assert!(!shown.contains("hunter2"), "{shown}");
                if let Ok(url) = checked {
                    let _ = Answers::new(&url, &settings);
                }
            }
        }
    }
}
