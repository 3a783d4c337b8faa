// Receives events in Express, and with any server of Node's `http`.
import { readBody } from "./body.js";
import { Refused } from "./errors.js";
import { Inbox } from "./inbox.js";

/** Makes a request handler of a handler, which is called with the event and a client of `pg` in a transaction. */
export function receiver(options, handler) {
  const inbox = new Inbox(options);
  return async function receive(request, response) {
    const { status, text, headers } = await respond(inbox, request, handler);
    response.writeHead(status, { ...headers, "content-length": Buffer.byteLength(text) }).end(text);
  };
}

async function respond(inbox, request, handler) {
  let body;
  try {
    body = await bodyOf(request, inbox);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    return inbox.refuse(error);
  }
  return inbox.receive(request.rawHeaders, body, handler);
}

async function bodyOf(request, inbox) {
  // `express.raw()` keeps the bytes. Other parsers do not, and they leave nothing to read.
  if (Buffer.isBuffer(request.body)) return request.body;
  if (request.readableEnded || request.readableDidRead) {
    throw new Refused(500, "the body was parsed before the inbox could verify it; mount the receiver before express.json()");
  }
  return readBody(request, inbox);
}
