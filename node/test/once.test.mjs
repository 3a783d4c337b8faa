// `once`, `cleanup` and the keys, without HTTP. `python/tests/inbox` runs it in a project that has the packed package.
import assert from "node:assert/strict";
import { EventEmitter } from "node:events";
import { after, before, beforeEach, test } from "node:test";
import { InFlight, Inbox, InvalidKey, RolledBack, cleanup, createTable, once } from "@pillarbox/inbox";
import { receiver } from "@pillarbox/inbox/express";
import express from "express";
import pg from "pg";

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL });
const nothing = async () => {};

before(async () => {
  await createTable(pool);
  await createTable(pool);
});
beforeEach(() => pool.query("TRUNCATE inbox_event"));
after(() => pool.end());

async function inTransaction(work, end = "COMMIT") {
  const client = await pool.connect();
  try {
    await client.query("BEGIN");
    const result = await work(client);
    await client.query(end);
    return result;
  } catch (error) {
    await client.query("ROLLBACK");
    throw error;
  } finally {
    client.release();
  }
}

const commit = (consumer, id) => inTransaction((client) => once(client, id, nothing, { consumer }));

test("an event is handled once by each consumer", async () => {
  assert.deepEqual(
    [await commit("billing", "a"), await commit("billing", "a"), await commit("billing", "A"), await commit("shipping", "a")],
    [true, false, true, true],
  );
});

test("a handler may be a plain function", async () => {
  let calls = 0;
  const handler = () => { calls += 1; };
  for (const expected of [true, false]) {
    assert.equal(await inTransaction((client) => once(client, "a", handler, { consumer: "billing" })), expected);
  }
  const answer = await new Inbox({ pool, consumer: "billing", keys: `whsec_${"AAAA".repeat(8)}` }).handle({ id: "b" }, handler);
  assert.deepEqual([answer.status, answer.text, calls], [200, "handled", 2]);
});

test("a rollback forgets the event", async () => {
  assert.ok(await inTransaction((client) => once(client, "a", nothing, { consumer: "billing" }), "ROLLBACK"));
  assert.ok(await commit("billing", "a"));
});

test("an event of another transaction is in flight", async () => {
  await inTransaction(async (client) => {
    assert.ok(await once(client, "a", nothing, { consumer: "billing" }));
    const second = inTransaction((other) => once(other, "a", nothing, { consumer: "billing", wait: 50 }));
    await assert.rejects(second, InFlight);
  });
  assert.equal(await commit("billing", "a"), false);
});

test("a handler that rolls back, or ignores an error, is noticed", async () => {
  const handlers = [(client) => client.query("ROLLBACK"), (client) => client.query("SELECT nothing").catch(nothing)];
  for (const handler of handlers) {
    await assert.rejects(inTransaction((client) => once(client, "a", () => handler(client), { consumer: "billing" })), RolledBack);
  }
});

test("the lock timeout of the session is set back", async () => {
  const shown = await inTransaction(async (client) => {
    await client.query("SET LOCAL lock_timeout = '12345ms'");
    let during;
    await once(client, "a", async () => { during = (await client.query("SHOW lock_timeout")).rows; }, { consumer: "billing" });
    return during;
  });
  assert.deepEqual(shown, [{ lock_timeout: "12345ms" }]);
});

test("cleanup deletes old records in batches", async () => {
  for (const number of Array(7).keys()) assert.ok(await commit("billing", `old-${number}`));
  await pool.query("UPDATE inbox_event SET received_at = received_at - interval '1439 hours'");
  assert.ok(await commit("billing", "new"));
  assert.equal(await cleanup(pool), 0);
  assert.equal(await cleanup(pool, { keepDays: 59, batch: 3 }), 7);
  assert.equal(await commit("billing", "new"), false);
});

test("a pool, and a client without a transaction, are refused", async () => {
  const client = await pool.connect();
  let calls = 0;
  try {
    for (const place of [pool, client]) {
      await assert.rejects(once(place, "a", () => { calls += 1; }, { consumer: "billing" }), /no transaction is open/);
    }
  } finally {
    client.release();
  }
  assert.deepEqual([calls, (await pool.query("SELECT id FROM inbox_event")).rows], [0, []]);
});

test("a statement timeout that ends the wait is the wait", async () => {
  await inTransaction(async (client) => {
    assert.ok(await once(client, "a", nothing, { consumer: "billing" }));
    const second = inTransaction(async (other) => {
      await other.query("SET LOCAL statement_timeout = '100ms'");
      await once(other, "a", nothing, { consumer: "billing", wait: 20_000 });
    });
    await assert.rejects(second, InFlight);
  });
});

test("numbers that would do nothing are refused", async () => {
  for (const number of [0, -1, Number.NaN]) {
    await assert.rejects(cleanup(pool, { batch: number }), /a batch of cleanup has at least 1 record/);
    const options = { pool, consumer: "billing", keys: `whsec_${"AAAA".repeat(8)}`, tries: number };
    assert.throws(() => new Inbox(options), /a transaction is tried at least once/);
  }
});

test("the inbox listens to the errors of a pool that nobody else listens to", () => {
  const [silent, heard, log] = [new EventEmitter(), new EventEmitter(), []];
  heard.on("error", () => {});
  for (const place of [silent, silent, heard]) {
    new Inbox({ pool: place, consumer: "billing", keys: `whsec_${"AAAA".repeat(8)}`, log: (line) => log.push(line) });
    assert.equal(place.listenerCount("error"), 1);
  }
  silent.emit("error", new Error("lost"));
  assert.deepEqual(log, ["inbox_connection_lost: consumer billing: an idle connection"]);
});

test("names that no database would keep are refused", async () => {
  for (const id of ["", "a b", "é", "x".repeat(256), "a\n", undefined]) {
    await assert.rejects(once(pool, id, nothing, { consumer: "billing" }), TypeError);
    await assert.rejects(once(pool, "a", nothing, { consumer: id }), TypeError);
  }
});

test("a key that cannot be used is refused and not shown", () => {
  const good = `whsec_${"AAAA".repeat(8)}`;
  const refused = [
    [[], /^there are no keys/],
    [["whsec_"], /^keys\[0\] is not whsec_/],
    [[good, "whsec_hunter2"], /^keys\[1\] is not whsec_/],
    [["hunter2!"], /^keys\[0\] is not whsec_/],
    [["whpk_hunter2"], /^keys\[0\] is not whpk_/],
    [["whsk_hunter2"], /is a signing key/],
  ];
  for (const [keys, message] of refused) {
    assert.throws(() => new Inbox({ pool, consumer: "billing", keys }), (error) => {
      return error instanceof InvalidKey && message.test(error.message) && !error.message.includes("hunter2");
    });
  }
});

test("a body that another middleware has parsed cannot be verified", async () => {
  const log = [];
  const events = receiver({ pool, consumer: "billing", keys: `whsec_${"AAAA".repeat(8)}`, log: (line) => log.push(line) }, nothing);
  const server = express().use(express.json()).post("/events", events).listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  const url = `http://127.0.0.1:${server.address().port}/events`;
  const response = await fetch(url, { method: "POST", body: "{}", headers: { "content-type": "application/json" } });
  assert.equal(response.status, 500);
  assert.match(log[0], /mount the receiver before express.json/);
  server.close();
});
