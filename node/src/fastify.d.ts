import type { FastifyInstance } from "fastify";
import type { Handler, Options } from "./index.js";

/** Makes a plugin for Fastify: `app.register(receiver(options, handler), { prefix: "/events" })`. */
export function receiver(options: Options, handler: Handler): (app: FastifyInstance) => Promise<void>;
