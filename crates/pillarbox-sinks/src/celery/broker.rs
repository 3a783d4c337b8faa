//! Reads the broker's URL as Celery and kombu do, which differs a little from the clients. Pure: nothing is connected to.

use lapin::uri::{AMQPAuthority, AMQPQueryString, AMQPScheme, AMQPUri, AMQPUserInfo};
use url::Url;

use super::settings::{CeleryError, CelerySettings};

/// The broker that messages go to.
#[derive(Clone)]
pub(super) enum Broker {
    /// Addresses that are tried in order.
    Amqp(Vec<AMQPUri>),
    Redis(RedisServer),
}

/// The address, the login and the database of a Redis server.
#[derive(Clone)]
pub(super) struct RedisServer {
    pub(super) reach: Reach,
    pub(super) database: i64,
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
}

#[derive(Clone)]
pub(super) enum Reach {
    Tcp { host: String, port: u16, tls: bool },
    Socket(String),
    Sentinel { sentinels: Vec<(String, u16)>, master_name: String },
}

const REDIS_PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

impl Broker {
    pub(super) fn parse(settings: &CelerySettings) -> Result<Self, CeleryError> {
        let mut urls = Vec::new();
        for part in settings.broker.expose().split(';').map(str::trim).filter(|part| !part.is_empty()) {
            urls.push(parse_one(part)?);
        }
        let Some(first) = urls.first() else {
            return Err(CeleryError::Broker { reason: "it is empty".to_owned() });
        };
        match first.scheme() {
            "amqp" | "pyamqp" | "amqps" => urls.iter().map(amqp).collect::<Result<_, _>>().map(Self::Amqp),
            "sentinel" => sentinel(&urls, settings).map(Self::Redis),
            "redis" | "rediss" | "redis+socket" if urls.len() > 1 => Err(CeleryError::SeveralAddresses),
            "redis" | "rediss" => redis(first).map(Self::Redis),
            "redis+socket" => socket(first).map(Self::Redis),
            other => Err(CeleryError::Scheme { scheme: other.to_owned() }),
        }
    }

    /// Returns the address for people: no user, no password, no query.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Amqp(addresses) => {
                let shown: Vec<_> = addresses
                    .iter()
                    .map(|uri| format!("{}://{}:{}", uri.scheme, uri.authority.host, uri.authority.port))
                    .collect();
                shown.join(" or ")
            }
            Self::Redis(server) => match &server.reach {
                Reach::Tcp { host, port, tls } => format!("{}://{host}:{port}", if *tls { "rediss" } else { "redis" }),
                Reach::Socket(path) => format!("redis+socket://{path}"),
                Reach::Sentinel { sentinels, master_name } => {
                    let shown: Vec<_> = sentinels.iter().map(|(host, port)| format!("{host}:{port}")).collect();
                    format!("{master_name:?} of the sentinels {}", shown.join(", "))
                }
            },
        }
    }
}

