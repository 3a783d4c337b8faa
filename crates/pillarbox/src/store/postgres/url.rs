//! Database URLs, as libpq reads them: several hosts, and the wanted kind of server. Pure. The driver parses the rest of a URL,
//! once for each host.

use std::time::Duration;

/// The kind of server that is accepted: libpq's `target_session_attrs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Session {
    /// The first server that responds.
    Any,
    /// A server that accepts writes.
    ReadWrite,
    /// A server that is not a standby.
    Primary,
}

impl Session {
    /// Returns the question whose answer is true on a server that is not accepted.
    pub(super) fn question(self) -> Option<&'static str> {
        match self {
            Self::Any => None,
            Self::ReadWrite => Some("SELECT current_setting('transaction_read_only')::bool"),
            Self::Primary => Some("SELECT pg_is_in_recovery()"),
        }
    }
}

/// A parsed URL.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Address {
    /// A URL for each host, with only parameters that the driver knows.
    pub(super) hosts: Vec<String>,
    pub(super) session: Session,
    pub(super) connect_timeout: Option<Duration>,
}

/// A host as written in a URL, and its port.
type Host = (String, Option<String>);

impl Address {
    /// Parses a URL. The error contains no part of the URL that could be secret.
    pub(super) fn parse(url: &str) -> Result<Self, String> {
        let (scheme, rest) = url.split_once("://").ok_or("it is not a URL; write postgres://USER@HOST/DATABASE")?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (user, place) = match rest.rsplit_once('@') {
            Some((user, place)) => (format!("{user}@"), place),
            None => (String::new(), rest),
        };
        let (authority, path) = place.find('/').map_or((place, ""), |slash| place.split_at(slash));
        let mut parameters = Parameters::default();
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            parameters.take(parameter)?;
        }
        let hosts = match &parameters.hosts {
            Some(hosts) => hosts.split(',').map(|host| (encoded(host), None)).collect(),
            None => authority.split(',').map(host_and_port).collect::<Result<Vec<Host>, _>>()?,
        };
        let several = hosts.len() > 1;
        let session = parameters.session.unwrap_or(if several { Session::ReadWrite } else { Session::Any });
        let connect_timeout = parameters.connect_timeout;
        // The driver parses a single host.
        if !several {
            let rest = joined(parameters.host_and_port.into_iter().chain(parameters.rest));
            return Ok(Self { hosts: vec![format!("{scheme}://{user}{place}{rest}")], session, connect_timeout });
        }
        let hosts = match &parameters.ports {
            Some(ports) => with_ports(hosts, ports)?,
            None => hosts,
        };
        let rest = joined(parameters.rest.into_iter());
        let of_host = |(host, port): Host| {
            let host = if host.is_empty() { "localhost" } else { &host };
            let port = port.map_or(String::new(), |port| format!(":{port}"));
            format!("{scheme}://{user}{host}{port}{path}{rest}")
        };
        Ok(Self { hosts: hosts.into_iter().map(of_host).collect(), session, connect_timeout })
    }
}

/// Joins parameters, with a leading question mark if there are any.
fn joined<'a>(parameters: impl Iterator<Item = &'a str>) -> String {
    let parameters: Vec<&str> = parameters.collect();
    if parameters.is_empty() { String::new() } else { format!("?{}", parameters.join("&")) }
}

/// The parameters that are parsed here, and the rest.
#[derive(Default)]
struct Parameters<'a> {
    hosts: Option<String>,
    ports: Option<String>,
    session: Option<Session>,
    connect_timeout: Option<Duration>,
    /// The parameters as they were written.
    host_and_port: Vec<&'a str>,
    rest: Vec<&'a str>,
}

impl<'a> Parameters<'a> {
    fn take(&mut self, parameter: &'a str) -> Result<(), String> {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        match name {
            "host" | "port" => {
                self.host_and_port.push(parameter);
                let value = Some(decoded(value)?);
                if name == "host" { self.hosts = value } else { self.ports = value }
            }
            "target_session_attrs" => self.session = Some(session(&decoded(value)?)?),
            "connect_timeout" => {
                let seconds: u64 = value.parse().map_err(|_| "connect_timeout must be a number of seconds")?;
                // As in libpq, 0 means no limit, and the minimum is two seconds.
                self.connect_timeout = (seconds > 0).then(|| Duration::from_secs(seconds.max(2)));
            }
            _ => self.rest.push(parameter),
        }
        Ok(())
    }
}

fn session(value: &str) -> Result<Session, String> {
    match value {
        "any" => Ok(Session::Any),
        "read-write" => Ok(Session::ReadWrite),
        "primary" => Ok(Session::Primary),
        "read-only" | "standby" | "prefer-standby" => Err(format!(
            "target_session_attrs is {value}, but the relay writes to the outbox; write read-write, primary or any"
        )),
        _ => Err("target_session_attrs must be read-write, primary or any".to_owned()),
    }
}

/// Parses `host`, `host:1`, `[::1]:1` or `%2Frun%2Fpostgresql:1`.
fn host_and_port(text: &str) -> Result<Host, String> {
    let after_brackets = text.rfind(']').map_or(0, |end| end + 1);
    let Some(colon) = text[after_brackets..].find(':') else { return Ok((text.to_owned(), None)) };
    let (host, port) = (&text[..after_brackets + colon], &text[after_brackets + colon + 1..]);
    Ok((host.to_owned(), some_port(port)?))
}

