"""What differs between databases: the form of values, the number of statements that a verb takes, migrations, URLs.

One class per database. The statements stand in sql/. Nothing is decided here, and models are not known.
"""

from __future__ import annotations

import datetime
import json
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, ClassVar

from django.core.checks import CheckMessage
from django.db.backends.base.base import BaseDatabaseWrapper

from pillarbox import statements

if TYPE_CHECKING:
    from pillarbox.celery.record import Row as Task
    from pillarbox.store import Attempt, Verdict

# As the core has them.
LOSSES_BEFORE_ALONE = 2
LOSSES_BEFORE_FAILED = 7
ATTEMPTS_KEPT = 20
GIVEN_UP = (
    f"given up: {LOSSES_BEFORE_FAILED} relays died or hung while they had this event, the last ones while they had "
    "no other event; find the cause before you retry it"
)

Rows = list[tuple[Any, ...]]


class Database:
    """The outbox on one connection."""

    #: The folder of its statements.
    folder: ClassVar[str]
    #: Types of columns.
    id_type: ClassVar[str]
    moment_type: ClassVar[str]
    #: The clock, as every statement of the core reads it.
    clock: ClassVar[str]
    #: The value of `seq` in an INSERT, for which the database gives the next number.
    next_seq: ClassVar[str] = "DEFAULT"
    #: Reads a moment outside of Python's years as the first or the last one. `{0}` is the column.
    clamped: ClassVar[str] = "{0}"
    #: An id as text with dashes, for lookups on parts of it.
    id_text: ClassVar[str] = "{0}"
    #: What migrations create besides tables: kinds and names.
    beside_tables: ClassVar[tuple[tuple[str, str], ...]] = ()

    def __init__(self, connection: BaseDatabaseWrapper) -> None:
        self.connection = connection

    def run(self, name: str, *params: Any) -> Rows:
        """Runs a statement by its file's name and returns its rows, if it has any."""
        return statements.run(self.connection, self.folder, name, *params)

    # Values.

    @staticmethod
    def id(value: uuid.UUID) -> Any:
        """Returns an id as a parameter."""
        return value

    @staticmethod
    def moment(value: datetime.datetime) -> Any:
        """Returns a moment as a parameter."""
        return value

    @staticmethod
    def read_moment(value: Any) -> datetime.datetime:
        """Returns a moment that the database returned; a naive one is in the project's time zone."""
        return value

    # Errors.

    def is_lost(self, error: Exception) -> bool:
        """Returns whether an error by itself says that the connection can write no more."""
        return False

    def is_conflict(self, error: Exception) -> bool:
        """Returns whether an error has rolled back a transaction that may succeed if it is repeated."""
        return False

    # Verbs. Settle, retry and cleanup run in a transaction of the caller.

    def insert(self, columns: list[tuple[Any, ...]]) -> Rows:
        """Emits events; returns id, seq and creation time of the rows that were written.

        Others are duplicates or, if their keys are their own ids, in PostgreSQL's write-ahead log.
        """
        raise NotImplementedError

    def record(self, task: Task, *, is_woken: bool) -> None:
        """Records one Celery task that is due now; wakes a relay, unless the transaction has done so already."""
        name = "record" if is_woken else "record_and_wake"
        self.run(name, task.id, task.aggregate_id, task.task_name, task.payload, task.trace)

    def record_all(self, tasks: list[Task]) -> None:
        """Records many Celery tasks, as one JSON text: payloads are JSON already, and need not be escaped."""
        written = ",".join(
            f'{{"id":"{task.id}","aggregate_id":{json.dumps(task.aggregate_id)},'
            f'"event_type":{json.dumps(task.task_name)},"payload":{task.payload}'
            + (f',"headers":{task.trace}' if task.trace else "")
            + (f',"due":"{task.due}"' if task.due else "")
            + "}"
            for task in tasks
        )
        self.run("record_all", f"[{written}]")

    def claim(self, patterns: Iterable[str], limit: int, lease: float, token: uuid.UUID) -> list[Any]:
        """Fails events that were lost too often, takes due events of these types, and returns their ids."""
        self.run("sweep", LOSSES_BEFORE_FAILED, GIVEN_UP)
        values = (limit, lease, str(token), self.patterns(patterns), LOSSES_BEFORE_ALONE, LOSSES_BEFORE_FAILED)
        return [row[0] for row in self.run("claim_handled", *values)]

    def patterns(self, patterns: Iterable[str]) -> Any:
        """Returns patterns of event types as a parameter."""
        raise NotImplementedError

    def renew(self, ids: Sequence[uuid.UUID], token: uuid.UUID, lease: float) -> list[Any]:
        """Extends leases that still hold their events, and returns the ids of these."""
        raise NotImplementedError

    def release(self, ids: Sequence[uuid.UUID], token: uuid.UUID) -> None:
        """Gives events back at once."""
        raise NotImplementedError

    def settle(self, id: uuid.UUID, seq: int, token: uuid.UUID, verdict: Verdict) -> bool:
        """Settles an event if the lease still holds it, and returns whether it did."""
        raise NotImplementedError

    def keep_attempt(self, id: uuid.UUID, failed: Attempt) -> None:
        """Adds a failed attempt, and deletes the oldest beyond the limit."""
        raise NotImplementedError

    def retry(self, ids: Sequence[uuid.UUID]) -> Rows:
        """Makes events due; returns each id with `due`, `delivered` or `being_sent`."""
        raise NotImplementedError

    def cleanup(self, delivered_after: float, failed_after: float, limit: int) -> int:
        """Deletes one batch of terminal events and returns their number."""
        raise NotImplementedError

    def durable(self) -> None:
        """Undoes what a settle has set for the rest of the caller's transaction."""

    # Migrations.

    def migrating(self) -> AbstractContextManager[None]:
        """Prepares the session for migrations, and excludes other programs that migrate."""
        return nullcontext()

    def file(self, name: str) -> str:
        """Returns a file of DDL as this server takes it."""
        return statements.text(self.folder, name)

    def script(self, name: str) -> None:
        """Runs a file of DDL."""
        with self.connection.cursor() as cursor:
            for statement in self.split(self.file(name)):
                # Without parameters nothing in it is taken for a placeholder.
                cursor.execute(statement)

    @staticmethod
    def split(script: str) -> Iterable[str]:
        """Returns the parts of a script that can be run at once."""
        return [script]

    def complete(self) -> None:
        """Creates what is not in the numbered files."""

    def check_removal(self) -> None:
        """Refuses to remove the tables while something outside of them depends on them."""

    # Settings.

    def check(self) -> Iterator[CheckMessage]:
        """Returns what is wrong with the database's settings, without connecting."""
        return iter(())

    def url(self) -> str:
        """Returns the database of the settings for the program, password included. Raises ImproperlyConfigured."""
        raise NotImplementedError

    def schema_of(self, table: str) -> str | None:
        """Returns the schema in which the project finds the table; None where databases have no schemas."""
        return None
