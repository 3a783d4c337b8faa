//! Addresses and networks, as `trusted_proxies` has them.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use pillarbox_sinks::config::FromConfig;
use toml::Value;

/// A network, or a single address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Network {
    address: IpAddr,
    prefix: u32,
}

/// Several of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Networks(Vec<Network>);

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

impl FromStr for Network {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(drop)?;
        let prefix = prefix.map_or(Ok(Self::bits(address)), |prefix| prefix.parse().map_err(drop))?;
        if prefix > Self::bits(address) { Err(()) } else { Ok(Self { address, prefix }) }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.address)?;
        if self.prefix < Self::bits(self.address) { write!(f, "/{}", self.prefix) } else { Ok(()) }
    }
}

impl Networks {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether one of them has this address. An IPv4 address may be written as IPv6.
    pub(crate) fn contain(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(address.to_canonical()))
    }

    pub(super) fn shown(&self) -> Vec<String> {
        self.0.iter().map(ToString::to_string).collect()
    }
}

impl FromConfig for Networks {
    fn from_toml(value: Value) -> Result<Self, String> {
        let read = |text: String| {
            text.trim().parse().map_err(|()| {
                format!("has {text:?}, but must be addresses or networks, like \"10.1.2.3\" or \"10.0.0.0/8\"")
            })
        };
        Vec::<String>::from_toml(value)?.into_iter().map(read).collect::<Result<_, _>>().map(Self)
    }

    fn from_text(text: &str) -> Result<Self, String> {
        let all = Vec::<String>::from_text(text)?.into_iter().map(Value::String).collect();
        Self::from_toml(Value::Array(all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_has_its_addresses_and_no_others() {
        let networks = Networks(["10.0.0.0/8", "192.0.2.7", "2001:db8::/32"].map(|text| text.parse().unwrap()).into());
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
            assert_eq!(wrong.parse::<Network>(), Err(()), "{wrong}");
        }
    }
}
