"""The store: claim, renew, settle, release, retry and cleanup in Python, by the same lease protocol as the relay.

A claim writes a token and the end of the lease into the row; a settle changes the row only if the token is still there.
The statements stand in sql/, and what differs between databases in `pillarbox.databases`; nothing is decided here.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from django.db import connections, transaction

from pillarbox import databases
from pillarbox.connection import repeat_conflicts, run_write
from pillarbox.ids import as_uuid
from pillarbox.models import OutboxEvent

T = TypeVar("T")


@dataclass(frozen=True)
class Verdict:
    """What became of an event: `deliver`, `retry` after some seconds, or `fail`."""

    change: str
    attempts: int
    after: float = 0.0
    error: str = ""


@dataclass(frozen=True)
class Attempt:
    """A failed attempt, for people to look at."""

    destination: str
    took_ms: int
    error: str


class Store:
    """The outbox in one database."""

    def __init__(self, alias: str) -> None:
        self.alias = alias
        self.connection = connections[alias]
        self.database = databases.of(self.connection)

    def claim(self, patterns: Iterable[str], limit: int, lease: float, token: uuid.UUID) -> list[OutboxEvent]:
        """Takes due events of these types for so many seconds, those first that were written first."""
        claim = partial(self.database.claim, patterns, limit, lease, token)
        ids = list(map(as_uuid, repeat_conflicts(self.connection, claim)))
        return list(OutboxEvent.objects.using(self.alias).filter(pk__in=ids).order_by("seq"))

    def remaining(self, patterns: Iterable[str]) -> int:
        """How many of these types are due."""
        return self.database.run("remaining_handled", self.database.patterns(patterns))[0][0]

    def renew(self, ids: Sequence[uuid.UUID], token: uuid.UUID, lease: float) -> set[uuid.UUID]:
        """Makes leases last longer, and answers those that are still ours."""
        renew = partial(self.database.renew, ids, token, lease)
        return set(map(as_uuid, run_write(self.connection, renew)))

    def release(self, ids: Sequence[uuid.UUID], token: uuid.UUID) -> None:
        """Gives events back at once."""
        run_write(self.connection, partial(self.database.release, ids, token))

    def settle(self, event: OutboxEvent, token: uuid.UUID, verdict: Verdict, failed: Attempt | None = None) -> bool:
        """Writes what became of an event, if its lease is still ours; answers whether it was.

        The connection may have broken while the handler ran: then it is written on a new one.
        """
        return run_write(self.connection, partial(self._settle, event, token, verdict, failed))

    def _settle(self, event: OutboxEvent, token: uuid.UUID, verdict: Verdict, failed: Attempt | None) -> bool:
        in_a_transaction = self.connection.in_atomic_block
        with transaction.atomic(using=self.alias):
            ours = self.database.settle(event.pk, event.seq, token, verdict)
            if ours and failed is not None:
                self.database.keep_attempt(event.pk, failed)
            if in_a_transaction:
                self.database.durable()
        return ours

    def retry(self, ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, str]:
        """Makes events due now with all their attempts before them, and answers `due`, `delivered` or `being_sent`."""
        answers = self._together(partial(self.database.retry, list(ids)))
        return {as_uuid(id): answer for id, answer in answers}

    def cleanup(self, delivered_after: float, failed_after: float, limit: int) -> int:
        """Deletes one batch of events that became terminal so many seconds ago, with all that is kept of them."""
        return self._together(partial(self.database.cleanup, delivered_after, failed_after, limit))

    def cleanup_remaining(self, delivered_after: float, failed_after: float) -> int:
        """How many are old enough and still there."""
        return self.database.run("cleanup_remaining", delivered_after, failed_after)[0][0]

    def _together(self, verb: Callable[[], T]) -> T:
        """Runs the statements of a verb in one transaction."""

        def run() -> T:
            with transaction.atomic(using=self.alias):
                return verb()

        return repeat_conflicts(self.connection, run)
