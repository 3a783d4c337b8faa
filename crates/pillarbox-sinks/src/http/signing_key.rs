//! One key that signs: read from `whsec_…` or `whsk_…`, or made anew. No error and no `Debug` shows a secret. Pure: randomness is given.

use std::fmt;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::prelude::BASE64_STANDARD;
use ed25519_dalek::{KEYPAIR_LENGTH, SECRET_KEY_LENGTH};
use hmac::{Hmac, KeyInit as _};
use sha2::Sha256;
use zeroize::Zeroizing;

use super::settings::HttpError;
use crate::Secret;
use crate::registry::{KeyKind, ShownKey};

/// Base64 as receivers' libraries read it: padding, and the unused bits of the last letter, do not matter.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);
/// The shortest HMAC key, in bytes. Standard Webhooks says 24 to 64; a longer key is not weaker.
const SHORTEST_KEY: usize = 24;
/// A random key of 24 bytes or more has fewer different bytes than this about once in 10^20 keys.
const FEWEST_DIFFERENT: usize = 8;
const HMAC: &str = "whsec_";
const PRIVATE: &str = "whsk_";
const PUBLIC: &str = "whpk_";

/// A key, ready to sign.
pub(super) enum SigningKey {
    /// Its first block is already hashed.
    Hmac(Hmac<Sha256>),
    /// Overwrites itself when it is dropped.
    Ed25519(Box<ed25519_dalek::SigningKey>),
}

impl SigningKey {
    /// Reads `whsk_<base64>`, `whsec_<base64>`, or the base64 of an HMAC key alone.
    pub(super) fn read(secret: &Secret, position: usize) -> Result<Self, HttpError> {
        let text = secret.expose().trim();
        if text.starts_with(PUBLIC) {
            return Err(HttpError::PublicKey { position });
        }
        match text.strip_prefix(PRIVATE) {
            Some(text) => Self::read_ed25519(&decoded(text), position),
            None => Self::read_hmac(&decoded(text.strip_prefix(HMAC).unwrap_or(text)), position),
        }
    }

    fn read_hmac(key: &[u8], position: usize) -> Result<Self, HttpError> {
        match key.len() {
            0 => Err(HttpError::Secret { position }),
            bytes @ ..SHORTEST_KEY => Err(HttpError::ShortSecret { position, bytes }),
            _ => Hmac::new_from_slice(key).map(Self::Hmac).map_err(|_| HttpError::Secret { position }),
        }
    }

    /// Reads the seed, or the seed and the public key, as other programs write it.
    fn read_ed25519(key: &[u8], position: usize) -> Result<Self, HttpError> {
        let key = if let Ok(seed) = <&[u8; SECRET_KEY_LENGTH]>::try_from(key) {
            Ok(ed25519_dalek::SigningKey::from_bytes(seed))
        } else if let Ok(pair) = <&[u8; KEYPAIR_LENGTH]>::try_from(key) {
            ed25519_dalek::SigningKey::from_keypair_bytes(pair).map_err(|_| HttpError::SigningKeyPair { position })
        } else if key.is_empty() {
            Err(HttpError::SigningKeyText { position })
        } else {
            Err(HttpError::SigningKeyLength { position, bytes: key.len() })
        };
        key.map(|key| Self::Ed25519(Box::new(key)))
    }

    /// Returns what people may see of it.
    pub(super) fn shown(&self) -> ShownKey {
        match self {
            Self::Hmac(_) => ShownKey { kind: KeyKind::Hmac, public: None },
            Self::Ed25519(key) => ShownKey { kind: KeyKind::Ed25519, public: Some(public(key)) },
        }
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.shown())
    }
}

/// Returns no bytes for what is not base64.
fn decoded(text: &str) -> Zeroizing<Vec<u8>> {
    Zeroizing::new(LENIENT.decode(text).unwrap_or_default())
}

fn public(key: &ed25519_dalek::SigningKey) -> String {
    format!("{PUBLIC}{}", BASE64_STANDARD.encode(key.verifying_key().as_bytes()))
}

/// Returns whether a key is of few different bytes, so that somebody has typed it, or made it by hand.
pub(super) fn looks_made_up(secret: &Secret) -> bool {
    let text = secret.expose().trim();
    let key = decoded(text.strip_prefix(PRIVATE).or_else(|| text.strip_prefix(HMAC)).unwrap_or(text));
    // The public half of a pair looks random in any case.
    let key = if text.starts_with(PRIVATE) { &key[..key.len().min(SECRET_KEY_LENGTH)] } else { &key };
    let mut different = [false; 256];
    key.iter().for_each(|byte| different[usize::from(*byte)] = true);
    !key.is_empty() && different.iter().filter(|is_there| **is_there).count() < FEWEST_DIFFERENT
}

