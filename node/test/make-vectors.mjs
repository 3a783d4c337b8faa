// Writes crates/pillarbox-inbox/tests/vectors.json, the requests that the kits of all languages must answer in the same way.
//
//   node node/test/make-vectors.mjs          writes the file
//   node node/test/make-vectors.mjs --check  fails if the file is another
//
// The official package signs for v1, and OpenSSL for v1a. The kit in Rust verifies with other libraries.
import { createHmac, createPrivateKey, createPublicKey, sign as ed25519 } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";

const require = createRequire(new URL("../../.tools/", import.meta.url));
const { Webhook } = require("standardwebhooks");

const FILE = new URL("../../crates/pillarbox-inbox/tests/vectors.json", import.meta.url);
const NOW = 1731900000;
const MAX_BODY = 4096;
const OFFICIAL = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const [OLD, NEW, OTHER] = [1, 2, 3].map((byte) => `whsec_${Buffer.alloc(32, byte).toString("base64")}`);
// The last letter of this secret stands for four bits of the key and two that are not used.
const LOOSE = `whsec_${Buffer.alloc(32, 4).toString("base64").replace("Q=", "R=")}`;

// PKCS #8 of an Ed25519 key is this prefix and the seed.
const seed = (byte) => Buffer.concat([Buffer.from("302e020100300506032b657004220420", "hex"), Buffer.alloc(32, byte)]);
const privateKey = (byte) => createPrivateKey({ key: seed(byte), format: "der", type: "pkcs8" });
const rawPublic = (byte) => createPublicKey(privateKey(byte)).export({ format: "der", type: "spki" }).subarray(-32);
const PUBLIC = `whpk_${rawPublic(7).toString("base64")}`;

// A body is given as text, as base64, or as a number of letters x between quotes.
const bytes = (body) => (Buffer.isBuffer(body) ? body : Buffer.from(body));
const signed = (id, timestamp, body) => Buffer.concat([Buffer.from(`${id}.${timestamp}.`), bytes(body)]);
const hmac = (key, id, timestamp, body) => createHmac("sha256", key).update(signed(id, timestamp, body)).digest("base64");
const keyOf = (secret) => Buffer.from(secret.replace("whsec_", ""), "base64");

function v1(id, timestamp, body, secret = OLD) {
  const own = `v1,${hmac(keyOf(secret), id, timestamp, body)}`;
  if (typeof body === "string" && /^[1-9]\d{0,11}$/.test(timestamp)) {
    const official = new Webhook(secret).sign(id, new Date(Number(timestamp) * 1000), body);
    if (official !== own) throw new Error(`the official package signs ${id} in another way`);
  }
  return own;
}
const v1a = (id, timestamp, body, key = 7) => `v1a,${ed25519(null, signed(id, timestamp, body), privateKey(key)).toString("base64")}`;

// A second valid encoding of the same signature, if the verifier does not check its range: s + L.
function malleable(signature) {
  const raw = Buffer.from(signature.slice(4), "base64");
  const L = 2n ** 252n + 27742317777372353535851937790883648493n;
  let s = BigInt(`0x${Buffer.from(raw.subarray(32)).reverse().toString("hex")}`) + L;
  for (let at = 32; at < 64; at += 1, s >>= 8n) raw[at] = Number(s & 255n);
  return `v1a,${raw.toString("base64")}`;
}

const requests = [];

// `headers` replaces all headers; `more` adds some. `handled` says whether the handler's row is there afterwards.
function add(name, status, { id = name.replaceAll(" ", "-"), body = "{}", timestamp = `${NOW}`, signature, headers, more = [], ...rest }) {
  const given = headers ?? [["webhook-id", id], ["webhook-timestamp", timestamp], ["webhook-signature", signature ?? v1(id, timestamp, body)]];
  const sent = Buffer.isBuffer(body) ? { body_base64: body.toString("base64") } : body.length > 1000 ? { body_letters: body.length - 2 } : { body };
  requests.push({ name, headers: [...given, ...more], ...sent, status, handled: rest.handled ?? status === 200, ...(rest.now ? { now: rest.now } : {}) });
}
const t = `${NOW}`;
const three = (id, timestamp, signature) => [["webhook-id", id], ["webhook-timestamp", timestamp], ["webhook-signature", signature]];

