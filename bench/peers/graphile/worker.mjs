// graphile-worker as a contender: makes its tables, drains them with a task that does nothing, and shows how long a single
// job waits.
//
//     node worker.mjs migrate URL
//     node worker.mjs drain URL COUNT          COUNT jobs are there; another process may take some of them
//     node worker.mjs latency URL SAMPLES      from the commit to the handler, in milliseconds, of jobs at random moments

import { Logger, run, runMigrations } from "graphile-worker";
import pg from "pg";

const [command, connectionString, number] = process.argv.slice(2);
const count = Number(number);
const sleep = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

// Its documented best for many small jobs: https://worker.graphile.org/docs/performance
const preset = {
  worker: {
    connectionString,
    concurrentJobs: 24,
    maxPoolSize: 25,
    localQueue: { size: 500 },
    completeJobBatchDelay: 0,
    failJobBatchDelay: 0,
  },
};
// What it says of itself goes to the log only if it is a warning.
const logger = new Logger(() => (level, message) => ["warning", "error"].includes(level) && console.error(message));

async function drain() {
  let first = 0;
  let handled = 0;
  const taskList = {
    order() {
      first ||= Date.now();
      handled += 1;
    },
  };
  const database = new pg.Client({ connectionString });
  await database.connect();
  const runner = await run({ preset, taskList, logger, noHandleSignals: true });
  const last = await completed(database, () => handled);
  await runner.stop();
  await database.end();
  const report = { settled: handled, first_at: (first || last) / 1000, last_at: last / 1000 };
  console.log(JSON.stringify(report));
}

// When the table has none left. While jobs come in nobody asks.
async function completed(database, handled) {
  let before = -1;
  for (;;) {
    if (handled() < count && handled() !== before) {
      before = handled();
      await sleep(100);
      continue;
    }
    const left = await database.query("SELECT 1 FROM graphile_worker._private_jobs LIMIT 1");
    if (left.rowCount === 0) return Date.now();
    // Another process has jobs to complete, too, and asking costs.
    await sleep(handled() < count ? 50 : 10);
  }
}

async function latency() {
  const now = () => performance.timeOrigin + performance.now();
  const handledAt = new Map();
  const taskList = { order: (payload) => handledAt.set(payload.order, now()) };
  const database = new pg.Client({ connectionString });
  await database.connect();
  const runner = await run({ preset, taskList, logger, noHandleSignals: true });
  const committedAt = new Map();
  const filler = "x".repeat(464);
  for (let order = 0; order <= count; order += 1) {
    await sleep(20 + Math.random() * 130);
    await database.query("SELECT graphile_worker.add_job('order', $1::json)", [JSON.stringify({ order, filler })]);
    committedAt.set(order, now());
  }
  while (handledAt.size < committedAt.size) await sleep(5);
  await runner.stop();
  await database.end();
  // The first one finds the worker starting.
  committedAt.delete(0);
  const waited = [...committedAt].map(([order, committed]) => handledAt.get(order) - committed).sort((a, b) => a - b);
  const at = (share) => waited[Math.min(waited.length - 1, Math.floor(waited.length * share))];
  console.log(JSON.stringify({ samples: count, p50_ms: at(0.5), p99_ms: at(0.99), max_ms: at(1), latencies_ms: waited }));
}

const commands = { migrate: () => runMigrations({ preset, logger }), drain, latency };
await commands[command]();
process.exit(0);
