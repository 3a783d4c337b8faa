import type { IncomingMessage, ServerResponse } from "node:http";
import type { Handler, Options } from "./index.js";

/** Makes a request handler for Express, or for any server of Node's `http`. Mount it before `express.json()`. */
export function receiver(options: Options, handler: Handler): (request: IncomingMessage, response: ServerResponse) => Promise<void>;
