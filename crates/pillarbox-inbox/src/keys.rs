//! Verifies Standard Webhooks signatures: `v1` (HMAC-SHA256) and `v1a` (Ed25519), by any of several keys. Pure.
//!
//! The official crate signs for `v1`. It takes text only, so a body that is not UTF-8 is signed here.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::prelude::BASE64_STANDARD;
use ed25519_dalek::{Signature, VerifyingKey};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use standardwebhooks::Webhook;
use subtle::ConstantTimeEq as _;

use crate::inbox::InboxError;

/// Keys may come without padding, and with unused bits of their last letter set: senders and the other kits accept both.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);
const SHORTEST_SECRET: usize = 24;
/// The most signatures of one request that are looked at. Each costs a verification per public key.
const MOST_SIGNATURES: usize = 16;

/// The keys of one sender. During a rotation there are the old and the new one.
pub(crate) struct Keys {
    secrets: Vec<Vec<u8>>,
    public: Vec<VerifyingKey>,
}

impl Keys {
    pub(crate) fn new<K: AsRef<str>>(keys: impl IntoIterator<Item = K>) -> Result<Self, InboxError> {
        let mut all = Self { secrets: Vec::new(), public: Vec::new() };
        for (position, key) in keys.into_iter().enumerate() {
            all.add(position, key.as_ref().trim())?;
        }
        if all.secrets.is_empty() && all.public.is_empty() {
            return Err(InboxError::NoKeys);
        }
        Ok(all)
    }

    fn add(&mut self, position: usize, key: &str) -> Result<(), InboxError> {
        if key.starts_with("whsk_") {
            return Err(InboxError::SigningKey { position });
        }
        if let Some(public) = key.strip_prefix("whpk_") {
            let bytes = LENIENT.decode(public).ok().and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
            let key = bytes.and_then(|bytes| VerifyingKey::from_bytes(&bytes).ok());
            self.public.push(key.ok_or(InboxError::PublicKey { position })?);
            return Ok(());
        }
        let secret = LENIENT.decode(key.strip_prefix("whsec_").unwrap_or(key)).unwrap_or_default();
        if secret.len() < SHORTEST_SECRET {
            return Err(InboxError::Secret { position });
        }
        self.secrets.push(secret);
        Ok(())
    }

    /// Returns whether one of the signatures is valid. Every comparison of secrets takes constant time.
    pub(crate) fn verify(&self, id: &str, timestamp: i64, body: &[u8], signatures: &str) -> bool {
        if signatures.split(' ').count() > MOST_SIGNATURES {
            return false;
        }
        let expected: Vec<String> = self.secrets.iter().map(|secret| sign(secret, id, timestamp, body)).collect();
        let signed = [format!("{id}.{timestamp}.").as_bytes(), body].concat();
        let mut is_valid = false;
        for (version, signature) in signatures.split(' ').filter_map(|signature| signature.split_once(',')) {
            match version {
                "v1" => {
                    for own in &expected {
                        is_valid |= bool::from(own.as_bytes().ct_eq(signature.as_bytes()));
                    }
                }
                "v1a" => is_valid |= self.public.iter().any(|key| is_signed(key, signature, &signed)),
                _ => {}
            }
        }
        is_valid
    }
}

/// Returns the base64 of a `v1` signature.
fn sign(secret: &[u8], id: &str, timestamp: i64, body: &[u8]) -> String {
    let official = Webhook::from_bytes(secret.to_vec()).and_then(|webhook| webhook.sign(id, timestamp, body));
    match official {
        Ok(signature) => signature.trim_start_matches("v1,").to_owned(),
        Err(_) => {
            let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("HMAC takes keys of any length");
            for part in [format!("{id}.{timestamp}.").as_bytes(), body] {
                mac.update(part);
            }
            BASE64_STANDARD.encode(mac.finalize().into_bytes())
        }
    }
}

fn is_signed(key: &VerifyingKey, signature: &str, signed: &[u8]) -> bool {
    let decoded = BASE64_STANDARD.decode(signature).ok().and_then(|bytes| Signature::from_slice(&bytes).ok());
    // Strict: a signature has one form only.
    decoded.is_some_and(|signature| key.verify_strict(signed, &signature).is_ok())
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} secrets, {} public keys", self.secrets.len(), self.public.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_cannot_be_used_is_refused_and_not_shown() {
        let good = format!("whsec_{}", "AAAA".repeat(8));
        for (keys, message) in [
            (vec![], "there are no keys"),
            (vec!["whsec_"], "keys[0] is not whsec_"),
            (vec![good.as_str(), "whsec_hunter2"], "keys[1] is not whsec_"),
            (vec!["hunter2!"], "keys[0] is not whsec_"),
            (vec!["whpk_hunter2"], "keys[0] is not whpk_"),
            (vec!["whsk_hunter2"], "keys[0] is a signing key"),
        ] {
            let error = Keys::new(keys).unwrap_err().to_string();
            assert!(error.starts_with(message) && !error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn the_unused_bits_of_a_keys_last_letter_may_be_set() {
        let body = b"text";
        let signature = format!("v1,{}", sign(&[0; 25], "a", 1, body));
        for last in ["A==", "B==", "B"] {
            let keys = Keys::new([format!("whsec_{}{last}", "A".repeat(33))]).unwrap();
            assert!(keys.verify("a", 1, body, &signature), "{last}");
        }
    }

    #[test]
    fn the_fallback_signs_as_the_official_crate_does() {
        let (secret, body) = ([7; 32], b"text");
        let signature = sign(&secret, "a", 1, body);
        let mut mac = Hmac::<Sha256>::new_from_slice(&secret).unwrap();
        mac.update(b"a.1.text");
        assert_eq!(signature, BASE64_STANDARD.encode(mac.finalize().into_bytes()));
    }
}