// The official example.
add("official", 200, {
  id: "msg_p5jXN8AQM9LWM0D4loKWxJek", timestamp: "1614265330", now: 1614265330, body: '{"test": 2432232314}',
  signature: "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
});
add("valid", 200, {});
add("replayed as it was", 200, { id: "valid", handled: false });
add("sent again with a new signature", 200, { id: "valid", timestamp: `${NOW + 60}`, handled: false });
add("the new secret", 200, { signature: v1("the-new-secret", t, "{}", NEW) });
add("an unknown and a known secret", 200, { signature: [OTHER, NEW].map((key) => v1("an-unknown-and-a-known-secret", t, "{}", key)).join(" ") });
add("v1a", 200, { signature: v1a("v1a", t, "{}") });
add("v1a behind an unknown version", 200, { signature: `v2,abc ${v1a("v1a-behind-an-unknown-version", t, "{}")}` });
add("names in capitals", 200, { headers: three("names-in-capitals", t, v1("names-in-capitals", t, "{}")).map(([n, v]) => [n.toUpperCase(), v]) });
add("an empty body", 200, { body: "" });
add("a binary body", 200, { body: Buffer.from([0xff, 0x00, 0xfe, 0x80]) });
add("a binary body with v1a", 200, { body: Buffer.from([0xff, 0xfd]), signature: v1a("a-binary-body-with-v1a", t, Buffer.from([0xff, 0xfd])) });
add("the largest body", 200, { body: `"${"x".repeat(MAX_BODY - 2)}"` });
add("the longest id", 200, { id: "x".repeat(255) });
add("as old as allowed", 200, { timestamp: `${NOW - 300}` });
add("as early as allowed", 200, { timestamp: `${NOW + 300}` });
// Timestamps have whole seconds, so the clock's fraction does not count.
add("as old as allowed with a fraction", 200, { timestamp: `${NOW - 300}`, now: NOW + 0.5 });
add("as early as allowed with a fraction", 200, { timestamp: `${NOW + 300}`, now: NOW + 0.5 });
add("a secret with unused bits set", 200, { signature: v1("a-secret-with-unused-bits-set", t, "{}", LOOSE) });
// Hostile.
add("too large", 413, { body: `"${"x".repeat(MAX_BODY)}"` });
add("huge", 413, { body: `"${"x".repeat(256 * 1024)}"` });
add("too old", 401, { timestamp: `${NOW - 301}` });
add("from the future", 401, { timestamp: `${NOW + 301}` });
add("too old with a fraction", 401, { timestamp: `${NOW - 301}`, now: NOW + 0.5 });
add("from the future with a fraction", 401, { timestamp: `${NOW + 300}`, now: NOW - 0.5 });
add("milliseconds", 401, { timestamp: `${NOW}000` });
add("a fraction", 401, { timestamp: `${NOW}.0` });
add("a sign", 401, { timestamp: `+${NOW}` });
add("a leading zero", 401, { timestamp: `0${NOW}` });
add("no number", 401, { timestamp: "now" });
add("a huge number", 401, { timestamp: "9".repeat(400) });
add("truncated", 401, { body: '{"total": 1', signature: v1("truncated", t, '{"total": 1}') });
add("a space more", 401, { body: '{"total": 1} ', signature: v1("a-space-more", t, '{"total": 1}') });
add("another body", 401, { body: '{"total": 2}', signature: v1("another-body", t, '{"total": 1}') });
add("the signature of another id", 401, { signature: v1("valid", t, "{}") });
add("the id in capitals", 401, { id: "VALID", signature: v1("valid", t, "{}") });
add("the signature of another time", 401, { signature: v1("the-signature-of-another-time", `${NOW - 1}`, "{}") });
add("the version in capitals", 401, { signature: v1("the-version-in-capitals", t, "{}").replace("v1", "V1") });
add("an unknown secret", 401, { signature: v1("an-unknown-secret", t, "{}", OTHER) });
add("an unknown public key", 401, { signature: v1a("an-unknown-public-key", t, "{}", 8) });
add("the public key as a secret", 401, { signature: `v1,${hmac(rawPublic(7), "the-public-key-as-a-secret", t, "{}")}` });
add("v1 called v1a", 401, { signature: v1("v1-called-v1a", t, "{}").replace("v1,", "v1a,") });
add("v1a called v1", 401, { signature: v1a("v1a-called-v1", t, "{}").replace("v1a,", "v1,") });
add("a malleable signature", 401, { signature: malleable(v1a("a-malleable-signature", t, "{}")) });
add("a short signature", 401, { signature: `v1a,${Buffer.alloc(63, 1).toString("base64")}` });
add("no base64", 401, { signature: "v1,%%%% v1a,%%%% v1 v1a , v1a," });
add("a signature of nothing", 401, { signature: "v1," });
add("seventeen signatures", 401, { signature: `${"v1,abc ".repeat(16)}${v1("seventeen-signatures", t, "{}")}` });
add("two ids", 401, { more: [["webhook-id", "valid"]] });
add("two times", 401, { more: [["webhook-timestamp", t]] });
add("two signatures in two headers", 401, { more: [["webhook-signature", v1("two-signatures-in-two-headers", t, "{}", NEW)]] });
add("no id", 401, { headers: three("", t, v1("", t, "{}")).slice(1) });
add("no time", 401, { headers: [["webhook-id", "no-time"], ["webhook-signature", v1("no-time", "", "{}")]] });
add("no signature", 401, { headers: three("no-signature", t, "").slice(0, 2) });
add("no headers", 401, { headers: [] });
add("names with underscores", 401, { headers: three("names-with-underscores", t, v1("names-with-underscores", t, "{}")).map(([n, v]) => [n.replace("-", "_"), v]) });
add("an id with a comma", 401, { id: "a,b" });
add("an id with a space", 401, { id: "a b" });
add("an id with another letter", 401, { id: "caf\u00e9" });
add("an id that is too long", 401, { id: "x".repeat(256) });
// What was signed is the same text: the id, the time and the beginning of the body have moved.
add("a moved dot", 401, { id: `valid.${NOW - 5}`, body: "{}", signature: v1("valid", `${NOW - 5}`, `${NOW}.{}`) });
add("a letter that is no UTF-8", 401, { body: Buffer.from([0x22, 0xff, 0x22]), signature: v1("a-letter-that-is-no-UTF-8", t, '"\ufffd"') });
// Test events of Pillarbox are verified, and neither recorded nor handled. Both marks must be there: the signature covers the id only.
const TEST = "70696c6c-7465-8a3f-9c1d-0123456789ab";
const mark = [["pillarbox-test", "true"]];
add("a test event", 200, { id: TEST, more: mark, handled: false });
add("a test event again", 200, { id: TEST, more: mark, timestamp: `${NOW + 1}`, handled: false });
add("a test event with v1a", 200, { id: TEST, more: mark, signature: v1a(TEST, t, "{}"), handled: false });
add("a test event with a wrong signature", 401, { id: TEST, more: mark, signature: v1("valid", t, "{}") });
add("an event that is called a test on the way", 200, { more: mark });
add("the id of a test event without the mark", 200, { id: "70696c6c-7465-8a3f-9c1d-0123456789ac" });
add("another mark", 200, { id: "70696c6c-7465-8a3f-9c1d-0123456789ad", more: [["pillarbox-test", "false"]] });
// Handlers.
add("the handler fails", 500, { id: "again", body: '{"do": "fail"}' });
add("the same event succeeds", 200, { id: "again" });
add("the handler says never", 422, { body: '{"do": "never"}' });
add("the handler rolls back", 500, { body: '{"do": "roll back"}' });

const lines = requests.map((request) => `    ${JSON.stringify(request)}`).join(",\n");
const settings = { now: NOW, tolerance: 300, max_body: MAX_BODY, keys: [OFFICIAL, OLD, NEW, LOOSE, PUBLIC] };
const head = Object.entries(settings).map(([name, value]) => `  ${JSON.stringify(name)}: ${JSON.stringify(value)},\n`).join("");
const text = `{\n${head}  "requests": [\n${lines}\n  ]\n}\n`;
if (process.argv[2] === "--check") {
  if (readFileSync(FILE, "utf8") !== text) throw new Error("vectors.json is another: run node node/test/make-vectors.mjs");
} else writeFileSync(FILE, text);
console.log(`${requests.length} requests`);
