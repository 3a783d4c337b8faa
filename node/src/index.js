// Receives events: verifies the signature, records the event in the handler's transaction, handles it, and answers.
export { InFlight, Never, RolledBack } from "./errors.js";
export { Inbox } from "./inbox.js";
export { InvalidKey } from "./keys.js";
export { cleanup, createTable, once } from "./once.js";