fn parse_one(text: &str) -> Result<Url, CeleryError> {
    let refused = |reason: &str| CeleryError::Broker { reason: reason.to_owned() };
    let Some((scheme, rest)) = text.split_once("://") else { return Err(refused("it has no scheme")) };
    // A login without a host: kombu takes localhost as the host.
    let (login, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = if login.ends_with('@') { "localhost" } else { "" };
    let url = Url::parse(&format!("{scheme}://{login}{host}{path}"))
        .map_err(|error| CeleryError::Broker { reason: error.to_string() })?;
    if url.path().contains('@') {
        return Err(refused("there is an @ after the host: percent-encode special characters in the password"));
    }
    Ok(url)
}

fn decoded(text: &str) -> Result<String, CeleryError> {
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
    String::from_utf8(bytes).map_err(|_| CeleryError::Broker { reason: "it is not UTF-8 when decoded".to_owned() })
}

fn user(url: &Url) -> Result<Option<String>, CeleryError> {
    Some(url.username()).filter(|user| !user.is_empty()).map(decoded).transpose()
}

fn password(url: &Url) -> Result<Option<String>, CeleryError> {
    url.password().filter(|password| !password.is_empty()).map(decoded).transpose()
}

fn host(url: &Url) -> Result<String, CeleryError> {
    let host = url.host_str().unwrap_or_default();
    let host = if host.is_empty() { "localhost" } else { host };
    decoded(host.trim_start_matches('[').trim_end_matches(']'))
}

/// Returns the part after the first slash. `//` is the virtual host `/`, and so is an empty path.
fn path(url: &Url) -> Result<String, CeleryError> {
    decoded(url.path().strip_prefix('/').unwrap_or(url.path()))
}

fn amqp(url: &Url) -> Result<AMQPUri, CeleryError> {
    let scheme = match url.scheme() {
        "amqp" | "pyamqp" => AMQPScheme::AMQP,
        "amqps" => AMQPScheme::AMQPS,
        other => return Err(CeleryError::Scheme { scheme: other.to_owned() }),
    };
    let mut query = AMQPQueryString::default();
    for (key, value) in url.query_pairs() {
        match key.as_ref() {
            "heartbeat" => {
                let seconds = value.parse().map_err(|_| CeleryError::Query {
                    key: key.to_string(),
                    advice: "it must be a number of seconds, like heartbeat=30",
                })?;
                query.heartbeat = Some(seconds);
            }
            _ => return Err(unknown_query(&key)),
        }
    }
    let vhost = Some(path(url)?).filter(|path| !path.is_empty()).unwrap_or_else(|| "/".to_owned());
    let port = url.port().unwrap_or_else(|| scheme.default_port());
    let userinfo = AMQPUserInfo {
        username: user(url)?.unwrap_or_else(|| "guest".to_owned()),
        password: password(url)?.unwrap_or_else(|| "guest".to_owned()),
    };
    Ok(AMQPUri { scheme, authority: AMQPAuthority { userinfo, host: host(url)?, port }, vhost, query })
}

fn redis(url: &Url) -> Result<RedisServer, CeleryError> {
    check_redis_query(url, &["ssl_cert_reqs", "virtual_host"])?;
    let tls = url.scheme() == "rediss";
    Ok(RedisServer {
        reach: Reach::Tcp { host: host(url)?, port: url.port().unwrap_or(REDIS_PORT), tls },
        database: database(url, &path(url)?)?,
        user: user(url)?,
        password: password(url)?,
    })
}

/// `redis+socket:///run/redis.sock?virtual_host=1`
fn socket(url: &Url) -> Result<RedisServer, CeleryError> {
    check_redis_query(url, &["virtual_host"])?;
    let path = decoded(url.path())?;
    if path.trim_matches('/').is_empty() {
        return Err(CeleryError::Broker { reason: "the socket's path is missing".to_owned() });
    }
    Ok(RedisServer {
        reach: Reach::Socket(path),
        database: database(url, "")?,
        user: user(url)?,
        password: password(url)?,
    })
}

/// Reads several sentinels. The login and the database come from the first address that has them.
fn sentinel(urls: &[Url], settings: &CelerySettings) -> Result<RedisServer, CeleryError> {
    let mut server = RedisServer {
        reach: Reach::Sentinel {
            sentinels: Vec::new(),
            master_name: settings.master_name.clone().filter(|name| !name.is_empty()).ok_or(CeleryError::MasterName)?,
        },
        database: 0,
        user: None,
        password: None,
    };
    for url in urls {
        if url.scheme() != "sentinel" {
            return Err(CeleryError::SeveralAddresses);
        }
        check_redis_query(url, &["virtual_host"])?;
        if let Reach::Sentinel { sentinels, .. } = &mut server.reach {
            sentinels.push((host(url)?, url.port().unwrap_or(SENTINEL_PORT)));
        }
        let given = database(url, &path(url)?)?;
        server.database = if server.database == 0 { given } else { server.database };
        if server.password.is_none() {
            server.user = user(url)?;
            server.password = password(url)?;
        }
    }
    Ok(server)
}

fn database(url: &Url, path: &str) -> Result<i64, CeleryError> {
    let query = url.query_pairs().find(|(key, _)| key == "virtual_host").map(|(_, value)| value.into_owned());
    let given = query.as_deref().unwrap_or(path).trim_matches('/');
    if given.is_empty() {
        return Ok(0);
    }
    given.parse().ok().filter(|number| *number >= 0).ok_or_else(|| CeleryError::Database { given: given.to_owned() })
}

fn check_redis_query(url: &Url, known: &[&str]) -> Result<(), CeleryError> {
    for (key, value) in url.query_pairs() {
        let verified = matches!(value.to_ascii_lowercase().as_str(), "required" | "cert_required");
        match key.as_ref() {
            "ssl_cert_reqs" if known.contains(&"ssl_cert_reqs") && !verified => {
                return Err(CeleryError::Query {
                    key: key.to_string(),
                    advice: "certificates are always verified: write `required`, and set ca_file for your own \
                        certificate authority",
                });
            }
            key if known.contains(&key) => {}
            _ => return Err(unknown_query(&key)),
        }
    }
    Ok(())
}

fn unknown_query(key: &str) -> CeleryError {
    let advice = if key.starts_with("ssl_") || key.ends_with("certfile") {
        "set ca_file to the certificate authority instead"
    } else {
        "remove it: it has no effect; use the keys of the destination instead"
    };
    CeleryError::Query { key: key.to_owned(), advice }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(broker: &str) -> Broker {
        let settings = CelerySettings { master_name: Some("main".to_owned()), ..CelerySettings::new(broker) };
        Broker::parse(&settings).unwrap()
    }

    fn rabbit(broker: &str) -> (String, String, String, String) {
        let Broker::Amqp(mut addresses) = parsed(broker) else { panic!("{broker}") };
        let uri = addresses.remove(0);
        let AMQPUserInfo { username, password } = uri.authority.userinfo;
        (format!("{}://{}:{}", uri.scheme, uri.authority.host, uri.authority.port), uri.vhost, username, password)
    }

    fn redis(broker: &str) -> (String, i64, Option<String>, Option<String>) {
        let broker = parsed(broker);
        let shown = broker.shown();
        let Broker::Redis(server) = broker else { panic!("{shown}") };
        (shown, server.database, server.user, server.password)
    }

    #[test]
    fn rabbitmq_is_read_as_kombu_reads_it() {
        let guest =
            |address: &str, vhost: &str| (address.to_owned(), vhost.to_owned(), "guest".to_owned(), "guest".to_owned());
        for broker in ["amqp://", "amqp://localhost", "amqp://localhost/", "amqp://guest:guest@localhost:5672//"] {
            assert_eq!(rabbit(broker), guest("amqp://localhost:5672", "/"), "{broker}");
        }
        assert_eq!(rabbit("pyamqp://[::1]/shop"), guest("amqp://::1:5672", "shop"));
        assert_eq!(rabbit("amqps://rabbit.example/%2fshop"), guest("amqps://rabbit.example:5671", "/shop"));
        let (_, _, user, password) = rabbit("amqp://ann%40shop:p%3b%2F:w@host//");
        assert_eq!((user.as_str(), password.as_str()), ("ann@shop", "p;/:w"));
        assert_eq!(parsed("amqp://a//;amqps://u:p@b:1//").shown(), "amqp://a:5672 or amqps://b:1");
    }

    #[test]
    fn redis_is_read_as_kombu_reads_it() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(redis("redis://"), ("redis://localhost:6379".to_owned(), 0, None, None));
        assert_eq!(redis("redis://:pw@host:1/2"), ("redis://host:1".to_owned(), 2, None, some("pw")));
        assert_eq!(redis("rediss://u:p@host?ssl_cert_reqs=CERT_REQUIRED").0, "rediss://host:6379");
        let socket = redis("redis+socket://:pw@/run/redis.sock?virtual_host=3");
        assert_eq!(socket, ("redis+socket:///run/redis.sock".to_owned(), 3, None, some("pw")));
        let sentinels = redis("sentinel://:pw@a;sentinel://b:7/1");
        let shown = "\"main\" of the sentinels a:26379, b:7".to_owned();
        assert_eq!(sentinels, (shown, 1, None, some("pw")));
    }
}
