// The errors that a handler may throw, and those that `once` throws.

/** Thrown by a handler that will never accept the event. The answer is 422, and the relay stops to send it. */
export class Never extends Error {
  name = "Never";
}

/** Another transaction is handling the same event. Roll back, and take the event again later. */
export class InFlight extends Error {
  name = "InFlight";
}

/** The record of the event is no longer in the transaction: the handler ended it, or ignored an error that did. */
export class RolledBack extends Error {
  name = "RolledBack";
}

/** A request that does not reach the handler. */
export class Refused extends Error {
  name = "Refused";

  constructor(status, reason) {
    super(reason);
    this.status = status;
  }
}
