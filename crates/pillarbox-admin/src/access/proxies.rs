//! Trusted proxies: they say which client asks, and may say which user they have authenticated. The headers of any other sender
//! are ignored.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use axum::extract::ConnectInfo;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, StatusCode};

use crate::network::Networks;
use crate::refusal::Refusal;

pub(super) struct Proxies {
    pub(super) networks: Networks,
    /// The header with the name of the user.
    pub(super) user_header: Option<HeaderName>,
}

impl Proxies {
    /// Returns the user that a proxy has authenticated. The proxy itself must have sent the request: a header that passed through
    /// another machine proves nothing.
    pub(super) fn user<'a>(&self, parts: &'a Parts) -> Result<Option<&'a str>, Refusal> {
        let Some(header) = &self.user_header else { return Ok(None) };
        let peer = parts.extensions.get::<ConnectInfo<SocketAddr>>();
        if !peer.is_some_and(|ConnectInfo(peer)| self.networks.contain(peer.ip())) {
            return Ok(None);
        }
        let refused = |what: &str| Refusal::new(StatusCode::BAD_REQUEST, format!("the proxy's header {header} {what}"));
        let mut given = parts.headers.get_all(header).iter();
        let name = match (given.next(), given.next()) {
            (None, _) => return Ok(None),
            // A proxy that adds its header behind the client's lets the client choose a name.
            (Some(_), Some(_)) => return Err(refused("comes twice; let the proxy replace the client's header")),
            (Some(name), None) => name.to_str().map_err(|_| refused("is not plain text"))?,
        };
        Ok(Some(name.trim()).filter(|name| !name.is_empty()))
    }

    /// Returns the client's address. `X-Forwarded-For` counts only from a trusted proxy: the client is the last address
    /// that is not a trusted proxy itself.
    pub(super) fn client(&self, peer: Option<SocketAddr>, headers: &HeaderMap) -> IpAddr {
        let mut address = peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| peer.ip());
        let told = headers.get_all("x-forwarded-for").iter().rev();
        let mut told = told.flat_map(|value| value.to_str().unwrap_or_default().rsplit(','));
        while self.networks.contain(address) {
            let Some(before) = told.next().and_then(forwarded) else { break };
            address = before;
        }
        address
    }
}

/// Reads an address as proxies write it, some with a port.
fn forwarded(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    text.parse().ok().or_else(|| text.parse().ok().map(|address: SocketAddr| address.ip()))
}
