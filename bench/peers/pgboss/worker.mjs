// pg-boss as a contender: makes its tables, fills a queue, and drains it with a handler that does nothing.
//
//     node worker.mjs fill URL COUNT
//     node worker.mjs work URL COUNT      work(): four workers, batches of 1000, a full batch asks for the next at once
//     node worker.mjs fetch URL COUNT     fetch() and complete() in a loop, batches of 1000
//
// When it drains, COUNT jobs are there; another process may take some of them.

import { PgBoss } from "pg-boss";
import pg from "pg";

const [command, connectionString, number] = process.argv.slice(2);
const count = Number(number);
const QUEUE = "orders";
const sleep = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

let first = 0;
let handled = 0;

function handle(jobs) {
  first ||= Date.now();
  handled += jobs.length;
}

async function work(boss) {
  const options = { batchSize: 1000, localConcurrency: 4, pollingIntervalSeconds: 0.5, burstWhenBatchFull: true };
  await boss.work(QUEUE, options, async (jobs) => handle(jobs));
}

// It goes on until the process ends.
async function fetch(boss) {
  const loop = async () => {
    for (;;) {
      const jobs = await boss.fetch(QUEUE, { batchSize: 1000 });
      if (jobs.length === 0) {
        await sleep(20);
        continue;
      }
      handle(jobs);
      await boss.complete(QUEUE, jobs.map((job) => job.id));
    }
  };
  loop().catch((error) => {
    console.error(error);
    process.exit(1);
  });
}

// When the table has none left. While jobs come in nobody asks.
async function completed(database) {
  let before = -1;
  for (;;) {
    if (handled < count && handled !== before) {
      before = handled;
      await sleep(100);
      continue;
    }
    const left = await database.query("SELECT 1 FROM pgboss.job WHERE name = $1 AND state < 'completed' LIMIT 1", [QUEUE]);
    if (left.rowCount === 0) return Date.now();
    // Another process has jobs to complete, too, and asking costs.
    await sleep(handled < count ? 50 : 10);
  }
}

async function drain(start) {
  const database = new pg.Client({ connectionString });
  await database.connect();
  const boss = new PgBoss({ connectionString, max: 10, schedule: false, supervise: false, migrate: false });
  boss.on("error", console.error);
  await boss.start();
  await start(boss);
  const last = await completed(database);
  console.log(JSON.stringify({ settled: handled, first_at: (first || last) / 1000, last_at: last / 1000 }));
}

async function fill() {
  const boss = new PgBoss({ connectionString });
  await boss.start();
  await boss.createQueue(QUEUE);
  const filler = "x".repeat(464);
  for (let from = 0; from < count; from += 5000) {
    const length = Math.min(5000, count - from);
    await boss.insert(QUEUE, Array.from({ length }, (_, offset) => ({ data: { order: from + offset, filler } })));
  }
  await boss.stop();
}

const commands = { fill, work: () => drain(work), fetch: () => drain(fetch) };
await commands[command]();
process.exit(0);
