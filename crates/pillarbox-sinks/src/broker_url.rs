//! The parts of a broker's URL, read as Celery and kombu do, which differs a little from the clients. Pure.

use url::Url;

/// A URL that cannot be used. The settings of each kind turn it into an error with the name of their key.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum UrlError {
    /// The URL does not parse. The reason does not contain it.
    Malformed { reason: String },
    /// The scheme is not supported.
    Scheme { scheme: String },
    /// Several addresses, for a server that can have only one.
    SeveralAddresses,
    /// A key in the query that the client does not support.
    Query { key: String, advice: &'static str },
    /// The name of a Redis database is not a number.
    Database { given: String },
    /// The name of the sentinels' master is missing.
    MasterName,
}

impl UrlError {
    pub(crate) fn malformed(reason: impl Into<String>) -> Self {
        Self::Malformed { reason: reason.into() }
    }

    pub(crate) fn unknown_query(key: &str) -> Self {
        let advice = if key.starts_with("ssl_") || key.ends_with("certfile") {
            "set ca_file to the certificate authority instead"
        } else {
            "remove it: it has no effect; use the keys of the destination instead"
        };
        Self::Query { key: key.to_owned(), advice }
    }
}

/// Reads addresses that are separated by `;`. There is at least one.
pub(crate) fn parse(text: &str) -> Result<Vec<Url>, UrlError> {
    let parts = text.split(';').map(str::trim).filter(|part| !part.is_empty());
    let urls = parts.map(parse_one).collect::<Result<Vec<_>, _>>()?;
    if urls.is_empty() { Err(UrlError::malformed("it is empty")) } else { Ok(urls) }
}

fn parse_one(text: &str) -> Result<Url, UrlError> {
    let Some((scheme, rest)) = text.split_once("://") else { return Err(UrlError::malformed("it has no scheme")) };
    // A login without a host: kombu takes localhost as the host.
    let (login, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = if login.ends_with('@') { "localhost" } else { "" };
    let url = Url::parse(&format!("{scheme}://{login}{host}{path}"))
        .map_err(|error| UrlError::malformed(error.to_string()))?;
    if url.path().contains('@') {
        return Err(UrlError::malformed(
            "there is an @ after the host: percent-encode special characters in the password",
        ));
    }
    Ok(url)
}

pub(crate) fn decoded(text: &str) -> Result<String, UrlError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        let hex = (byte == b'%').then(|| behind.get(..2).and_then(|two| std::str::from_utf8(two).ok())).flatten();
        match hex.and_then(|two| u8::from_str_radix(two, 16).ok()) {
            Some(value) => {
                bytes.push(value);
                rest = &behind[2..];
            }
            None => {
                bytes.push(byte);
                rest = behind;
            }
        }
    }
    String::from_utf8(bytes).map_err(|_| UrlError::malformed("it is not UTF-8 when decoded"))
}

pub(crate) fn user(url: &Url) -> Result<Option<String>, UrlError> {
    Some(url.username()).filter(|user| !user.is_empty()).map(decoded).transpose()
}

pub(crate) fn password(url: &Url) -> Result<Option<String>, UrlError> {
    url.password().filter(|password| !password.is_empty()).map(decoded).transpose()
}

pub(crate) fn host(url: &Url) -> Result<String, UrlError> {
    let host = url.host_str().unwrap_or_default();
    let host = if host.is_empty() { "localhost" } else { host };
    decoded(host.trim_start_matches('[').trim_end_matches(']'))
}

/// Returns the part after the first slash.
pub(crate) fn path(url: &Url) -> Result<String, UrlError> {
    decoded(url.path().strip_prefix('/').unwrap_or(url.path()))
}
