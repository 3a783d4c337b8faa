// The statements, in `sql/`: the same files as those of the other kits. And the meaning of PostgreSQL's errors.
import { readFileSync } from "node:fs";

const read = (name) => readFileSync(new URL(`../sql/${name}.sql`, import.meta.url), "utf8");

export const CREATE = read("create");
export const WAIT = read("wait");
export const RECORD = read("record");
export const RESTORE = read("restore");
export const CONFIRM = read("confirm");
export const CLEANUP = read("cleanup");

const CONFLICT = new Set(["40001", "40P01"]);
const LOCKED = "55P03";
// Shutting down, starting, ended by an administrator, idle for too long; read-only after a failover.
const DOWN = new Set(["57P01", "57P02", "57P03", "57P05", "25006", "25P03"]);
// Classes: connection, out of resources, system error.
const DOWN_CLASSES = new Set(["08", "53", "58"]);
const SOCKET = new Set(["ECONNREFUSED", "ECONNRESET", "EPIPE", "ETIMEDOUT", "ENOTFOUND", "EHOSTUNREACH", "EAI_AGAIN"]);
// What `pg` says of connections that are gone; these errors have no code.
const LOST = /^(Connection terminated|Client has encountered a connection error|timeout exceeded when trying to connect|Client was closed)/;

/** Returns what is wrong with the database ("conflict", "locked" or "down"), by the first cause of an error that says so. */
export function trouble(error) {
  const seen = new Set();
  for (let cause = error; cause instanceof Error && !seen.has(cause); cause = cause.cause) {
    seen.add(cause);
    const found = explain(cause);
    if (found) return found;
  }
  return undefined;
}

function explain({ code, message }) {
  if (CONFLICT.has(code)) return "conflict";
  if (code === LOCKED) return "locked";
  if (DOWN.has(code) || SOCKET.has(code) || LOST.test(message)) return "down";
  return typeof code === "string" && code.length === 5 && DOWN_CLASSES.has(code.slice(0, 2)) ? "down" : undefined;
}

/** Returns whether a commit failed by the handler's rows, as deferred constraints let it. */
export function isIntegrity(error) {
  return typeof error?.code === "string" && error.code.length === 5 && error.code.startsWith("23");
}
