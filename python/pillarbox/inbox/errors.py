"""The errors that a handler may raise, and those that `once` raises."""

from __future__ import annotations


class Never(Exception):
    """Raised by a handler that will never accept the event. The answer is 422, and the relay stops to send it."""


class InFlight(Exception):
    """Another transaction is handling the same event. Roll back, and take the event again later."""


class RolledBack(Exception):
    """The record of the event is no longer in the transaction: the handler ended it, or ignored an error that did."""


class Refused(Exception):
    """A request that does not reach the handler."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
