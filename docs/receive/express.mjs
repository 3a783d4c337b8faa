// receiver.mjs
import express from "express";
import pg from "pg";
import { receiver } from "@pillarbox/inbox/express";

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL });
const keys = process.env.BILLING_SECRETS.split(" ");

const events = receiver({ pool, keys, consumer: "billing" }, async (event, client) => {
  const values = [event.aggregateId, event.json().total];
  await client.query("INSERT INTO invoice (order_id, total) VALUES ($1, $2)", values);
});

express().post("/events", events).listen(8080, "127.0.0.1");
