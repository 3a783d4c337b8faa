//! Networks of addresses: trusted proxies, and the network that counts as one client.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// A network like `10.0.0.0/8`, or a single address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix: u32,
}

/// A set of networks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Networks(Vec<Network>);

impl Network {
    fn bits(address: IpAddr) -> u32 {
        if address.is_ipv4() { 32 } else { 128 }
    }

    fn contains(&self, address: IpAddr) -> bool {
        let same = match (self.address, address) {
            (IpAddr::V4(one), IpAddr::V4(other)) => (one.to_bits() ^ other.to_bits()).leading_zeros(),
            (IpAddr::V6(one), IpAddr::V6(other)) => (one.to_bits() ^ other.to_bits()).leading_zeros(),
            _ => return false,
        };
        same >= self.prefix
    }
}

/// A text that is neither an address nor a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an address or a network, like \"10.1.2.3\" or \"10.0.0.0/8\"")]
pub struct NotANetwork;

impl FromStr for Network {
    type Err = NotANetwork;

    fn from_str(text: &str) -> Result<Self, NotANetwork> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| NotANetwork)?;
        let prefix = prefix.map_or(Ok(Self::bits(address)), |prefix| prefix.parse().map_err(|_| NotANetwork))?;
        if prefix > Self::bits(address) { Err(NotANetwork) } else { Ok(Self { address, prefix }) }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.address)?;
        if self.prefix < Self::bits(self.address) { write!(f, "/{}", self.prefix) } else { Ok(()) }
    }
}

impl Networks {
    /// Returns whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether a network contains this address. An IPv4 address may be written as IPv6.
    #[must_use]
    pub fn contain(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(address.to_canonical()))
    }

    /// Returns the networks as text.
    #[must_use]
    pub fn shown(&self) -> Vec<String> {
        self.0.iter().map(ToString::to_string).collect()
    }
}

impl FromIterator<Network> for Networks {
    fn from_iter<T: IntoIterator<Item = Network>>(networks: T) -> Self {
        Self(networks.into_iter().collect())
    }
}

/// Returns the network of one client: a client with IPv6 has 2^64 addresses.
#[must_use]
pub fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(ip) => IpAddr::V6((ip.to_bits() >> 64 << 64).into()),
        ip => ip,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_has_its_addresses_and_no_others() {
        let networks: Networks =
            ["10.0.0.0/8", "192.0.2.7", "2001:db8::/32"].map(|text| text.parse().unwrap()).into_iter().collect();
        for (address, within) in [
            ("10.255.0.1", true),
            ("::ffff:10.1.1.1", true),
            ("11.0.0.1", false),
            ("192.0.2.7", true),
            ("192.0.2.8", false),
            ("2001:db8:1::1", true),
            ("2001:db9::1", false),
        ] {
            assert_eq!(networks.contain(address.parse().unwrap()), within, "{address}");
        }
        assert_eq!(networks.shown(), ["10.0.0.0/8", "192.0.2.7", "2001:db8::/32"]);
        for wrong in ["", "10.0.0.0/33", "::/129", "10.0.0.0/-1", "proxy.example", "10.0.0.0/8/8"] {
            assert_eq!(wrong.parse::<Network>(), Err(NotANetwork), "{wrong}");
        }
    }
}
