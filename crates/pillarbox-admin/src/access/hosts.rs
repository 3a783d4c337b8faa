//! The host names that requests may ask for. With DNS rebinding, a foreign page can make a browser send requests to this
//! machine under a name of its own. It cannot do so under our names.

use std::net::{IpAddr, SocketAddr};

use axum::http::StatusCode;

use crate::refusal::Refusal;

pub(super) struct Hosts {
    names: Vec<String>,
    listen: Option<IpAddr>,
}

impl Hosts {
    pub(super) fn new(names: &[String], listen: Option<SocketAddr>) -> Self {
        let listen = listen.map(|address| address.ip());
        Self { names: names.iter().map(|name| name.to_ascii_lowercase()).collect(), listen }
    }

    pub(super) fn check(&self, host: &str) -> Result<(), Refusal> {
        if self.knows(host) {
            return Ok(());
        }
        Err(Refusal::new(
            StatusCode::MISDIRECTED_REQUEST,
            "this host name is not allowed; use localhost, or add the name to admin.hosts in the configuration",
        ))
    }

    fn knows(&self, host: &str) -> bool {
        let name = without_port(host).trim_end_matches('.').to_ascii_lowercase();
        if let Ok(ip) = name.trim_matches(['[', ']']).parse::<IpAddr>() {
            // DNS rebinding needs a name, so a literal address is safe.
            return ip.is_loopback() || self.listen.is_some_and(|listen| ip == listen || listen.is_unspecified());
        }
        name == "localhost" || self.names.contains(&name)
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) && !name.ends_with(':') => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_its_own_names_are_known() {
        let hosts = Hosts::new(&["Outbox.example.com".to_owned()], Some("127.0.0.1:8800".parse().unwrap()));
        for good in ["localhost", "LOCALHOST:8800", "127.0.0.1:1", "[::1]:8800", "outbox.example.com.", "127.0.0.2"] {
            assert!(hosts.knows(good), "{good}");
        }
        for bad in ["evil.example:8800", "localhost.evil.example", "10.0.0.1", "", "outbox.example.com.evil", "::"] {
            assert!(!hosts.knows(bad), "{bad}");
        }
        let everywhere = Hosts::new(&[], Some("0.0.0.0:8800".parse().unwrap()));
        assert!(everywhere.knows("10.1.2.3:8800") && !everywhere.knows("box:8800"));
    }
}