/// A new key for `secrets`, to be shown once to the person who asked for it.
#[derive(Debug)]
#[non_exhaustive]
pub struct NewKey {
    /// The secret for the sender: `whsec_…` or `whsk_…`.
    pub secret: Secret,
    /// The kind, and the public key for receivers, if it has one.
    pub shown: ShownKey,
}

impl NewKey {
    /// Makes a key of these random bytes.
    #[must_use]
    pub fn from_random(kind: KeyKind, random: &[u8; 32]) -> Self {
        match kind {
            KeyKind::Hmac => {
                let secret = format!("{HMAC}{}", BASE64_STANDARD.encode(random));
                Self { secret: secret.into(), shown: ShownKey { kind, public: None } }
            }
            KeyKind::Ed25519 => {
                let key = ed25519_dalek::SigningKey::from_bytes(random);
                let pair = Zeroizing::new(key.to_keypair_bytes());
                let secret = format!("{PRIVATE}{}", BASE64_STANDARD.encode(*pair));
                Self { secret: secret.into(), shown: ShownKey { kind, public: Some(public(&key)) } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<SigningKey, HttpError> {
        SigningKey::read(&text.into(), 1)
    }

    fn key(prefix: &str, bytes: usize) -> String {
        format!("{prefix}{}", BASE64_STANDARD.encode("h".repeat(bytes)))
    }

    #[test]
    fn the_public_key_is_that_of_the_rfc() {
        let key = read("whsk_nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A=").unwrap();
        let shown = ShownKey {
            kind: KeyKind::Ed25519,
            public: Some("whpk_11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=".to_owned()),
        };
        assert_eq!(key.shown(), shown);
        assert!(!format!("{key:?}").contains("nWGx"), "{key:?}");
    }

    #[test]
    fn what_is_no_key_is_refused_without_being_shown() {
        for secret in ["hunter2!", "whsec_", "", "whsec_hunter-_", "whsx_hunter2"] {
            let error = read(secret).unwrap_err().to_string();
            assert!(error.starts_with("secrets[1] is not") && error.contains("whsec_ followed by"), "{error}");
            assert!(!error.contains("hunter"), "{error}");
        }
        for (secret, told) in [
            ("whpk_hunter2=".to_owned(), "secrets[1] is a public key"),
            ("whsk_".to_owned(), "secrets[1] is not base64 after whsk_"),
            ("whsk_hunter2!".to_owned(), "secrets[1] is not base64 after whsk_"),
            (key(PRIVATE, 31), "secrets[1] has 31 bytes after whsk_, but an Ed25519 key has 32"),
            (key(PRIVATE, 33), "secrets[1] has 33 bytes after whsk_"),
            (key(PRIVATE, 64), "secrets[1] has a public key after whsk_ that does not belong to its private key"),
        ] {
            let error = read(&secret).unwrap_err().to_string();
            assert!(error.starts_with(told), "{error}");
            assert!(!error.contains("hunter") && !error.contains("aGho"), "{error}");
        }
    }

    #[test]
    fn a_short_hmac_key_is_refused_without_being_shown() {
        for bytes in [1, 16, 23] {
            let error = read(&key(HMAC, bytes)).unwrap_err().to_string();
            let told = format!("secrets[1] is too short: its key has {bytes} bytes, but must have 24 to 64");
            assert!(error.starts_with(&told) && !error.contains("aGho"), "{error}");
        }
        for bytes in [24, 32, 64, 100] {
            assert!(read(&key(HMAC, bytes)).is_ok(), "{bytes}");
        }
    }

    #[test]
    fn a_new_key_can_be_read_and_its_debug_shows_no_secret() {
        let random = std::array::from_fn(|at| at as u8);
        for kind in [KeyKind::Hmac, KeyKind::Ed25519] {
            let new = NewKey::from_random(kind, &random);
            assert_eq!(SigningKey::read(&new.secret, 0).unwrap().shown(), new.shown);
            assert!(!looks_made_up(&new.secret));
            assert!(!format!("{new:?}").contains("AAEC"), "{new:?}");
        }
    }

    #[test]
    fn a_key_of_few_different_bytes_looks_made_up() {
        for secret in [key(HMAC, 24), key(PRIVATE, 32), key("", 40)] {
            assert!(looks_made_up(&secret.as_str().into()));
        }
        let pair = NewKey::from_random(KeyKind::Ed25519, &[7; 32]);
        assert!(looks_made_up(&pair.secret));
        assert!(!looks_made_up(&"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".into()));
    }
}
