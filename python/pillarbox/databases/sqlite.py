"""SQLite: lists are JSON texts; ids and moments are text, in another form than Django's.

Ids have dashes, and a moment is `2026-02-25T12:34:56.789Z`, so that the order of the text is the order of time.
"""

from __future__ import annotations

import datetime
import json
import os
import sqlite3
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from django.core.checks import CheckMessage, Error
from django.core.exceptions import ImproperlyConfigured
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from pillarbox.databases.base import ATTEMPTS_KEPT, Database, Rows

if TYPE_CHECKING:
    from pillarbox.store import Attempt, Verdict

# The core's statements use `->>`.
_OLDEST = (3, 38, 0)

# Django's functions that cut moments (`__date`, `datetimes()`, the admin's date hierarchy): how many values they take.
_FUNCTIONS = {
    "django_datetime_cast_date": 3,
    "django_datetime_cast_time": 3,
    "django_datetime_extract": 4,
    "django_datetime_trunc": 4,
}


class Sqlite(Database):
    folder = "sqlite"
    id_type = "text"
    moment_type = "text"
    clock = "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')"
    next_seq = "NULL"
    # Text that is no moment sorts before all moments or behind them.
    clamped = (
        "CASE WHEN {0} < '0001-01-02' THEN '0001-01-02T00:00:00.000Z' "
        "WHEN {0} > '9999-12-30' OR julianday({0}) IS NULL AND {0} IS NOT NULL THEN '9999-12-30T00:00:00.000Z' "
        "ELSE {0} END"
    )

    @staticmethod
    def id(value: uuid.UUID) -> str:
        return str(value)

    @staticmethod
    def moment(value: datetime.datetime) -> str:
        """UTC, milliseconds, cut and not rounded, as the core does."""
        if timezone.is_naive(value):
            value = timezone.make_aware(value)
        utc = value.astimezone(datetime.timezone.utc)
        return f"{utc.strftime('%Y-%m-%dT%H:%M:%S')}.{utc.microsecond // 1000:03}Z".rjust(24, "0")

    @staticmethod
    def read_moment(value: Any) -> datetime.datetime:
        return parse_datetime(value) if isinstance(value, str) else value

    def insert(self, columns: list[tuple[Any, ...]]) -> Rows:
        texts = [(str(row[0]), *row[1:8], row[8] and self.moment(row[8])) for row in columns]
        return [(row[0], row[1], row[5]) for row in self.run("emit", json.dumps(texts))]

    def patterns(self, patterns: Iterable[str]) -> str:
        return json.dumps([pattern.replace("[", "[[]").replace("?", "[?]") for pattern in patterns])

    def renew(self, ids: Sequence[uuid.UUID], token: uuid.UUID, lease: float) -> list[Any]:
        return [row[0] for row in self.run("renew", _pairs(ids, token), lease)]

    def release(self, ids: Sequence[uuid.UUID], token: uuid.UUID) -> None:
        self.run("release", _pairs(ids, token))

    def settle(self, id: uuid.UUID, seq: int, token: uuid.UUID, verdict: Verdict) -> bool:
        row = (str(id), str(token), verdict.change, verdict.attempts, verdict.after, None, verdict.error)
        return bool(self.run("settle", json.dumps([row])))

    def keep_attempt(self, id: uuid.UUID, failed: Attempt) -> None:
        row = (str(id), failed.destination[:255], failed.took_ms, None, failed.error, None, 1, 0)
        self.run("settle_attempts", json.dumps([row]))
        self.run("prune_attempts", _texts([id]), ATTEMPTS_KEPT)

    def retry(self, ids: Sequence[uuid.UUID]) -> Rows:
        due = json.dumps([row[0] for row in self.run("retry", _texts(ids), None)])
        self.run("retry_deliveries", due)
        return self.run("retry_answers", _texts(ids), due)

    def cleanup(self, delivered_after: float, failed_after: float, limit: int) -> int:
        rows = self.run("cleanup", delivered_after, failed_after, limit)
        ids = json.dumps([row[0] for row in rows])
        self.run("delete_attempts", ids)
        self.run("delete_deliveries", ids)
        return len(rows)

    @staticmethod
    def split(script: str) -> Iterator[str]:
        """One statement at a time; `executescript` would commit Django's transaction."""
        statement = ""
        for line in script.splitlines(keepends=True):
            statement += line
            if sqlite3.complete_statement(statement):
                yield statement.strip()
                statement = ""
        if statement.strip():
            yield statement.strip()

    def check(self) -> Iterator[CheckMessage]:
        if sqlite3.sqlite_version_info < _OLDEST:
            yield Error(
                f"SQLite {sqlite3.sqlite_version} is too old for the outbox: it needs 3.38 or newer.",
                id="pillarbox.E002",
            )

    def url(self) -> str:
        name = self.connection.settings_dict["NAME"]
        if self.connection.is_in_memory_db() or str(name).startswith("file:"):
            raise ImproperlyConfigured(f'the database "{self.connection.alias}" is not a file, but the relay needs one')
        return f"sqlite://{os.path.abspath(name)}"


def teach_moments(sender: Any, connection: BaseDatabaseWrapper, **kwargs: Any) -> None:
    """A receiver of `connection_created`: Django's functions learn the core's form of a moment."""
    if connection.vendor != "sqlite":
        return
    from django.db.backends.sqlite3 import _functions

    for name, count in _FUNCTIONS.items():
        function = getattr(_functions, name.replace("django_", "_sqlite_", 1))
        connection.connection.create_function(name, count, _taught(function), deterministic=True)


def _taught(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *values: function(*map(_django_form, values))


def _django_form(value: Any) -> Any:
    if isinstance(value, str) and len(value) == 24 and value[10] == "T" and value[23] == "Z":
        return f"{value[:10]} {value[11:23]}"
    return value


def _texts(ids: Iterable[uuid.UUID]) -> str:
    return json.dumps([str(id) for id in ids])


def _pairs(ids: Iterable[uuid.UUID], token: uuid.UUID) -> str:
    return json.dumps([(str(id), str(token)) for id in ids])
