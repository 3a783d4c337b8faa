// The receiver that the tests of all kits share, in Express or Fastify: the body of an event says what its handler does.
//
// `python/tests/inbox` starts it in a project that has the packed package: node receive.mjs express
import { once } from "node:events";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Never, createTable } from "@pillarbox/inbox";
import pg from "pg";

const { env } = process;
const pool = new pg.Pool({ connectionString: env.DATABASE_URL });
await createTable(pool);

async function handler(event, client) {
  let given = {};
  try {
    given = event.json() ?? {};
  } catch {}
  await client.query(`INSERT INTO handled (id) VALUES ('${event.id}')`);
  for (const statement of given.sql ?? []) {
    await client.query(statement).catch((error) => {
      if (!given.ignore) throw error;
    });
  }
  if (given.meet) await meet(given.meet, event.id, given.count);
  for (const statement of given.then ?? []) await client.query(statement);
  if (given.call) await once(connect(given.call, "127.0.0.1"), "connect");
  if (given.database) await new pg.Client({ connectionString: given.database }).connect();
  if (given.do === "fail") throw new Error("the handler was told to fail");
  if (given.do === "never") throw new Never("the handler was told to");
  if (given.do === "roll back") await client.query("ROLLBACK");
}

async function meet(place, name, count) {
  writeFileSync(join(place, name), "");
  const deadline = Date.now() + 30_000;
  while (readdirSync(place).length < count) {
    if (Date.now() > deadline) throw new Error(`fewer than ${count} in ${place}`);
    await sleep(5);
  }
}

const options = {
  pool,
  consumer: "tests",
  keys: env.INBOX_KEYS.split(" "),
  wait: Number(env.INBOX_WAIT ?? 5) * 1000,
  maxBody: Number(env.INBOX_MAX_BODY ?? 2 ** 21),
  ...(env.INBOX_CLOCK ? { clock: () => Number(readFileSync(env.INBOX_CLOCK, "utf8")) } : {}),
};
const place = { host: "127.0.0.1", port: Number(env.PORT) };
if (process.argv[2] === "express") {
  const { receiver } = await import("@pillarbox/inbox/express");
  const { default: express } = await import("express");
  express().post("/events", receiver(options, handler)).listen(place.port, place.host);
} else {
  const { receiver } = await import("@pillarbox/inbox/fastify");
  const { default: fastify } = await import("fastify");
  const app = fastify();
  app.register(receiver(options, handler), { prefix: "/events" });
  await app.listen(place);
}
