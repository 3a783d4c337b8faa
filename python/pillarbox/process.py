"""Process: deliver what is due to handlers in Python, for those who run no relay, or none for these events.

Claim, run the handlers outside of any transaction, settle; the same lease protocol as the relay's, so that any number
of workers and relays may do it at once.
"""

from __future__ import annotations

import logging
import random
import time
import uuid
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field

from django.conf import settings
from django.db import router, transaction

from pillarbox import handlers
from pillarbox.connection import close_if_broken
from pillarbox.mask import Shown
from pillarbox.models import OutboxEvent
from pillarbox.store import Attempt, Store, Verdict

logger = logging.getLogger("pillarbox")

BATCH_SIZE = 100
MAX_ATTEMPTS = 5
BASE_SECONDS = 60.0
CAP_SECONDS = 3600.0
JITTER = 0.1
LEASE_SECONDS = 300.0
# In bytes, as the core keeps them.
_ERROR_LIMIT = 2048


def process_pending_events(batch_size: int = BATCH_SIZE, *, using: str | None = None) -> dict[str, int]:
    """Runs the handlers of due events and answers how many were processed, and how many of theirs are still due.

    Only events that have a handler are taken; with the setting `PILLARBOX_UNHANDLED = "deliver"` the others too, and
    they count as delivered. A handler that raises has its event tried again later: after 60 s, then twice as long each
    time, up to an hour, until its attempts (5) are used up. A handler must end within half of the lease (300 s, or the
    setting `PILLARBOX_LEASE_SECONDS`), or another worker may take its event as well.
    """
    store = Store(using or router.db_for_write(OutboxEvent))
    patterns = ["*"] if handlers.takes_unhandled() else handlers.patterns()
    if not patterns:
        return {"processed": 0, "remaining": 0}
    close_if_broken(store.connection)
    round = _Round(store, getattr(settings, "PILLARBOX_LEASE_SECONDS", LEASE_SECONDS))
    try:
        processed = round.claim(patterns, batch_size)
        while round.events:
            round.process(round.events[0])
    finally:
        round.give_back()
    return {"processed": processed, "remaining": store.remaining(patterns)}


@dataclass
class _Round:
    """The events of one claim that are still to be settled, and how old their lease is."""

    store: Store
    lease: float
    token: uuid.UUID = field(default_factory=uuid.uuid4)
    events: list[OutboxEvent] = field(default_factory=list)
    since: float = 0.0

    def claim(self, patterns: list[str], limit: int) -> int:
        self.since = time.monotonic()
        self.events = self.store.claim(patterns, limit, self.lease, self.token)
        return len(self.events)

    def process(self, event: OutboxEvent) -> None:
        self._renew()
        if event not in self.events:
            return
        failed = _run(self.store, event)
        verdict = judge(event, failed, random.random())  # noqa: S311
        ours = self.store.settle(event, self.token, verdict, failed)
        self.events.remove(event)
        if not ours:
            logger.warning("pillarbox_lease_lost: event %s took longer than its lease; it will be sent again", event.pk)

    def give_back(self) -> None:
        """What an interrupt left unprocessed is due again at once."""
        if self.events:
            self.store.release([event.pk for event in self.events], self.token)

    def _renew(self) -> None:
        """Each handler has at least half of the lease before it."""
        if time.monotonic() - self.since < self.lease / 2:
            return
        self.since = time.monotonic()
        ours = self.store.renew([event.pk for event in self.events], self.token, self.lease)
        self.events = [event for event in self.events if event.pk in ours]


def judge(event: OutboxEvent, failed: Attempt | None, chance: float) -> Verdict:
    """What becomes of an event; `chance` is in [0, 1)."""
    if failed is None:
        return Verdict("deliver", event.attempts)
    attempts = event.attempts + 1
    limit = event.max_attempts if event.max_attempts is not None else MAX_ATTEMPTS
    if limit and attempts >= limit:
        return Verdict("fail", attempts, error=failed.error)
    return Verdict("retry", attempts, after=delay(attempts, chance), error=failed.error)


def delay(failures: int, chance: float) -> float:
    """How many seconds to wait after so many failures."""
    seconds = min(BASE_SECONDS * 2 ** min(failures - 1, 31), CAP_SECONDS)
    return seconds + seconds * JITTER * chance


def _run(store: Store, event: OutboxEvent) -> Attempt | None:
    """Runs an event's handlers one after another; answers the failed attempt, if one raises."""
    for handler in handlers.handlers_of(event.event_type):
        started = time.monotonic()
        # Inside a caller's transaction a statement that fails in a handler would take the settle with it.
        guard = transaction.atomic(using=store.alias) if store.connection.in_atomic_block else nullcontext()
        try:
            with guard:
                handler(event)
        except Exception as error:
            logger.exception("pillarbox_handler_failed: %s, event %s (%s)", _name(handler), event.pk, event.event_type)
            took = int((time.monotonic() - started) * 1000)
            return Attempt(_name(handler), took, Shown(event).text(_text(error)))
    return None


def _name(handler: Callable[..., object]) -> str:
    return f"{getattr(handler, '__module__', '?')}.{getattr(handler, '__qualname__', type(handler).__qualname__)}"


def _text(error: Exception) -> str:
    """What stands in the table; PostgreSQL's text has no NUL."""
    said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return said.replace("\0", "\\0").encode(errors="backslashreplace")[:_ERROR_LIMIT].decode(errors="ignore")
