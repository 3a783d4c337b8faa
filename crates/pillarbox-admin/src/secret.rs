//! Passwords and tokens: made from the system's randomness, compared in constant time, and stored only as hashes.

use argon2::Argon2;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rand::TryRng;
use rand::rngs::SysRng;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// The prefix of a token, so that scanners for leaked secrets find it.
const TOKEN: &str = "pillarbox_";

/// The reason why a secret could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SecretError {
    /// The system's random number generator failed.
    #[error("the system's random number generator failed: {0}")]
    Random(String),
    /// Argon2 failed.
    #[error("the password cannot be hashed: {0}")]
    Hash(String),
}

/// A new bearer token for the API.
#[derive(Clone)]
#[non_exhaustive]
pub struct NewToken {
    /// The token itself, which the client sends.
    pub token: String,
    /// The hash, for [`User::token_hash`](crate::User::token_hash).
    pub hash: String,
}

/// Makes a bearer token and its hash.
///
/// # Errors
/// Fails if the system has no randomness.
pub fn new_token() -> Result<NewToken, SecretError> {
    let token = format!("{TOKEN}{}", random()?);
    let hash = hex(&sha256(&token));
    Ok(NewToken { token, hash })
}

/// Returns the argon2id hash of a password as a PHC string, for [`User::password_hash`](crate::User::password_hash).
///
/// # Errors
/// Fails if the system has no randomness for the salt.
pub fn hash_password(password: &str) -> Result<String, SecretError> {
    let hashed = Argon2::default().hash_password(password.as_bytes());
    hashed.map(|hash| hash.to_string()).map_err(|error| SecretError::Hash(error.to_string()))
}

/// Returns 256 random bits as base64url.
pub(crate) fn random() -> Result<String, SecretError> {
    let mut bytes = [0; 32];
    SysRng.try_fill_bytes(&mut bytes).map_err(|error| SecretError::Random(error.to_string()))?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

pub(crate) fn sha256(text: &str) -> [u8; 32] {
    Sha256::digest(text).into()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Compares in constant time.
pub(crate) fn same(one: &[u8], other: &[u8]) -> bool {
    one.ct_eq(other).into()
}

/// Verifies a password. Takes tens of milliseconds and megabytes, on purpose.
pub(crate) fn is_password(password: &str, hash: &str) -> bool {
    Argon2::default().verify_password(password.as_bytes(), hash).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_known_by_its_hash() {
        let hash = hash_password("correct horse").unwrap();
        assert!(hash.starts_with("$argon2id$v=19$"));
        assert!(is_password("correct horse", &hash) && !is_password("wrong horse", &hash));
        assert!(!is_password("x", "not a hash"));
    }

    #[test]
    fn nothing_random_comes_twice() {
        let (one, other) = (new_token().unwrap(), new_token().unwrap());
        assert!(one.token != other.token && one.token.len() == TOKEN.len() + 43);
        assert_eq!(one.hash, hex(&sha256(&one.token)));
        assert_eq!(hex(&sha256("abc"))[..8], *"ba7816bf");
    }
}
