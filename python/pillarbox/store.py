"""The store: claim, renew, settle, release, retry and cleanup in Python, by the same lease protocol as the relay.

A claim writes a token and the end of the lease into the row; a settle changes the row only if the token is still there.
The statements stand in sql/; here PostgreSQL's arrays and SQLite's JSON are told apart, and nothing is decided.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.db import connections, transaction

from pillarbox import statements
from pillarbox.connection import run_write
from pillarbox.models import OutboxEvent

# As the core has them.
LOSSES_BEFORE_ALONE = 2
LOSSES_BEFORE_FAILED = 7
ATTEMPTS_KEPT = 20
_GIVEN_UP = (
    f"given up: {LOSSES_BEFORE_FAILED} relays died or hung while they had this event, the last ones while they had "
    "no other event; find the cause before you retry it"
)


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
        self.lite = self.connection.vendor == "sqlite"

    def claim(self, patterns: Iterable[str], limit: int, lease: float, token: uuid.UUID) -> list[OutboxEvent]:
        """Takes due events of these types for so many seconds, those first that were written first."""
        statements.run(self.connection, "sweep", LOSSES_BEFORE_FAILED, _GIVEN_UP)
        types = self._patterns(patterns)
        rows = statements.run(
            self.connection,
            "claim_handled",
            *(limit, lease, str(token), types, LOSSES_BEFORE_ALONE, LOSSES_BEFORE_FAILED),
        )
        ids = [row[0] for row in rows]
        return list(OutboxEvent.objects.using(self.alias).filter(pk__in=ids).order_by("seq"))

    def remaining(self, patterns: Iterable[str]) -> int:
        """How many of these types are due."""
        return statements.run(self.connection, "remaining_handled", self._patterns(patterns))[0][0]

    def renew(self, ids: Sequence[uuid.UUID], token: uuid.UUID, lease: float) -> set[uuid.UUID]:
        """Makes leases last longer, and answers those that are still ours."""
        rows = self._write("renew", *self._held(ids, token), lease)
        return {as_uuid(row[0]) for row in rows}

    def release(self, ids: Sequence[uuid.UUID], token: uuid.UUID) -> None:
        """Gives events back at once."""
        self._write("release", *self._held(ids, token))

    def settle(self, id: uuid.UUID, token: uuid.UUID, verdict: Verdict, failed: Attempt | None = None) -> bool:
        """Writes what became of an event, if its lease is still ours; answers whether it was.

        The connection may have broken while the handler ran: then it is written on a new one.
        """
        return run_write(self.connection, partial(self._settle, id, token, verdict, failed))

    def _settle(self, id: uuid.UUID, token: uuid.UUID, verdict: Verdict, failed: Attempt | None) -> bool:
        row = (str(id), str(token), verdict.change, verdict.attempts, verdict.after, None, verdict.error)
        params = [json.dumps([row])] if self.lite else [[value] for value in row]
        in_a_transaction = self.connection.in_atomic_block
        with transaction.atomic(using=self.alias):
            ours = bool(statements.run(self.connection, "settle", *params))
            if ours and failed is not None:
                self._keep(id, failed)
            if in_a_transaction and not self.lite:
                # A settle may be lost in a crash; what the caller's transaction wrote may not.
                with self.connection.cursor() as cursor:
                    cursor.execute("SELECT set_config('synchronous_commit', 'on', true)")
        return ours

    def retry(self, ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, str]:
        """Makes events due now with all their attempts before them, and answers `due`, `delivered` or `being_sent`."""
        ids = list(ids)
        with transaction.atomic(using=self.alias):
            if not self.lite:
                return {as_uuid(id): answer for id, answer in statements.run(self.connection, "retry", ids, None)}
            names = json.dumps([str(id) for id in ids])
            due = [row[0] for row in statements.run(self.connection, "retry", names, None)]
            statements.run(self.connection, "retry_deliveries", json.dumps(due))
        statuses = OutboxEvent.objects.using(self.alias).filter(pk__in=ids).values_list("id", "status")
        again = {as_uuid(id) for id in due}
        return {
            id: "due" if id in again else "delivered" if status == "delivered" else "being_sent"
            for id, status in statuses
        }

    def cleanup(self, delivered_after: float, failed_after: float, limit: int) -> int:
        """Deletes one batch of events that became terminal so many seconds ago, with all that is kept of them."""
        with transaction.atomic(using=self.alias):
            if not self.lite:
                values = (delivered_after, failed_after, limit, "-infinity", "-infinity")
                return statements.run(self.connection, "cleanup", *values)[0][0]
            rows = statements.run(self.connection, "cleanup", delivered_after, failed_after, limit)
            ids = json.dumps([row[0] for row in rows])
            statements.run(self.connection, "delete_attempts", ids)
            statements.run(self.connection, "delete_deliveries", ids)
            return len(rows)

    def cleanup_remaining(self, delivered_after: float, failed_after: float) -> int:
        """How many are old enough and still there."""
        return statements.run(self.connection, "cleanup_remaining", delivered_after, failed_after)[0][0]

    def _write(self, name: str, *params: Any) -> list[tuple[Any, ...]]:
        return run_write(self.connection, partial(statements.run, self.connection, name, *params))

    def _keep(self, id: uuid.UUID, failed: Attempt) -> None:
        row = (id, failed.destination[:255], failed.took_ms, None, failed.error, None, 1)
        if self.lite:
            statements.run(self.connection, "settle_attempts", json.dumps([(str(id), *row[1:])]))
            statements.run(self.connection, "prune_attempts", json.dumps([str(id)]), ATTEMPTS_KEPT)
        else:
            statements.run(self.connection, "settle_attempts", *([value] for value in row), ATTEMPTS_KEPT)

    def _held(self, ids: Sequence[uuid.UUID], token: uuid.UUID) -> list[Any]:
        if self.lite:
            return [json.dumps([(str(id), str(token)) for id in ids])]
        return [[str(id) for id in ids], [str(token)] * len(ids)]

    def _patterns(self, patterns: Iterable[str]) -> Any:
        return json.dumps([_glob(p) for p in patterns]) if self.lite else [_like(p) for p in patterns]


def as_uuid(value: Any) -> uuid.UUID:
    """An id as a database answered it."""
    return value if isinstance(value, uuid.UUID) else uuid.UUID(value)


def _like(pattern: str) -> str:
    for special in ("\\", "%", "_"):
        pattern = pattern.replace(special, "\\" + special)
    return pattern.replace("*", "%")


def _glob(pattern: str) -> str:
    return pattern.replace("[", "[[]").replace("?", "[?]")
