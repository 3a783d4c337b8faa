import type { ClientBase, Pool, PoolClient } from "pg";

/** A verified event. The signature covers `id`, `timestamp` and `body`, and none of the other headers. */
export interface Event {
  /** The value of `webhook-id`: the same in each attempt. */
  readonly id: string;
  /** When this attempt was signed, in seconds since 1970. */
  readonly timestamp: number;
  /** The body as it arrived. */
  readonly body: Buffer;
  /** By names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  /** Such as `order.placed`. */
  readonly type: string;
  readonly aggregateType: string;
  readonly aggregateId: string;
  /** Whether this is a test event of Pillarbox. An inbox answers it without the handler. */
  readonly isTest: boolean;
  /** Parses the body. */
  json<T = unknown>(): T;
}

/** Runs in the transaction of the client. The inbox commits it; an error rolls it back. */
export type Handler = (event: Event, client: PoolClient) => unknown;

export interface Options {
  /** If nothing listens to its event `error`, the inbox logs these errors: otherwise a lost idle connection would end the process. */
  pool: Pool;
  /** The key is the consumer and the id: two consumers on one database do not hide each other's events. */
  consumer: string;
  /** Secrets (`whsec_…`) and public keys (`whpk_…`). During a rotation there are several. */
  keys: string | Iterable<string>;
  /** How far a timestamp may be from the receiver's clock, in seconds. Default: 300. */
  tolerance?: number;
  /** The largest body, in bytes. Default: 2 MiB. */
  maxBody?: number;
  /** How long a duplicate waits for the one that is being handled, in milliseconds. Default: 5000. */
  wait?: number;
  /** How often a transaction is tried that ends in a deadlock or a serialisation failure. Default: 5. */
  tries?: number;
  /** The time in seconds since 1970, for tests. */
  clock?: () => number;
  /** Default: `console.error`. */
  log?: (message: string, error?: unknown) => void;
}

export interface Answer {
  status: number;
  text: string;
  headers: Record<string, string>;
}

/** Verifies and answers the requests to one consumer. */
export class Inbox {
  constructor(options: Options);
  /** Returns the event of a request, or throws. `rawHeaders` are names and values in turn, as Node has them. */
  check(rawHeaders: readonly string[], body: Buffer): Event;
  /** Returns the response to a request. */
  receive(rawHeaders: readonly string[], body: Buffer, handler: Handler): Promise<Answer>;
  /** Handles a verified event. */
  handle(event: Event, handler: Handler): Promise<Answer>;
}

/** Thrown by a handler that will never accept the event. The answer is 422, and the relay stops to send it. */
export class Never extends Error {}
/** Another transaction is handling the same event. Roll back, and take the event again later. */
export class InFlight extends Error {}
/** The record of the event is no longer in the transaction: the handler ended it, or ignored an error that did. */
export class RolledBack extends Error {}
/** A key that cannot be used. The message does not show it. */
export class InvalidKey extends Error {}

/**
 * Records the event and runs the handler, in the client's open transaction; returns false for a duplicate. The caller commits if
 * this resolves, and rolls back if it rejects. Without an open transaction it rejects, and writes nothing.
 */
export function once(client: ClientBase, id: string, handler: () => unknown, options: { consumer: string; wait?: number }): Promise<boolean>;

/** Creates the table `inbox_event` if it does not exist. */
export function createTable(pool: Pool | ClientBase): Promise<void>;

/** Deletes records that are older than `keepDays` (default: 60), in batches, and returns their number. */
export function cleanup(pool: Pool | ClientBase, options?: { keepDays?: number; batch?: number }): Promise<number>;
