// Receives one request: check, begin, record, handle, confirm, commit, answer. Knows no web framework.
import { setTimeout as sleep } from "node:timers/promises";
import { InFlight, Never, Refused, RolledBack } from "./errors.js";
import { Keys } from "./keys.js";
import { WAIT, checkConsumer, confirm, forget, isId, record } from "./once.js";
import { trouble } from "./statements.js";

// A payload has at most 1 MiB; a CloudEvents envelope is a little larger.
const MAX_BODY = 2 * 1024 * 1024;
const TOLERANCE = 300;
// How often a transaction is tried that ends in a deadlock or a serialisation failure.
const TRIES = 5;
// How long a connection and the begin of a transaction may take. With the wait of a duplicate, it is less than a relay's timeout.
const CONNECT = 3000;
// The beginning of the id of a test event, which the signature covers. No other event of Pillarbox has such an id.
const TEST_ID = "70696c6c-7465-8";
const SIGNED = ["webhook-id", "webhook-timestamp", "webhook-signature"];

/** Tells errors of the handler, and of the commit of its rows, from those of the inbox. The error is the cause. */
class HandlerFailed extends Error {
  // Whether the handler's connection is lost. If not, an error that says so is of another one.
  isLost = true;

  get trouble() {
    const found = trouble(this.cause);
    return found === "lost" && !this.isLost ? undefined : found;
  }
}

/** The database did not respond in time. */
class TimedOut extends Error {}

/** Verifies and answers the requests to one consumer. */
export class Inbox {
  #keys;

  constructor({
    pool, consumer, keys, tolerance = TOLERANCE, maxBody = MAX_BODY, wait = WAIT, tries = TRIES,
    clock = () => Date.now() / 1000, log = console.error,
  }) {
    if (!(tries >= 1)) throw new RangeError(`a transaction is tried at least once, but tries is ${tries}`);
    this.pool = pool;
    this.consumer = checkConsumer(consumer);
    this.#keys = new Keys(keys);
    Object.assign(this, { tolerance, maxBody, wait, tries, clock, log });
    // Without a listener, an idle connection that the database closes, as in a restart, would end the process.
    if (pool && pool.listenerCount?.("error") === 0) {
      pool.on("error", (error) => this.log(`inbox_connection_lost: consumer ${this.consumer}: an idle connection`, error));
    }
  }

  /** Returns the event of a request, or throws Refused. `rawHeaders` are names and values in turn, as Node has them. */
  check(rawHeaders, body) {
    if (body.length > this.maxBody) throw this.tooLarge();
    const found = new Map();
    for (let at = 0; at < rawHeaders.length; at += 2) {
      const name = rawHeaders[at].toLowerCase();
      found.set(name, [...(found.get(name) ?? []), rawHeaders[at + 1]]);
    }
    const [id, timestamp, signature] = SIGNED.map((name) => {
      const values = found.get(name) ?? [];
      if (values.length !== 1) throw new Refused(401, `${name} is ${values.length ? "there more than once" : "missing"}`);
      return values[0];
    });
    // A dot separates what is signed, and some servers join two headers with a comma.
    if (!isId(id) || /[.,]/.test(id)) throw new Refused(401, "webhook-id is not an id");
    if (!/^[1-9][0-9]{0,11}$/.test(timestamp)) throw new Refused(401, "webhook-timestamp is not a number of seconds");
    if (Math.abs(Math.floor(this.clock()) - Number(timestamp)) > this.tolerance) {
      throw new Refused(401, "webhook-timestamp is too far from the receiver's clock");
    }
    if (!this.#keys.verify(id, Number(timestamp), body, signature)) throw new Refused(401, "webhook-signature is not valid");
    const headers = Object.fromEntries([...found].map(([name, values]) => [name, values.join(", ")]));
    return new Event(id, Number(timestamp), body, headers);
  }

  /** Returns the response to a request. Never rejects. */
  async receive(rawHeaders, body, handler) {
    let event;
    try {
      event = this.check(rawHeaders, body);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      return this.refuse(error);
    }
    return this.handle(event, handler);
  }

  /** Returns the response to a request that does not reach the handler. */
  refuse(refused) {
    this.log(`inbox_refused: consumer ${this.consumer}: ${refused.message}`);
    return answer(refused.status, refused.message);
  }

  tooLarge() {
    return new Refused(413, `the body has more than ${this.maxBody} bytes`);
  }

  /** Handles a verified event, and repeats the transaction after a conflict. A test event is not handled. */
  async handle(event, handler) {
    if (event.isTest) return answer(200, "test event");
    for (let tried = 1; ; tried += 1) {
      let failure;
      try {
        return await this.#handleOnce(event, handler);
      } catch (error) {
        failure = error;
      }
      if (failure instanceof InFlight) {
        const seconds = Math.max(1, Math.round(this.wait / 1000));
        return answer(409, "the event is still being handled", { "retry-after": String(seconds) });
      }
      const isHandlers = failure instanceof HandlerFailed;
      const error = isHandlers ? failure.cause : failure;
      const found = isHandlers ? failure.trouble : trouble(error);
      if (found !== "conflict") return this.#failed(event, error, found, isHandlers);
      if (tried >= this.tries) {
        this.log(`inbox_conflict: event ${event.id}: ${tried} tries ended in a conflict`, error);
        return answer(503, "the receiver's database has too many conflicts");
      }
      await sleep((5 + Math.random() * 15) * 2 ** tried);
    }
  }

  async #handleOnce(event, handler) {
    const deadline = Date.now() + CONNECT;
    const client = await this.#connect(deadline);
    let broken, mark;
    // Without a listener, an error of the connection while the handler runs would end the process.
    const onError = (error) => { broken = error; };
    client.on("error", onError);
    try {
      await before(deadline, client.query("BEGIN"));
      mark = await record(client, this.consumer, event.id, this.wait);
      if (!mark) {
        await client.query("ROLLBACK");
        return answer(200, "duplicate");
      }
      await runHandler(event, client, handler);
      await confirm(client, this.consumer, event.id);
      await commit(client);
      return answer(200, "handled");
    } catch (error) {
      // A connection that does not respond cannot roll back; the server does.
      if (error instanceof TimedOut) broken ??= error;
      else await before(Date.now() + CONNECT, this.#undo(client, event, mark)).catch((lost) => { broken ??= lost; });
      // What the handler has done to the connection is not known.
      if (error instanceof RolledBack) broken ??= error;
      if (error instanceof HandlerFailed) error.isLost = broken !== undefined;
      throw error;
    } finally {
      client.off("error", onError);
      client.release(broken !== undefined);
    }
  }

  /**
   * Rolls back. The record of a handler that committed by itself and then failed is deleted: otherwise the next request would be a
   * duplicate, and the event lost.
   */
  async #undo(client, event, mark) {
    await client.query("ROLLBACK");
    if (mark && (await forget(client, this.consumer, event.id, mark))) {
      this.log(`inbox_committed: event ${event.id}: the handler committed by itself and then failed; its record is deleted`);
    }
  }

