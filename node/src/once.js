// Handles an event once, in a transaction of the caller, without HTTP: for consumers of Kafka, NATS and RabbitMQ.
import { InFlight, RolledBack } from "./errors.js";
import * as statements from "./statements.js";

// Shorter than a relay's timeout, which is 10 s by default.
export const WAIT = 5000;
// Longer than an outbox keeps a failed event, which is 30 days by default: until then, a person can retry it.
const KEEP_DAYS = 60;
// What PostgreSQL says of a savepoint without a transaction.
const NO_TRANSACTION = "25P01";
const LONGEST_ID = 255;
const LONGEST_CONSUMER = 100;
const NAME = /^[\x21-\x7e]+$/;

export const isId = (text) => typeof text === "string" && text.length <= LONGEST_ID && NAME.test(text);

export function checkConsumer(text) {
  if (typeof text !== "string" || text.length > LONGEST_CONSUMER || !NAME.test(text)) {
    throw new TypeError(`the name of a consumer has 1 to ${LONGEST_CONSUMER} visible ASCII characters, but is ${JSON.stringify(text)}`);
  }
  return text;
}

/**
 * Records the event and runs the handler, in the client's open transaction; returns false for a duplicate. The caller commits if
 * this resolves, and rolls back if it rejects. Without an open transaction it rejects, and writes nothing.
 */
export async function once(client, id, handler, { consumer, wait = WAIT }) {
  checkConsumer(consumer);
  if (!isId(id)) throw new TypeError(`the id of an event has 1 to ${LONGEST_ID} visible ASCII characters, but is ${JSON.stringify(id)}`);
  await checkTransaction(client);
  if (!(await record(client, consumer, id, wait))) return false;
  await handler();
  await confirm(client, consumer, id);
  return true;
}

/** Throws unless the client is in a transaction. A pool never is: it may use another client for each query. */
async function checkTransaction(client) {
  try {
    await client.query("SAVEPOINT pillarbox_inbox; RELEASE SAVEPOINT pillarbox_inbox");
  } catch (error) {
    if (error.code !== NO_TRANSACTION) throw error;
    throw new Error(
      "no transaction is open: the record would be committed before the handler runs, and an event whose handler fails would " +
        "be lost; call once() with a client, not a pool, after BEGIN",
      { cause: error },
    );
  }
}

/** Records the event; returns nothing for a duplicate, and otherwise the mark that `forget` knows the row by. Throws InFlight. */
export async function record(client, consumer, id, wait) {
  await client.query(statements.WAIT, [`${Math.max(1, Math.round(wait))}ms`]);
  let result;
  try {
    result = await client.query(statements.RECORD, [consumer, id]);
  } catch (error) {
    // A statement timeout that is shorter than the wait ends the same wait.
    if (statements.trouble(error) !== "locked" && !statements.isCancelled(error)) throw error;
    throw new InFlight(`the event ${id} is still being handled by another transaction`, { cause: error });
  }
  await client.query(statements.RESTORE);
  return result.rows[0]?.xmin;
}

/** Throws RolledBack if a commit would not record the event. */
export async function confirm(client, consumer, id) {
  let found;
  try {
    found = await client.query(statements.CONFIRM, [consumer, id]);
  } catch (error) {
    if (statements.trouble(error)) throw error;
    throw new RolledBack("the handler ignored an error of the database; the transaction cannot be committed", { cause: error });
  }
  if (!found.rowCount) throw new RolledBack("the handler ended the transaction that it was given; the inbox commits it");
}

/** Deletes the record with this mark if it is there after a rollback, and returns whether it was. */
export async function forget(client, consumer, id, mark) {
  const { rowCount } = await client.query(statements.COMMITTED, [consumer, id, mark]);
  if (rowCount) await client.query(statements.FORGET, [consumer, id, mark]);
  return rowCount > 0;
}

/** Creates the table `inbox_event` if it does not exist. */
export async function createTable(pool) {
  await pool.query(statements.CREATE);
}

/** Deletes records that are older than `keepDays`, in batches, and returns their number. */
export async function cleanup(pool, { keepDays = KEEP_DAYS, batch = 1000 } = {}) {
  if (!(batch >= 1)) throw new RangeError(`a batch of cleanup has at least 1 record, but batch is ${batch}`);
  let deleted = 0;
  for (;;) {
    const { rowCount } = await pool.query(statements.CLEANUP, [keepDays * 86400, batch]);
    deleted += rowCount;
    if (rowCount < batch) return deleted;
  }
}
