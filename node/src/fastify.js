// Receives events in Fastify.
import { readBody } from "./body.js";
import { Refused } from "./errors.js";
import { Inbox } from "./inbox.js";

/**
 * Makes a plugin of a handler, which is called with the event and a client of `pg` in a transaction. Register it with a prefix. Its
 * parsers are its own: other routes parse bodies as before.
 */
export function receiver(options, handler) {
  const inbox = new Inbox(options);
  return async function plugin(app) {
    app.removeAllContentTypeParsers();
    // The body is read by the route, so that Fastify's own limit does not answer in its place.
    app.addContentTypeParser("*", (request, payload, done) => done(null, payload));
    app.post("", async (request, reply) => {
      const { status, text, headers } = await respond(inbox, request, handler);
      return reply.code(status).headers(headers).send(text);
    });
  };
}

async function respond(inbox, request, handler) {
  try {
    const body = await readBody(request.body ?? request.raw, inbox);
    return await inbox.receive(request.raw.rawHeaders, body, handler);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    return inbox.refuse(error);
  }
}
