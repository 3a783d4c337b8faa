//! Standard Webhooks signatures over `id.timestamp.body`, one per key: HMAC-SHA256 (`v1`) and Ed25519 (`v1a`). Pure: the time is given.

use std::borrow::Cow;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ed25519_dalek::Signer as _;
use hmac::Mac as _;

use super::settings::HttpError;
use super::signing_key::SigningKey;
use crate::Secret;

/// The length of `v1a,`, the base64 of 64 bytes, and a space.
const SIGNATURE_LENGTH: usize = 4 + 88 + 1;

/// The keys of one receiver, in the order of `secrets`.
pub(super) struct Keys(Vec<SigningKey>);

impl Keys {
    /// Reads the keys.
    pub(super) fn new(secrets: &[Secret]) -> Result<Self, HttpError> {
        let keys = secrets.iter().enumerate();
        Ok(Self(keys.map(|(position, secret)| SigningKey::read(secret, position)).collect::<Result<_, _>>()?))
    }

    /// Returns the value of `webhook-signature`, if there are keys.
    pub(super) fn sign(&self, id: &str, timestamp: &str, body: &[u8]) -> Option<String> {
        let mut signatures = String::with_capacity(self.0.len() * SIGNATURE_LENGTH);
        // Ed25519 reads its text twice, so it needs the parts in one piece.
        let mut whole: Cow<'_, [u8]> = Cow::Borrowed(&[]);
        let parts = [id.as_bytes(), b".", timestamp.as_bytes(), b".", body];
        for key in &self.0 {
            if !signatures.is_empty() {
                signatures.push(' ');
            }
            match key {
                SigningKey::Hmac(key) => {
                    let mut mac = key.clone();
                    parts.iter().for_each(|part| mac.update(part));
                    signatures.push_str("v1,");
                    BASE64_STANDARD.encode_string(mac.finalize().into_bytes(), &mut signatures);
                }
                SigningKey::Ed25519(key) => {
                    if whole.is_empty() {
                        whole = Cow::Owned(parts.concat());
                    }
                    signatures.push_str("v1a,");
                    BASE64_STANDARD.encode_string(key.sign(&whole).to_bytes(), &mut signatures);
                }
            }
        }
        Some(signatures).filter(|signatures| !signatures.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use ed25519_dalek::{Signature, Verifier as _};

    use super::*;

    fn keys(secrets: &[&str]) -> Result<Keys, HttpError> {
        Keys::new(&secrets.iter().copied().map(Secret::from).collect::<Vec<_>>())
    }

    const OLD: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const NEW: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
    /// The first test of RFC 8032, section 7.1: the seed, and the seed with the public key.
    const SEED: &str = "whsk_nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A=";
    const PAIR: &str = "whsk_nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2DXWpgBgrEKt9VL/tPJZAc6DuFy89qmIyWvAhpo9wdRGg==";

    #[test]
    fn the_example_of_the_specification_is_signed_as_it_says() {
        let signature = |secret: &str| {
            let body = br#"{"test": 2432232314}"#;
            keys(&[secret]).unwrap().sign("msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", body).unwrap()
        };
        let expected = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        assert_eq!(signature(OLD), expected);
        assert_eq!(signature("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), expected);
    }

    #[test]
    fn each_secret_makes_a_signature_in_its_order_and_none_makes_none() {
        let sign = |secrets: &[&str]| keys(secrets).unwrap().sign("id", "1", b"{}");
        assert_eq!(sign(&[NEW, OLD]).unwrap(), format!("{} {}", sign(&[NEW]).unwrap(), sign(&[OLD]).unwrap()));
        let mixed = sign(&[SEED, OLD, PAIR]).unwrap();
        let alone = [SEED, OLD, PAIR].map(|secret| sign(&[secret]).unwrap());
        assert_eq!(mixed, alone.join(" "));
        assert_eq!(alone[0], alone[2]);
        assert_eq!(sign(&[]), None);
    }

    #[test]
    fn an_ed25519_key_signs_the_id_the_time_and_the_body() {
        let signature = keys(&[SEED]).unwrap().sign("id", "1", b"{}").unwrap();
        let bytes = BASE64_STANDARD.decode(signature.strip_prefix("v1a,").unwrap()).unwrap();
        let SigningKey::Ed25519(key) = SigningKey::read(&PAIR.into(), 0).unwrap() else { panic!() };
        let signature = Signature::from_slice(&bytes).unwrap();
        assert!(key.verifying_key().verify(b"id.1.{}", &signature).is_ok());
        assert!(key.verifying_key().verify(b"id.1.{} ", &signature).is_err());
    }

    #[test]
    fn padding_may_be_missing() {
        assert_eq!(
            keys(&["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwZQ"]).unwrap().sign("id", "1", b"{}"),
            keys(&["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwZQ==\n"]).unwrap().sign("id", "1", b"{}")
        );
        let bare = keys(&[SEED.trim_end_matches('=')]).unwrap();
        assert_eq!(bare.sign("id", "1", b"{}"), keys(&[SEED]).unwrap().sign("id", "1", b"{}"));
    }
}
