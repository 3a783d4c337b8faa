// Verifies Standard Webhooks signatures: `v1` (HMAC-SHA256) and `v1a` (Ed25519), by any of several keys. Pure.
//
// The official package signs for `v1`. It takes text only, so a body that is not UTF-8 is signed here.
import { isUtf8 } from "node:buffer";
import { createHmac, createPublicKey, timingSafeEqual, verify as verifyEd25519 } from "node:crypto";
import { Webhook } from "standardwebhooks";

const SHORTEST_SECRET = 24;
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/;
const SIGNATURE = /^[A-Za-z0-9+/]{86}==$/;
// What stands before the 32 bytes of a public key in its DER form.
const SPKI = Buffer.from("302a300506032b6570032100", "hex");
// The most signatures of one request that are looked at. Each costs a verification per public key.
const MOST_SIGNATURES = 16;

/** A key that cannot be used. The message does not show it. */
export class InvalidKey extends Error {
  name = "InvalidKey";
}

/** The keys of one sender. During a rotation there are the old and the new one. */
export class Keys {
  #secrets = [];
  #public = [];

  constructor(keys) {
    for (const [position, key] of (typeof keys === "string" ? [keys] : [...keys]).entries()) this.#add(position, key.trim());
    if (!this.#secrets.length && !this.#public.length) throw new InvalidKey("there are no keys: nobody's signature would be valid");
  }

  #add(position, key) {
    if (key.startsWith("whsk_")) {
      throw new InvalidKey(`keys[${position}] is a signing key; give the receiver its public key, which begins whpk_`);
    }
    if (key.startsWith("whpk_")) {
      const bytes = decoded(key.slice(5));
      if (bytes.length !== 32) throw new InvalidKey(`keys[${position}] is not whpk_ followed by the base64 of 32 bytes`);
      this.#public.push(createPublicKey({ key: Buffer.concat([SPKI, bytes]), format: "der", type: "spki" }));
      return;
    }
    const secret = decoded(key.startsWith("whsec_") ? key.slice(6) : key);
    if (secret.length < SHORTEST_SECRET) {
      throw new InvalidKey(`keys[${position}] is not whsec_ followed by the base64 of at least ${SHORTEST_SECRET} bytes`);
    }
    this.#secrets.push(secret);
  }

  /** Returns whether one of the signatures is valid. Every comparison of secrets takes constant time. */
  verify(id, timestamp, body, signatures) {
    const given = signatures.split(" ");
    if (given.length > MOST_SIGNATURES) return false;
    const expected = this.#secrets.map((secret) => Buffer.from(sign(secret, id, timestamp, body)));
    const signed = Buffer.concat([Buffer.from(`${id}.${timestamp}.`), body]);
    let valid = false;
    for (const one of given) {
      const comma = one.indexOf(",");
      const [version, signature] = comma < 0 ? [one, ""] : [one.slice(0, comma), one.slice(comma + 1)];
      if (version === "v1") {
        for (const own of expected) valid = isEqual(own, Buffer.from(signature)) || valid;
      } else if (version === "v1a" && SIGNATURE.test(signature)) {
        for (const key of this.#public) valid = verifyEd25519(null, signed, key, Buffer.from(signature, "base64")) || valid;
      }
    }
    return valid;
  }
}

/** Returns the base64 of a `v1` signature. */
function sign(secret, id, timestamp, body) {
  if (isUtf8(body)) {
    const webhook = new Webhook(secret, { format: "raw" });
    return webhook.sign(id, new Date(timestamp * 1000), body.toString()).slice(3);
  }
  return createHmac("sha256", secret).update(`${id}.${timestamp}.`).update(body).digest("base64");
}

/** The length of a signature is no secret. */
function isEqual(own, given) {
  return own.length === given.length && timingSafeEqual(own, given);
}

/** Returns no bytes for what is not base64. Padding may be missing. */
function decoded(text) {
  return BASE64.test(text) ? Buffer.from(text, "base64") : Buffer.alloc(0);
}
