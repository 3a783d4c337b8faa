//! Standard Webhooks signatures: HMAC-SHA256 over `id.timestamp.body`, one per secret. Pure: the time is given.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::prelude::BASE64_STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use super::settings::HttpError;
use crate::Secret;

/// Base64 as receivers' libraries read it: padding, and the unused bits of the last letter, do not matter.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);
/// The shortest key, in bytes. Standard Webhooks says 24 to 64; a longer key is not weaker.
const SHORTEST_KEY: usize = 24;
/// The length of `v1,`, the base64 of 32 bytes, and a space.
const SIGNATURE_LENGTH: usize = 3 + 44 + 1;

/// The keys of one receiver, with their first blocks already hashed.
pub(super) struct Keys(Vec<Hmac<Sha256>>);

impl Keys {
    /// Reads `whsec_<base64>`, or the base64 alone.
    pub(super) fn new(secrets: &[Secret]) -> Result<Self, HttpError> {
        let keys = secrets.iter().enumerate().map(|(position, secret)| {
            let text = secret.expose().trim();
            let key = LENIENT.decode(text.strip_prefix("whsec_").unwrap_or(text)).unwrap_or_default();
            if key.is_empty() {
                return Err(HttpError::Secret { position });
            }
            if key.len() < SHORTEST_KEY {
                return Err(HttpError::ShortSecret { position, bytes: key.len() });
            }
            Hmac::new_from_slice(&key).map_err(|_| HttpError::Secret { position })
        });
        Ok(Self(keys.collect::<Result<_, _>>()?))
    }

    /// Returns the value of `webhook-signature`, if there are keys.
    pub(super) fn sign(&self, id: &str, timestamp: &str, body: &[u8]) -> Option<String> {
        let mut signatures = String::with_capacity(self.0.len() * SIGNATURE_LENGTH);
        for key in &self.0 {
            let mut mac = key.clone();
            for part in [id.as_bytes(), b".", timestamp.as_bytes(), b".", body] {
                mac.update(part);
            }
            if !signatures.is_empty() {
                signatures.push(' ');
            }
            signatures.push_str("v1,");
            BASE64_STANDARD.encode_string(mac.finalize().into_bytes(), &mut signatures);
        }
        Some(signatures).filter(|signatures| !signatures.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(secrets: &[&str]) -> Result<Keys, HttpError> {
        Keys::new(&secrets.iter().copied().map(Secret::from).collect::<Vec<_>>())
    }

    #[test]
    fn the_example_of_the_specification_is_signed_as_it_says() {
        let signature = |secret: &str| {
            let body = br#"{"test": 2432232314}"#;
            keys(&[secret]).unwrap().sign("msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", body).unwrap()
        };
        let expected = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        assert_eq!(signature("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), expected);
        assert_eq!(signature("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), expected);
    }

    #[test]
    fn two_secrets_make_two_signatures_and_none_makes_none() {
        let (old, new) = ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD");
        let sign = |secrets: &[&str]| keys(secrets).unwrap().sign("id", "1", b"{}");
        assert_eq!(sign(&[new, old]).unwrap(), format!("{} {}", sign(&[new]).unwrap(), sign(&[old]).unwrap()));
        assert_eq!(sign(&[]), None);
    }

    #[test]
    fn padding_may_be_missing() {
        assert_eq!(
            keys(&["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwZQ"]).unwrap().sign("id", "1", b"{}"),
            keys(&["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwZQ==\n"]).unwrap().sign("id", "1", b"{}")
        );
    }

    #[test]
    fn what_is_not_base64_is_refused_without_being_shown() {
        for secret in ["hunter2!", "whsec_", "", "whsec_hunter-_", "whpk_hunter2="] {
            let error = keys(&["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", secret]).err().unwrap().to_string();
            assert!(error.starts_with("secrets[1] is not") && error.contains("whsec_ followed by"), "{error}");
            assert!(!error.contains("hunter"), "{error}");
        }
    }

    #[test]
    fn a_short_key_is_refused_without_being_shown() {
        let key = |bytes: usize| format!("whsec_{}", BASE64_STANDARD.encode("h".repeat(bytes)));
        for bytes in [1, 16, 23] {
            let error = keys(&[&key(bytes)]).err().unwrap().to_string();
            let told = format!("secrets[0] is too short: its key has {bytes} bytes, but must have 24 to 64");
            assert!(error.starts_with(&told) && !error.contains("aGho"), "{error}");
        }
        for bytes in [24, 32, 64, 100] {
            assert!(keys(&[&key(bytes)]).is_ok(), "{bytes}");
        }
    }
}
