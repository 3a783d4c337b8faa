"""Receives one request: check, begin, record, handle, confirm, commit, answer. Knows no web framework and no driver."""

from __future__ import annotations

import logging
import math
import random
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from pillarbox.inbox.databases import Session, Trouble, trouble
from pillarbox.inbox.errors import InFlight, Never, Refused, RolledBack
from pillarbox.inbox.event import Event, check_consumer, is_id
from pillarbox.inbox.keys import Keys
from pillarbox.inbox.once import WAIT, check_result, confirm, record

logger = logging.getLogger("pillarbox.inbox")

#: A payload has at most 1 MiB; a CloudEvents envelope is a little larger.
MAX_BODY = 2 * 1024 * 1024
#: What is read and dropped of a body that is too large. A connection that is closed before that may lose the answer.
MOST_DROPPED = 16 * 1024 * 1024
TOLERANCE = 300
#: How often a transaction is tried that ends in a deadlock or a serialisation failure.
TRIES = 5
_SIGNED = ("webhook-id", "webhook-timestamp", "webhook-signature")

Transaction = Callable[[], AbstractContextManager[Session]]
"""Begins a transaction. It is committed when the context ends, and rolled back when an exception ends it."""


@dataclass(frozen=True)
class Answer:
    """What the receiver responds. The text is for people: the relay keeps it with a failure."""

    status: int
    text: str
    headers: dict[str, str] = field(default_factory=dict)


class _HandlerFailed(Exception):
    """Tells errors of the handler, and of the commit of its rows, from those of the inbox. The error is the cause."""

    def __init__(self, is_lost: bool) -> None:
        super().__init__()
        #: Whether the handler's connection is lost.
        self.is_lost = is_lost


class Inbox:
    """Verifies and answers the requests to one consumer."""

    def __init__(
        self,
        consumer: str,
        keys: str | Iterable[str],
        *,
        tolerance: float = TOLERANCE,
        max_body: int = MAX_BODY,
        wait: float = WAIT,
        tries: int = TRIES,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if tries < 1:
            raise ValueError(f"a transaction is tried at least once, but tries is {tries!r}")
        self.consumer = check_consumer(consumer)
        self.keys = Keys(keys)
        self.tolerance = tolerance
        self.max_body = max_body
        self.wait = wait
        self.tries = tries
        self.clock = clock

    def check_length(self, length: int) -> None:
        """Raises Refused if a body is too large."""
        if length > self.max_body:
            raise Refused(413, f"the body has more than {self.max_body} bytes")

    def check(self, headers: Iterable[tuple[str, str]], body: bytes) -> Event:
        """Returns the event of a request. Raises Refused."""
        self.check_length(len(body))
        found: dict[str, list[str]] = {}
        for name, value in headers:
            found.setdefault(name.lower(), []).append(value)
        for name in _SIGNED:
            if len(found.get(name, ())) != 1:
                raise Refused(401, f"{name} is missing" if name not in found else f"{name} is there more than once")
        id, timestamp, signature = (found[name][0] for name in _SIGNED)
        # A dot separates what is signed, and some servers join two headers with a comma.
        if not is_id(id) or "." in id or "," in id:
            raise Refused(401, "webhook-id is not an id")
        if not timestamp.isascii() or not timestamp.isdecimal() or len(timestamp) > 12 or timestamp.startswith("0"):
            raise Refused(401, "webhook-timestamp is not a number of seconds")
        # The timestamp has whole seconds, so the fraction of the clock is dropped.
        if abs(math.floor(self.clock()) - int(timestamp)) > self.tolerance:
            raise Refused(401, "webhook-timestamp is too far from the receiver's clock")
        if not signature.isascii() or not self.keys.verify(id, int(timestamp), body, signature):
            raise Refused(401, "webhook-signature is not valid")
        return Event(id, int(timestamp), body, {name: ", ".join(values) for name, values in found.items()})

    def receive(
        self,
        headers: Iterable[tuple[str, str]],
        body: bytes,
        transaction: Transaction,
        handler: Callable[[Event, Session], object],
    ) -> Answer:
        """Returns the response to a request. Raises nothing but what is no Exception."""
        try:
            event = self.check(headers, body)
        except Refused as refused:
            return self.refuse(refused)
        return self.handle(event, transaction, handler)

    def refuse(self, refused: Refused) -> Answer:
        """Returns the response to a request that does not reach the handler."""
        logger.warning("inbox_refused: consumer %s: %s", self.consumer, refused.reason)
        return Answer(refused.status, refused.reason)

    def handle(self, event: Event, transaction: Transaction, handler: Callable[[Event, Session], object]) -> Answer:
        """Handles a verified event, and repeats the transaction after a conflict. A test event is not handled."""
        if event.is_test:
            logger.info("inbox_test: consumer %s: test event %s verified", self.consumer, event.id)
            return Answer(200, "test event")
        for tried in range(1, self.tries + 1):
            try:
                return self._handle_once(event, transaction, handler)
            except InFlight:
                seconds = max(1, round(self.wait))
                return Answer(409, "the event is still being handled", {"Retry-After": str(seconds)})
            except _HandlerFailed as failed:
                error, is_handlers = failed.__cause__ or failed, True
                found = trouble(error)
                # Another database, or a service, that the handler could not reach.
                if found is Trouble.LOST and not failed.is_lost:
                    found = None
            except Exception as failed:
                error, is_handlers, found = failed, False, trouble(failed)
            if found is not Trouble.CONFLICT:
                return self._failed(event, error, found, is_handlers)
            if tried < self.tries:
                time.sleep(random.uniform(0.005, 0.02) * 2**tried)  # noqa: S311
        logger.error("inbox_conflict: event %s: %d tries ended in a conflict: %s", event.id, self.tries, error)
        return Answer(503, "the receiver's database has too many conflicts")

    def _handle_once(
        self, event: Event, transaction: Transaction, handler: Callable[[Event, Session], object]
    ) -> Answer:
        is_confirmed = False
        try:
            with transaction() as session:
                if not record(session, self.consumer, event.id, self.wait):
                    return Answer(200, "duplicate")
                try:
                    check_result(handler(event, session))
                except Exception as error:
                    raise _HandlerFailed(trouble(error) is Trouble.LOST and session.is_lost()) from error
                confirm(session, self.consumer, event.id)
                is_confirmed = True
        except Exception as error:
            # What a commit refuses are the handler's rows, as deferred constraints and triggers do.
            if is_confirmed:
                raise _HandlerFailed(is_lost=True) from error
            raise
        return Answer(200, "handled")

    def _failed(self, event: Event, error: BaseException, found: Trouble | None, is_handlers: bool) -> Answer:
        """Returns the response to a transaction that was rolled back."""
        if isinstance(error, Never) and is_handlers:
            logger.warning("inbox_rejected: event %s: %s", event.id, error)
            return Answer(422, f"the receiver will never accept the event: {error}")
        if found is None and (is_handlers or isinstance(error, RolledBack)):
            logger.error("inbox_handler_failed: event %s", event.id, exc_info=error)
            return Answer(500, "the handler failed")
        logger.error("inbox_unavailable: event %s", event.id, exc_info=error)
        return Answer(503, "the receiver's database is not available")
