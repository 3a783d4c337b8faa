//! An operator with one account and one user, for servers that check JWTs: what a `.creds` file is made of.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use nkeys::KeyPair;
use serde_json::{Value, json};

/// The configuration of a server, and the credentials of its user.
#[derive(Debug)]
pub struct Operator {
    /// Lines of the server's configuration.
    pub lines: String,
    /// The content of a `.creds` file.
    pub creds: String,
}

impl Operator {
    /// Makes keys and signs the claims of operator, account and user.
    ///
    /// # Panics
    /// When a key cannot sign.
    #[allow(clippy::new_without_default, reason = "each call makes other keys")]
    pub fn new() -> Self {
        let (operator, account, user) = (KeyPair::new_operator(), KeyPair::new_account(), KeyPair::new_user());
        // JetStream needs a system account beside the user's.
        let system = KeyPair::new_account();
        let root = signed(&operator, &operator, &json!({ "type": "operator", "version": 2 }));
        let of_system = signed(&operator, &system, &json!({ "limits": limits(0), "type": "account", "version": 2 }));
        let of_account = signed(&operator, &account, &json!({ "limits": limits(-1), "type": "account", "version": 2 }));
        let of_user = signed(
            &account,
            &user,
            &json!({ "pub": {}, "sub": {}, "subs": -1, "data": -1, "payload": -1, "type": "user", "version": 2 }),
        );
        let seed = user.seed().expect("a new key has its seed");
        Self {
            lines: format!(
                "operator: {root}\nsystem_account: {0}\nresolver: MEMORY\nresolver_preload: {{ {0}: {of_system}, {1}: {of_account} }}\n",
                system.public_key(),
                account.public_key()
            ),
            creds: format!(
                "-----BEGIN NATS USER JWT-----\n{of_user}\n------END NATS USER JWT------\n\n\
                 -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
            ),
        }
    }
}

/// Returns the limits of an account, with this much JetStream; -1 means no limit.
fn limits(jetstream: i64) -> Value {
    json!({
        "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true, "conn": -1, "leaf": -1,
        "mem_storage": jetstream, "disk_storage": jetstream, "streams": jetstream, "consumer": jetstream
    })
}

/// Returns the JWT that the issuer signs for the subject.
fn signed(issuer: &KeyPair, subject: &KeyPair, claims: &Value) -> String {
    let part = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    let head = part(&json!({ "typ": "JWT", "alg": "ed25519-nkey" }));
    let body = part(&json!({
        "jti": "tests", "iat": 1_700_000_000, "iss": issuer.public_key(), "sub": subject.public_key(), "name": "tests", "nats": claims
    }));
    let text = format!("{head}.{body}");
    let signature = issuer.sign(text.as_bytes()).expect("a new key signs");
    format!("{text}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature))
}
