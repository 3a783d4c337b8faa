// receiver.mjs
import fastify from "fastify";
import pg from "pg";
import { receiver } from "@pillarbox/inbox/fastify";

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL });
const keys = process.env.BILLING_SECRETS.split(" ");

const events = receiver({ pool, keys, consumer: "billing" }, async (event, client) => {
  const values = [event.aggregateId, event.json().total];
  await client.query("INSERT INTO invoice (order_id, total) VALUES ($1, $2)", values);
});

await fastify().register(events, { prefix: "/events" }).listen({ host: "127.0.0.1", port: 8080 });
