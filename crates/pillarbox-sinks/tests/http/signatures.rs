//! What a receiver verifies: `v1` with the official packages of three languages, and `v1a` with two libraries that know nothing of ours.

use std::path::{Path, PathBuf};
use std::process::Command;

use axum::http::StatusCode;
use pillarbox::StoredEvent;
use pillarbox_sinks::Secret;
use pillarbox_sinks::http::{HttpSettings, NewKey};
use pillarbox_sinks::registry::KeyKind;

use crate::receiver::{Receiver, Seen};
use crate::{local, send};

const OLD: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
pub(crate) const NEW: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
const OTHER: &str = "whsec_c29tZWJvZHkgZWxzZSdzIHNlY3JldCwgbm90IG91cnM=";

/// Each reads the key, the three headers and the body as arguments, and exits with 3 if no signature is valid.
const PYTHON_V1: &str = "
import sys, standardwebhooks
secret, identity, timestamp, signature, body = sys.argv[1:]
headers = {'webhook-id': identity, 'webhook-timestamp': timestamp, 'webhook-signature': signature}
try:
    standardwebhooks.Webhook(secret).verify(body, headers)
except standardwebhooks.webhooks.WebhookVerificationError:
    sys.exit(3)
";
const PYTHON_V1A: &str = "
import base64, sys
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
public, identity, timestamp, signatures, body = sys.argv[1:]
key = Ed25519PublicKey.from_public_bytes(base64.b64decode(public.removeprefix('whpk_'), validate=True))
for signature in signatures.split():
    version, _, signature = signature.partition(',')
    if version == 'v1a':
        try:
            key.verify(base64.b64decode(signature, validate=True), f'{identity}.{timestamp}.{body}'.encode())
            sys.exit(0)
        except InvalidSignature:
            pass
sys.exit(3)
";
const NODE_V1: &str = "
const { Webhook, WebhookVerificationError } = require('standardwebhooks');
const [secret, id, timestamp, signature, body] = process.argv.slice(1);
try {
  new Webhook(secret).verify(body, { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': signature });
} catch (error) {
  if (!(error instanceof WebhookVerificationError)) throw error;
  process.exit(3);
}
";
const NODE_V1A: &str = "
const { createPublicKey, verify } = require('node:crypto');
const [key, id, timestamp, signatures, body] = process.argv.slice(1);
const x = Buffer.from(key.replace('whpk_', ''), 'base64').toString('base64url');
const publicKey = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' });
const given = signatures.split(' ').filter((one) => one.startsWith('v1a,')).map((one) => Buffer.from(one.slice(4), 'base64'));
const signed = Buffer.from(`${id}.${timestamp}.${body}`);
process.exit(given.some((signature) => verify(null, signed, publicKey, signature)) ? 0 : 3);
";

/// A key pair that is not random, so that tests repeat.
pub(crate) fn pair(first: u8) -> NewKey {
    NewKey::from_random(KeyKind::Ed25519, &std::array::from_fn(|at| first + at as u8))
}

async fn seen(secrets: &[&Secret]) -> Seen {
    let receiver = Receiver::answering(|_| StatusCode::OK).await;
    let secrets = secrets.iter().copied().cloned().collect();
    let settings = HttpSettings { secrets, ..local(receiver.url()) };
    send(settings, StoredEvent::for_tests("order.placed", r#"{"name": "Müller"}"#)).await.unwrap();
    receiver.only()
}

#[tokio::test]
async fn each_secret_of_a_rotation_verifies_with_the_official_packages() {
    let seen = seen(&[&NEW.into(), &pair(1).secret, &OLD.into()]).await;
    for (key, is_valid) in [(NEW, true), (OLD, true), (OTHER, false)] {
        assert_eq!(verifies(&seen, key), is_valid, "Python: {key}");
        assert_eq!(passes(node().args(["-e", NODE_V1]), key, &seen), is_valid, "JavaScript: {key}");
        let official = standardwebhooks::Webhook::new(key).unwrap();
        assert_eq!(official.verify(&seen.body, &seen.headers).is_ok(), is_valid, "Rust: {key}");
    }
}

#[tokio::test]
async fn an_ed25519_signature_verifies_with_libraries_that_are_not_ours() {
    let (new, old, other) = (pair(1), pair(2), pair(3));
    let seen = seen(&[&new.secret, &OLD.into(), &old.secret]).await;
    let versions: Vec<_> =
        seen.header("webhook-signature").split(' ').map(|one| one.split(',').next().unwrap()).collect();
    assert_eq!(versions, ["v1a", "v1", "v1a"]);
    for (key, is_valid) in [(&new, true), (&old, true), (&other, false)] {
        let public = key.shown.public.as_deref().unwrap();
        assert_eq!(passes(Command::new(python()).args(["-c", PYTHON_V1A]), public, &seen), is_valid, "Python");
        assert_eq!(passes(node().args(["-e", NODE_V1A]), public, &seen), is_valid, "Node");
    }
}

#[tokio::test]
async fn both_forms_of_a_private_key_sign_alike() {
    let pair = pair(7);
    let text = pair.secret.expose().trim_start_matches("whsk_");
    // 64 bytes are 88 letters; the seed is the first 32 bytes: 42 letters, and two bits of the next one.
    let seed = base64::Engine::decode(&base64::prelude::BASE64_STANDARD, text).unwrap();
    let seed = base64::Engine::encode(&base64::prelude::BASE64_STANDARD, &seed[..32]);
    let seen = seen(&[&format!("whsk_{seed}").into()]).await;
    assert!(passes(Command::new(python()).args(["-c", PYTHON_V1A]), pair.shown.public.as_deref().unwrap(), &seen));
}

/// Asks the library that receivers in Python use.
pub(crate) fn verifies(seen: &Seen, secret: &str) -> bool {
    passes(Command::new(python()).args(["-c", PYTHON_V1]), secret, seen)
}

/// Runs a script with the key and the request. Returns whether it found a valid signature.
fn passes(script: &mut Command, key: &str, seen: &Seen) -> bool {
    let headers = ["webhook-id", "webhook-timestamp", "webhook-signature"].map(|name| seen.header(name));
    let output = script.arg(key).args(headers).arg(std::str::from_utf8(&seen.body).unwrap()).output();
    match output.as_ref().map(|output| output.status.code()) {
        Ok(Some(0)) => true,
        Ok(Some(3)) => false,
        _ => panic!(
            "{:?} does not run ({output:?}): `make test` sets up .venv and .tools, or scripts/setup does; \
             PILLARBOX_PYTHON names another Python with standardwebhooks and cryptography",
            script.get_program()
        ),
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn python() -> PathBuf {
    std::env::var_os("PILLARBOX_PYTHON").map_or_else(|| root().join(".venv/bin/python"), PathBuf::from)
}

/// Node, with the official package that the setup has installed.
fn node() -> Command {
    let mut node = Command::new("node");
    node.env("NODE_PATH", root().join(".tools/node_modules"));
    node
}
