//! A position in the write-ahead log, as PostgreSQL writes it: `16/B374D848`. Pure.

use std::fmt;
use std::str::FromStr;

/// A position in the write-ahead log, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) struct Lsn(pub(crate) u64);

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:X}/{:X}", self.0 >> 32, self.0 & 0xFFFF_FFFF)
    }
}

impl FromStr for Lsn {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a position of the write-ahead log");
        let (high, low) = text.split_once('/').ok_or_else(wrong)?;
        let half = |digits| u32::from_str_radix(digits, 16).map_err(|_| wrong());
        Ok(Self(u64::from(half(high)?) << 32 | u64::from(half(low)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_written_as_the_server_does() {
        for text in ["0/0", "16/B374D848", "FFFFFFFF/FFFFFFFF"] {
            assert_eq!(text.parse::<Lsn>().unwrap().to_string(), text);
        }
        assert_eq!("1/0".parse(), Ok(Lsn(1 << 32)));
        for wrong in ["", "1", "1/", "x/1", "1/100000000"] {
            assert!(wrong.parse::<Lsn>().is_err(), "{wrong}");
        }
    }
}