  /** Returns a client. One that arrives after the deadline goes back to the pool. */
  async #connect(deadline) {
    const connecting = this.pool.connect();
    try {
      return await before(deadline, connecting);
    } catch (error) {
      if (error instanceof TimedOut) connecting.then((client) => client.release(), () => {});
      throw error;
    }
  }

  #failed(event, error, found, isHandlers) {
    if (isHandlers && error instanceof Never) {
      this.log(`inbox_rejected: event ${event.id}: ${error.message}`);
      return answer(422, `the receiver will never accept the event: ${error.message}`);
    }
    if (!found && (isHandlers || error instanceof RolledBack)) {
      this.log(`inbox_handler_failed: event ${event.id}`, error);
      return answer(500, "the handler failed");
    }
    this.log(`inbox_unavailable: event ${event.id}`, error);
    return answer(503, "the receiver's database is not available");
  }
}

async function runHandler(event, client, handler) {
  try {
    await handler(event, client);
  } catch (error) {
    throw new HandlerFailed("the handler failed", { cause: error });
  }
}

/** What a commit refuses are the handler's rows, as deferred constraints and triggers do. */
async function commit(client) {
  try {
    await client.query("COMMIT");
  } catch (error) {
    throw new HandlerFailed("the commit failed", { cause: error });
  }
}

/** Returns the result of a promise, or throws TimedOut at the deadline. */
async function before(deadline, promise) {
  let timer;
  const timeout = new Promise((resolve, reject) => {
    timer = setTimeout(() => reject(new TimedOut("the database did not respond in time")), Math.max(0, deadline - Date.now()));
  });
  try {
    return await Promise.race([promise, timeout]);
  } finally {
    clearTimeout(timer);
  }
}

function answer(status, text, headers = {}) {
  return { status, text, headers: { "content-type": "text/plain; charset=utf-8", ...headers } };
}

/** A verified event. The signature covers `id`, `timestamp` and `body`, and none of the other headers. */
class Event {
  constructor(id, timestamp, body, headers) {
    Object.assign(this, { id, timestamp, body, headers });
  }

  get type() {
    return decoded(this.headers["pillarbox-event-type"]);
  }

  get aggregateType() {
    return decoded(this.headers["pillarbox-aggregate-type"]);
  }

  get aggregateId() {
    return decoded(this.headers["pillarbox-aggregate-id"]);
  }

  /** The header alone would not do: the signature does not cover it. */
  get isTest() {
    return this.id.startsWith(TEST_ID) && this.headers["pillarbox-test"] === "true";
  }

  json() {
    return JSON.parse(this.body.toString());
  }
}

function decoded(text = "") {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