/// Assigns one port to all hosts, or one to each.
fn with_ports(hosts: Vec<Host>, ports: &str) -> Result<Vec<Host>, String> {
    let ports: Vec<Option<String>> = ports.split(',').map(some_port).collect::<Result<_, _>>()?;
    if ports.len() > 1 && ports.len() != hosts.len() {
        return Err(format!(
            "it has {} hosts and {} ports; write one port for each host, or one for all",
            hosts.len(),
            ports.len()
        ));
    }
    let port = |place: usize| ports[place.min(ports.len() - 1)].clone();
    Ok(hosts.into_iter().enumerate().map(|(place, (host, _))| (host, port(place))).collect())
}

fn some_port(text: &str) -> Result<Option<String>, String> {
    match text {
        "" => Ok(None),
        _ if text.parse::<u16>().is_ok() => Ok(Some(text.to_owned())),
        _ => Err("a port is not a number from 0 to 65535; is a special character in the password not percent-encoded?"
            .to_owned()),
    }
}

/// Encodes a host for the authority of a URL. A socket directory contains slashes.
fn encoded(host: &str) -> String {
    let bare_ipv6 = host.contains(':') && !host.starts_with(['/', '[']);
    if bare_ipv6 { format!("[{host}]") } else { host.replace('/', "%2F") }
}

/// Decodes percent-encoded text.
pub(super) fn decoded(value: &str) -> Result<String, String> {
    let wrong = "a parameter has an invalid percent-encoding";
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.bytes();
    while let Some(byte) = rest.next() {
        let byte = match byte {
            b'%' => {
                let digits = [rest.next().ok_or(wrong)?, rest.next().ok_or(wrong)?];
                let digits = std::str::from_utf8(&digits).map_err(|_| wrong)?;
                u8::from_str_radix(digits, 16).map_err(|_| wrong)?
            }
            b'+' => b' ',
            other => other,
        };
        bytes.push(byte);
    }
    String::from_utf8(bytes).map_err(|_| wrong.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(url: &str) -> Vec<String> {
        Address::parse(url).unwrap().hosts
    }

    #[test]
    fn one_host_stays_as_it_is() {
        for url in [
            "postgres://ann:pass@db:5433/shop?sslmode=verify-full",
            "postgres://db",
            "postgres:///shop",
            "postgres://ann@[::1]:5432/shop",
            "postgres://%2Frun%2Fpostgresql/shop",
            "postgres:///shop?host=/run/postgresql&port=5433&user=ann",
        ] {
            let address = Address::parse(url).unwrap();
            assert_eq!((address.hosts, address.session), (vec![url.to_owned()], Session::Any));
        }
    }

    #[test]
    fn several_hosts_share_the_rest() {
        assert_eq!(
            hosts("postgresql://ann:p%40ss@a:5432,b:5433,c/shop?sslmode=require&target_session_attrs=read-write"),
            [
                "postgresql://ann:p%40ss@a:5432/shop?sslmode=require",
                "postgresql://ann:p%40ss@b:5433/shop?sslmode=require",
                "postgresql://ann:p%40ss@c/shop?sslmode=require"
            ]
        );
        assert_eq!(hosts("postgres://,b/shop"), ["postgres://localhost/shop", "postgres://b/shop"]);
        assert_eq!(hosts("postgres://[::1]:1,[::2]:2/shop"), ["postgres://[::1]:1/shop", "postgres://[::2]:2/shop"]);
    }

    #[test]
    fn hosts_may_be_parameters() {
        let both = ["postgres://ann@a:1/shop", "postgres://ann@b:2/shop"];
        assert_eq!(hosts("postgres://ann@/shop?host=a,b&port=1,2"), both);
        assert_eq!(hosts("postgres://ann@/shop?host=a%2Cb&port=1%2C2"), both);
        assert_eq!(hosts("postgres:///shop?host=a,b&port=1"), ["postgres://a:1/shop", "postgres://b:1/shop"]);
        assert_eq!(hosts("postgres:///shop?host=/run/a,::1"), ["postgres://%2Frun%2Fa/shop", "postgres://[::1]/shop"]);
        assert_eq!(hosts("postgres://a,b/shop?port=7"), ["postgres://a:7/shop", "postgres://b:7/shop"]);
    }

    #[test]
    fn among_several_hosts_the_one_that_can_be_written_to_is_wanted() {
        let session = |url: &str| Address::parse(url).map(|address| address.session);
        assert_eq!(session("postgres://a,b/shop"), Ok(Session::ReadWrite));
        assert_eq!(session("postgres://a,b/shop?target_session_attrs=any"), Ok(Session::Any));
        assert_eq!(session("postgres://a/shop?target_session_attrs=primary"), Ok(Session::Primary));
        assert!(
            session("postgres://a,b/shop?target_session_attrs=standby").unwrap_err().contains("writes to the outbox")
        );
        assert!(session("postgres://a,b/shop?target_session_attrs=best").unwrap_err().contains("must be read-write"));
    }

    #[test]
    fn a_connect_timeout_is_in_seconds() {
        let timeout = |url: &str| Address::parse(url).unwrap().connect_timeout;
        assert_eq!(timeout("postgres://a/shop?connect_timeout=5"), Some(Duration::from_secs(5)));
        assert_eq!(timeout("postgres://a/shop?connect_timeout=0"), None);
        assert_eq!(hosts("postgres://a/shop?connect_timeout=5"), ["postgres://a/shop"]);
    }

    #[test]
    fn what_is_wrong_is_said_without_the_password() {
        for url in [
            "postgres://ann:hunter2@a:1,b:x/shop",
            "postgres://ann:hunter2@a,b,c/shop?port=1,2",
            "postgres://ann:hunter2@a/shop?host=%2",
            "postgres://ann:hunter2@a/shop?connect_timeout=soon",
            "ann:hunter2@a",
        ] {
            let problem = Address::parse(url).unwrap_err();
            assert!(!problem.contains("hunter2"), "{problem}");
        }
    }
}
