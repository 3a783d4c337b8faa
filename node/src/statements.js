// The statements, in `sql/`: the same files as those of the other kits. And the meaning of PostgreSQL's errors.
import { readFileSync } from "node:fs";

const read = (name) => readFileSync(new URL(`../sql/${name}.sql`, import.meta.url), "utf8");

export const CREATE = read("create");
export const WAIT = read("wait");
export const RECORD = read("record");
export const RESTORE = read("restore");
export const CONFIRM = read("confirm");
export const COMMITTED = read("committed");
export const FORGET = read("forget");
export const CLEANUP = read("cleanup");

const CONFLICT = new Set(["40001", "40P01"]);
const LOCKED = "55P03";
// A statement timeout, or an administrator.
const CANCELLED = "57014";
// Shutting down, starting, ended by an administrator, idle for too long, too many connections.
const LOST_STATES = new Set(["57P01", "57P02", "57P03", "57P05", "25P03", "53300"]);
// Read-only after a failover.
const READ_ONLY = "25006";
// Classes: out of resources, system error.
const DOWN_CLASSES = new Set(["53", "58"]);
const CONNECTION_CLASS = "08";
const SOCKET = new Set(["ECONNREFUSED", "ECONNRESET", "EPIPE", "ETIMEDOUT", "ENOTFOUND", "EHOSTUNREACH", "EAI_AGAIN"]);
// What `pg` says of connections that are gone; these errors have no code.
const LOST = /^(Connection terminated|Client has encountered a connection error|timeout exceeded when trying to connect|Client was closed)/;

/**
 * Returns what is wrong with the database, by the first cause of an error that says so: "conflict", "locked", "down", or "lost"
 * without a connection. An error of a handler that says "lost" may be of another connection, which is not to a database at all.
 */
export function trouble(error) {
  for (const cause of causes(error)) {
    const found = explain(cause);
    if (found) return found;
  }
  return undefined;
}

/** Returns whether the server has ended a statement that took too long, or that an administrator has cancelled. */
export function isCancelled(error) {
  return [...causes(error)].some(({ code }) => code === CANCELLED);
}

function* causes(error) {
  const seen = new Set();
  for (let cause = error; cause instanceof Error && !seen.has(cause); cause = cause.cause) {
    seen.add(cause);
    yield cause;
  }
}

function explain({ code, message }) {
  if (CONFLICT.has(code)) return "conflict";
  if (code === LOCKED) return "locked";
  if (LOST_STATES.has(code) || SOCKET.has(code) || LOST.test(message)) return "lost";
  if (code === READ_ONLY) return "down";
  const state = typeof code === "string" && code.length === 5 ? code.slice(0, 2) : undefined;
  if (state === CONNECTION_CLASS) return "lost";
  return DOWN_CLASSES.has(state) ? "down" : undefined;
}
