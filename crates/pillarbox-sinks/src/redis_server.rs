//! A Redis server as a URL describes it, for every kind that sends to Redis. Pure; `client` connects to it, `failure` explains
//! its errors.

pub(crate) mod client;
pub(crate) mod failure;

use url::Url;

use crate::broker_url::{UrlError, decoded, host, password, path, user};

/// The address, the login and the database of a Redis server.
#[derive(Clone)]
pub(crate) struct RedisServer {
    pub(crate) reach: Reach,
    pub(crate) database: i64,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
}

#[derive(Clone)]
pub(crate) enum Reach {
    Tcp {
        host: String,
        port: u16,
        tls: bool,
    },
    Socket(String),
    Sentinel {
        sentinels: Vec<(String, u16)>,
        master_name: String,
    },
    /// Some nodes of a cluster. The client asks them for all others.
    #[cfg_attr(not(feature = "redis"), expect(dead_code, reason = "only the kind redis sends to clusters"))]
    Cluster {
        nodes: Vec<(String, u16)>,
        tls: bool,
    },
}

const REDIS_PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

impl RedisServer {
    /// Reads the addresses of one server, or of its sentinels.
    pub(crate) fn parse(urls: &[Url], master_name: Option<&str>) -> Result<Self, UrlError> {
        let Some(first) = urls.first() else { return Err(UrlError::malformed("it is empty")) };
        match first.scheme() {
            "sentinel" => sentinel(urls, master_name),
            "redis" | "rediss" | "redis+socket" if urls.len() > 1 => Err(UrlError::SeveralAddresses),
            "redis" | "rediss" => redis(first),
            "redis+socket" => socket(first),
            other => Err(UrlError::Scheme { scheme: other.to_owned() }),
        }
    }

    /// Reads the addresses of some nodes of a cluster. The login comes from the first address that has one.
    #[cfg(feature = "redis")]
    pub(crate) fn parse_cluster(urls: &[Url]) -> Result<Self, UrlError> {
        let (mut nodes, mut is_tls) = (Vec::with_capacity(urls.len()), false);
        let (mut login, mut first_database) = ((None, None), 0);
        for url in urls {
            let server = match url.scheme() {
                "redis" | "rediss" => redis(url)?,
                other => return Err(UrlError::Scheme { scheme: other.to_owned() }),
            };
            if let Reach::Tcp { host, port, tls } = server.reach {
                nodes.push((host, port));
                is_tls |= tls;
            }
            first_database = if first_database == 0 { server.database } else { first_database };
            if login.1.is_none() {
                login = (server.user, server.password);
            }
        }
        let (user, password) = login;
        Ok(Self { reach: Reach::Cluster { nodes, tls: is_tls }, database: first_database, user, password })
    }

    /// Returns the address for people: no user, no password, no query.
    pub(crate) fn shown(&self) -> String {
        let listed = |hosts: &[(String, u16)]| {
            let shown: Vec<_> = hosts.iter().map(|(host, port)| format!("{host}:{port}")).collect();
            shown.join(", ")
        };
        let scheme = |tls: bool| if tls { "rediss" } else { "redis" };
        match &self.reach {
            Reach::Tcp { host, port, tls } => format!("{}://{host}:{port}", scheme(*tls)),
            Reach::Socket(path) => format!("redis+socket://{path}"),
            Reach::Sentinel { sentinels, master_name } => {
                format!("{master_name:?} of the sentinels {}", listed(sentinels))
            }
            Reach::Cluster { nodes, tls } => format!("the {} cluster of {}", scheme(*tls), listed(nodes)),
        }
    }
}

fn redis(url: &Url) -> Result<RedisServer, UrlError> {
    check_query(url, &["ssl_cert_reqs", "virtual_host"])?;
    let tls = url.scheme() == "rediss";
    Ok(RedisServer {
        reach: Reach::Tcp { host: host(url)?, port: url.port().unwrap_or(REDIS_PORT), tls },
        database: database(url, &path(url)?)?,
        user: user(url)?,
        password: password(url)?,
    })
}

/// `redis+socket:///run/redis.sock?virtual_host=1`
fn socket(url: &Url) -> Result<RedisServer, UrlError> {
    check_query(url, &["virtual_host"])?;
    let path = decoded(url.path())?;
    if path.trim_matches('/').is_empty() {
        return Err(UrlError::malformed("the socket's path is missing"));
    }
    Ok(RedisServer {
        reach: Reach::Socket(path),
        database: database(url, "")?,
        user: user(url)?,
        password: password(url)?,
    })
}

/// Reads several sentinels. The login and the database come from the first address that has them.
fn sentinel(urls: &[Url], master_name: Option<&str>) -> Result<RedisServer, UrlError> {
    let master_name = master_name.filter(|name| !name.is_empty()).ok_or(UrlError::MasterName)?.to_owned();
    let mut server = RedisServer {
        reach: Reach::Sentinel { sentinels: Vec::new(), master_name },
        database: 0,
        user: None,
        password: None,
    };
    for url in urls {
        if url.scheme() != "sentinel" {
            return Err(UrlError::SeveralAddresses);
        }
        check_query(url, &["virtual_host"])?;
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

fn database(url: &Url, path: &str) -> Result<i64, UrlError> {
    let query = url.query_pairs().find(|(key, _)| key == "virtual_host").map(|(_, value)| value.into_owned());
    let given = query.as_deref().unwrap_or(path).trim_matches('/');
    if given.is_empty() {
        return Ok(0);
    }
    given.parse().ok().filter(|number| *number >= 0).ok_or_else(|| UrlError::Database { given: given.to_owned() })
}

fn check_query(url: &Url, known: &[&str]) -> Result<(), UrlError> {
    for (key, value) in url.query_pairs() {
        let verified = matches!(value.to_ascii_lowercase().as_str(), "required" | "cert_required");
        match key.as_ref() {
            "ssl_cert_reqs" if known.contains(&"ssl_cert_reqs") && !verified => {
                return Err(UrlError::Query {
                    key: key.to_string(),
                    advice: "certificates are always verified: write `required`, and set ca_file for your own \
                        certificate authority",
                });
            }
            key if known.contains(&key) => {}
            _ => return Err(UrlError::unknown_query(&key)),
        }
    }
    Ok(())
}
