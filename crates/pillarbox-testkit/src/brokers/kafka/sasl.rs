//! The server's side of SASL: PLAIN (RFC 4616), SCRAM (RFC 5802, RFC 7677) and OAUTHBEARER (RFC 7628), for one user.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256, Sha512};

use super::{PASSWORD, TOKEN, USERNAME};

const ITERATIONS: u32 = 4096;
const SALT: &[u8] = b"salt of the tests";

/// An exchange of messages with one client.
pub(super) enum Exchange {
    Plain,
    OauthBearer,
    Scram { hash: Hash, first: Option<(String, String)> },
    Done,
}

#[derive(Clone, Copy)]
pub(super) enum Hash {
    Sha256,
    Sha512,
}

impl Exchange {
    pub(super) fn start(mechanism: &str) -> Option<Self> {
        Some(match mechanism {
            "PLAIN" => Self::Plain,
            "OAUTHBEARER" => Self::OauthBearer,
            "SCRAM-SHA-256" => Self::Scram { hash: Hash::Sha256, first: None },
            "SCRAM-SHA-512" => Self::Scram { hash: Hash::Sha512, first: None },
            _ => return None,
        })
    }

    pub(super) fn is_done(&self) -> bool {
        matches!(self, Self::Done)
    }

    /// Returns the answer to the client's message, or `None` for wrong credentials.
    pub(super) fn step(&mut self, message: &[u8]) -> Option<Vec<u8>> {
        let message = std::str::from_utf8(message).ok()?;
        match self {
            Self::Done => None,
            Self::Plain => {
                let mut parts = message.split('\0').skip(1);
                let is_right = parts.next() == Some(USERNAME) && parts.next() == Some(PASSWORD);
                *self = Self::Done;
                is_right.then(Vec::new)
            }
            Self::OauthBearer => {
                let is_right = message.split('\u{1}').any(|part| part == format!("auth=Bearer {TOKEN}"));
                *self = Self::Done;
                is_right.then(Vec::new)
            }
            Self::Scram { hash, first: None } => {
                let bare = message.strip_prefix("n,,")?.to_owned();
                let nonce = bare.split(',').find_map(|part| part.strip_prefix("r="))?;
                let salt = BASE64_STANDARD.encode(SALT);
                let answer = format!("r={nonce}of-the-front,s={salt},i={ITERATIONS}");
                bare.split(',').any(|part| part == format!("n={USERNAME}")).then_some(())?;
                *self = Self::Scram { hash: *hash, first: Some((bare, answer.clone())) };
                Some(answer.into_bytes())
            }
            Self::Scram { hash, first: Some((bare, answer)) } => {
                let (without_proof, proof) = message.rsplit_once(",p=")?;
                let signed = format!("{bare},{answer},{without_proof}");
                let proof = BASE64_STANDARD.decode(proof).ok()?;
                let verified = match hash {
                    Hash::Sha256 => verify_256(&signed, &proof),
                    Hash::Sha512 => verify_512(&signed, &proof),
                };
                *self = Self::Done;
                Some(format!("v={}", BASE64_STANDARD.encode(verified?)).into_bytes())
            }
        }
    }
}

macro_rules! verify {
    ($name:ident, $hash:ty) => {
        /// Returns the server's signature if the proof is right.
        fn $name(signed: &str, proof: &[u8]) -> Option<Vec<u8>> {
            let mac = |key: &[u8], text: &[u8]| {
                let mut mac = Hmac::<$hash>::new_from_slice(key).expect("a key of any length");
                mac.update(text);
                mac.finalize().into_bytes().to_vec()
            };
            let mut block = mac(PASSWORD.as_bytes(), &[SALT, &1_u32.to_be_bytes()].concat());
            let mut salted = block.clone();
            for _ in 1..ITERATIONS {
                block = mac(PASSWORD.as_bytes(), &block);
                salted.iter_mut().zip(&block).for_each(|(sum, byte)| *sum ^= byte);
            }
            let client_key = mac(&salted, b"Client Key");
            let signature = mac(&<$hash>::digest(&client_key), signed.as_bytes());
            let shown: Vec<u8> = signature.iter().zip(proof).map(|(one, other)| one ^ other).collect();
            (shown == client_key).then(|| mac(&mac(&salted, b"Server Key"), signed.as_bytes()))
        }
    };
}

verify!(verify_256, Sha256);
verify!(verify_512, Sha512);
