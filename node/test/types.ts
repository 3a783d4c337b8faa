// Compiles, or the types are wrong. Lines that must not compile say so.
import express from "express";
import fastify from "fastify";
import pg from "pg";
import { type Event, Inbox, Never, cleanup, createTable, once } from "@pillarbox/inbox";
import { receiver } from "@pillarbox/inbox/express";
import { receiver as plugin } from "@pillarbox/inbox/fastify";

const pool = new pg.Pool();
const options = { pool, consumer: "billing", keys: ["whsec_"] };

async function handler(event: Event, client: pg.PoolClient): Promise<void> {
  const { total } = event.json<{ total: number }>();
  const isTest: boolean = event.isTest;
  if (total < 0 || isTest) throw new Never("a total cannot be negative");
  await client.query("INSERT INTO invoice (event, type, total) VALUES ($1, $2, $3)", [event.id, event.type, total]);
}

express().post("/events", receiver(options, handler));
fastify().register(plugin(options, handler), { prefix: "/events" });

export async function consume(client: pg.PoolClient, id: string): Promise<boolean> {
  await createTable(pool);
  const deleted: number = await cleanup(pool, { keepDays: 30 });
  // @ts-expect-error: the consumer is part of the key.
  await once(client, id, () => deleted, {});
  return once(client, id, () => deleted, { consumer: "billing" });
}

// @ts-expect-error: without keys, everything would be refused.
new Inbox({ pool, consumer: "billing" });
