//! Reads the URL of RabbitMQ as kombu does. Pure: nothing is connected to.

use amq_protocol::uri::{AMQPAuthority, AMQPQueryString, AMQPScheme, AMQPUri, AMQPUserInfo};
use url::Url;

use crate::broker_url::{UrlError, host, password, path, user};

/// Reads one address.
pub(crate) fn parse(url: &Url) -> Result<AMQPUri, UrlError> {
    let scheme = match url.scheme() {
        "amqp" | "pyamqp" => AMQPScheme::AMQP,
        "amqps" => AMQPScheme::AMQPS,
        other => return Err(UrlError::Scheme { scheme: other.to_owned() }),
    };
    let mut query = AMQPQueryString::default();
    for (key, value) in url.query_pairs() {
        match key.as_ref() {
            "heartbeat" => {
                let seconds = value.parse().map_err(|_| UrlError::Query {
                    key: key.to_string(),
                    advice: "it must be a number of seconds, like heartbeat=30",
                })?;
                query.heartbeat = Some(seconds);
            }
            _ => return Err(UrlError::unknown_query(&key)),
        }
    }
    // `//` is the virtual host `/`, and so is an empty path.
    let vhost = Some(path(url)?).filter(|path| !path.is_empty()).unwrap_or_else(|| "/".to_owned());
    let port = url.port().unwrap_or_else(|| scheme.default_port());
    let userinfo = AMQPUserInfo {
        username: user(url)?.unwrap_or_else(|| "guest".to_owned()),
        password: password(url)?.unwrap_or_else(|| "guest".to_owned()),
    };
    Ok(AMQPUri { scheme, authority: AMQPAuthority { userinfo, host: host(url)?, port }, vhost, query })
}

/// Returns the address for people: no user, no password, no query.
pub(crate) fn shown(uri: &AMQPUri) -> String {
    format!("{}://{}:{}", uri.scheme, uri.authority.host, uri.authority.port)
}

/// Returns the addresses for people.
pub(crate) fn all_shown(addresses: &[AMQPUri]) -> String {
    addresses.iter().map(shown).collect::<Vec<_>>().join(" or ")
}

/// Returns whether an address needs TLS.
pub(crate) fn have_tls(addresses: &[AMQPUri]) -> bool {
    addresses.iter().any(|address| address.scheme == AMQPScheme::AMQPS)
}
