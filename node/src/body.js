// Reads the body of a request as it arrives, byte for byte.
import { Refused } from "./errors.js";

// What is read and dropped of a body that is too large. A connection that is closed before that may lose the answer.
const MOST_DROPPED = 16 * 1024 * 1024;

/** Returns the body, or throws Refused. Keeps no more than the limit. */
export async function readBody(request, inbox) {
  const kept = [];
  let length = 0;
  try {
    for await (const chunk of request) {
      length += chunk.length;
      if (length <= inbox.maxBody) kept.push(chunk);
      else if (length > MOST_DROPPED) break;
    }
  } catch {
    throw new Refused(400, "the body is not complete");
  }
  if (length > inbox.maxBody) throw inbox.tooLarge();
  return Buffer.concat(kept);
}
