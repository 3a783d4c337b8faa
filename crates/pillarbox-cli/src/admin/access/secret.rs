//! What must not be guessed: made from the system's randomness, compared in constant time, and kept only as hashes.

use argon2::Argon2;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rand::TryRng;
use rand::rngs::SysRng;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// What a token begins with, so that scanners for leaked secrets find it.
const TOKEN: &str = "pillarbox_";

/// 256 bits that nobody can guess, as base64url.
pub(crate) fn random() -> anyhow::Result<String> {
    let mut bytes = [0; 32];
    SysRng.try_fill_bytes(&mut bytes)?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

/// A new bearer token.
pub(crate) fn token() -> anyhow::Result<String> {
    Ok(format!("{TOKEN}{}", random()?))
}

pub(crate) fn sha256(text: &str) -> [u8; 32] {
    Sha256::digest(text).into()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Takes as long whether they differ early or late.
pub(super) fn same(one: &[u8], other: &[u8]) -> bool {
    one.ct_eq(other).into()
}

/// The argon2id hash of a password, as a PHC string.
pub(crate) fn hash_password(password: &str) -> anyhow::Result<String> {
    let hashed = Argon2::default().hash_password(password.as_bytes());
    hashed.map(|hash| hash.to_string()).map_err(|error| anyhow::anyhow!("the password cannot be hashed: {error}"))
}

/// Takes tens of milliseconds and megabytes, on purpose.
pub(super) fn is_password(password: &str, hash: &str) -> bool {
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
        let (one, other) = (token().unwrap(), token().unwrap());
        assert!(one != other && one.len() == TOKEN.len() + 43);
        assert_eq!(hex(&sha256("abc"))[..8], *"ba7816bf");
    }
}
