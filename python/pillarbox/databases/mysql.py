"""MariaDB and MySQL: lists are JSON texts, ids are bytes, moments are in UTC, and DDL commits by itself.

No statement that changes rows returns them. So rows are locked and read first, in the same transaction.
"""

from __future__ import annotations

import datetime
import json
import logging
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import django
from django.core.checks import CheckMessage, Warning
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError, IntegrityError, NotSupportedError, OperationalError, transaction
from django.utils import timezone

from pillarbox import statements
from pillarbox.databases.base import (
    ATTEMPTS_KEPT,
    GIVEN_UP,
    LOSSES_BEFORE_ALONE,
    LOSSES_BEFORE_FAILED,
    Database,
    Rows,
)
from pillarbox.databases.postgres import like
from pillarbox.ids import as_uuid

if TYPE_CHECKING:
    from pillarbox.celery.record import Row as Task
    from pillarbox.store import Attempt, Verdict

logger = logging.getLogger("pillarbox")

# As the core has them.
_OLDEST_MARIADB = (10, 6, 0)
_OLDEST_MYSQL = (8, 0, 19)
_MIGRATING_SECONDS = 20

_DUPLICATE = 1062
_PROCEDURE_EXISTS = 1304
_NO_RIGHT = {1044, 1142, 1227, 1370}
_DEADLOCK, _LOCK_TIMEOUT = 1213, 1205
#: The server has closed the connection, or is about to: gone away, lost, killed, shutting down, idle for too long.
_LOST = {2006, 2013, 2055, 1053, 1927, 3169, 4031}
#: A write on a server that is a replica, or has become one.
_READ_ONLY = {1290, 1792, 1836}


class Mysql(Database):
    folder = "mysql"
    id_type = "binary(16)"
    moment_type = "datetime(6)"
    clock = "utc_timestamp(6)"
    clamped = "least(greatest({0}, TIMESTAMP'0001-01-02 00:00:00'), TIMESTAMP'9999-12-30 00:00:00')"
    id_text = "lower(insert(insert(insert(insert(hex({0}), 9, 0, '-'), 14, 0, '-'), 19, 0, '-'), 24, 0, '-'))"
    beside_tables = (("PROCEDURE", "outbox_emit"),)

    @staticmethod
    def id(value: uuid.UUID) -> bytes:
        return value.bytes

    @staticmethod
    def moment(value: datetime.datetime) -> str:
        """As text, because not every driver writes microseconds."""
        if timezone.is_naive(value):
            value = timezone.make_aware(value)
        utc = value.astimezone(datetime.timezone.utc)
        return utc.replace(tzinfo=None).isoformat(" ", "microseconds")

    @staticmethod
    def read_moment(value: Any) -> datetime.datetime:
        """Whatever zone Django takes it for, it is UTC."""
        return value.replace(tzinfo=datetime.timezone.utc)

    def is_lost(self, error: Exception) -> bool:
        return _number(error) in _LOST | _READ_ONLY

    def is_conflict(self, error: Exception) -> bool:
        return isinstance(error, OperationalError) and _number(error) in (_DEADLOCK, _LOCK_TIMEOUT)

    def insert(self, columns: list[tuple[Any, ...]]) -> Rows:
        rows = [(*row[:8], None if row[8] is None else self.moment(row[8])) for row in columns]
        if len(rows) == 1:
            return self._insert_one(*rows[0])
        given = _json([(row[0].hex, *row[1:]) for row in rows])
        self.run("emit", given)
        return [(row[0], row[1], row[5]) for row in self.run("emit_written", given)]

    def _insert_one(self, id: uuid.UUID, *row: Any) -> Rows:
        try:
            self.run("emit_one", id.bytes, *row)
        except IntegrityError as error:
            # It has rolled back the statement, and not the transaction.
            if _number(error) != _DUPLICATE:
                raise
            return []
        return [(id, *place) for place in self.run("emit_place")]

    def record(self, task: Task, *, is_woken: bool) -> None:
        """Relays look by themselves here."""
        self.run("emit_one", uuid.UUID(task.id).bytes, *_recorded(task))

    def record_all(self, tasks: list[Task]) -> None:
        self.run("emit", _json([(uuid.UUID(task.id).hex, *_recorded(task)) for task in tasks]))

    def claim(self, patterns: Iterable[str], limit: int, lease: float, token: uuid.UUID) -> list[Any]:
        with transaction.atomic(using=self.connection.alias):
            self._sweep()
            # More than wanted, because other workers may take the first ones meanwhile.
            found = self.run("claim_handled", limit * 4, LOSSES_BEFORE_FAILED, self.patterns(patterns))
            seqs = _json([row[0] for row in found])
            taken = _before_suspects(self.run("claim_handled_lock", seqs, limit, LOSSES_BEFORE_FAILED))
            if taken:
                leases = _json([(seq, losses) for _, seq, losses in taken])
                self.run("claim_handled_lease", leases, lease, token.bytes)
        return [row[0] for row in taken]

    def _sweep(self) -> None:
        dead = [as_uuid(row[0]) for row in self.run("sweep_due", LOSSES_BEFORE_FAILED)]
        if dead:
            self.run("sweep", _hexes(dead), GIVEN_UP)
            self.run("fail_deliveries", _hexes(dead), GIVEN_UP)

    def patterns(self, patterns: Iterable[str]) -> str:
        return _json([like(pattern, "|") for pattern in patterns])

    def renew(self, ids: Sequence[uuid.UUID], token: uuid.UUID, lease: float) -> list[Any]:
        with transaction.atomic(using=self.connection.alias):
            held = [as_uuid(row[0]) for row in self.run("held", _pairs(ids, token))]
            self.run("renew", _pairs(held, token), lease)
        return held

    def release(self, ids: Sequence[uuid.UUID], token: uuid.UUID) -> None:
        self.run("release", _pairs(ids, token))

    def settle(self, id: uuid.UUID, seq: int, token: uuid.UUID, verdict: Verdict) -> bool:
        if not self.run("held", _pairs([id], token)):
            return False
        row = (seq, token.hex, verdict.change, verdict.attempts, verdict.after, None, verdict.error)
        self.run("settle", _json([row]))
        return True

    def keep_attempt(self, id: uuid.UUID, failed: Attempt) -> None:
        row = (id.hex, failed.destination[:255], failed.took_ms, None, failed.error, None, 1, 0)
        self.run("settle_attempts", _json([row]))
        self.run("prune_attempts", _hexes([id]), ATTEMPTS_KEPT)

    def retry(self, ids: Sequence[uuid.UUID]) -> Rows:
        answers = self.run("retry_asked", _hexes(ids), None)
        due = _hexes(as_uuid(id) for id, answer in answers if answer == "due")
        self.run("retry", due)
        self.run("retry_deliveries", due)
        return answers

    def cleanup(self, delivered_after: float, failed_after: float, limit: int) -> int:
        old = [as_uuid(row[0]) for row in self.run("cleanup_due", delivered_after, failed_after, limit)]
        for name in ("delete_attempts", "delete_deliveries", "cleanup"):
            self.run(name, _hexes(old))
        return len(old)

    def migrating(self) -> AbstractContextManager[None]:
        return self._locked()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """DDL ends transactions, so the lock belongs to the session."""
        self._check_server()
        if self.run("migrate_lock", _MIGRATING_SECONDS) != [(1,)]:
            raise OperationalError(f"another program has been migrating for {_MIGRATING_SECONDS} s; try again")
        try:
            yield
        finally:
            self.run("migrate_unlock")

    def _check_server(self) -> None:
        """Refuses what the program refuses, too."""
        settings = {name: str(value) for name, value in self.run("server")}
        oldest = _OLDEST_MARIADB if self.connection.mysql_is_mariadb else _OLDEST_MYSQL
        if self.connection.mysql_version < oldest:
            raise NotSupportedError(
                f"version {settings['version']} of the server is too old; use MariaDB 10.6 or MySQL 8.0.19, or newer"
            )
        if settings.get("wsrep_on", "").upper() == "ON":
            raise NotSupportedError(
                "the server is a node of a Galera cluster, whose nodes share neither row locks nor a clock; use a"
                " server without Galera, or replication with one primary"
            )

    def file(self, name: str) -> str:
        collation = "utf8mb4_nopad_bin" if self.connection.mysql_is_mariadb else "utf8mb4_0900_bin"
        return super().file(name).replace("{collation}", collation)

    @staticmethod
    def split(script: str) -> Iterator[str]:
        """One statement at a time: not every driver allows more."""
        parts = statements.without_comments(script).split(";")
        return (part.strip() for part in parts if part.strip())

    def complete(self) -> None:
        """Creates the procedure `outbox_emit`. Without the rights for it, other languages emit by a plain INSERT."""
        try:
            with self.connection.cursor() as cursor:
                cursor.execute(self.file("outbox_emit"))
        except DatabaseError as error:
            if _number(error) in _NO_RIGHT:
                logger.warning("procedure outbox_emit not created: %s; grant CREATE ROUTINE, or emit by INSERT", error)
            elif _number(error) != _PROCEDURE_EXISTS:
                raise

    def check(self) -> Iterator[CheckMessage]:
        options = self.connection.settings_dict.get("OPTIONS") or {}
        charset = options.get("charset") or ("utf8mb4" if django.VERSION >= (5, 2) else "utf8")
        if charset != "utf8mb4":
            yield Warning(
                f'The connection "{self.connection.alias}" has the character set {charset}: events with characters'
                " outside of the Basic Multilingual Plane, such as emoji, cannot be written.",
                hint='Set OPTIONS = {"charset": "utf8mb4"} for the database.',
                id="pillarbox.W006",
            )

    def url(self) -> str:
        database = self.connection.settings_dict
        options = database.get("OPTIONS") or {}
        if options.get("read_default_file"):
            raise ImproperlyConfigured(
                f'the database "{self.connection.alias}" is configured by a file of options, which the relay does not'
                " support; set HOST and NAME, or PILLARBOX_DATABASE_URL"
            )
        host = database.get("HOST") or ""
        user, password, port, name = (str(database.get(name) or "") for name in ("USER", "PASSWORD", "PORT", "NAME"))
        query = _tls(options)
        if socket := options.get("unix_socket") or (host if host.startswith("/") else None):
            query["socket"], host = str(socket), ""
        login = quote(user, safe="") + (f":{quote(password, safe='')}" if password else "")
        place = f"[{host}]" if ":" in host else quote(host, safe="") or "localhost"
        url = f"mysql://{login}{'@' if login else ''}{place}{f':{port}' if port else ''}/{quote(name, safe='')}"
        return url + (f"?{urlencode(query, quote_via=quote)}" if query else "")


def _tls(options: dict[str, Any]) -> dict[str, str]:
    """TLS as the program's URLs have it, from the options of mysqlclient and of PyMySQL."""
    nested = options.get("ssl") if isinstance(options.get("ssl"), dict) else {}
    files = {name: nested.get(name) or options.get(f"ssl_{name}") for name in ("ca", "cert", "key")}
    mode = options.get("ssl_mode")
    if mode is None and options.get("ssl_disabled"):
        mode = "DISABLED"
    if mode is None and (options.get("ssl") or any(files.values())):
        checks_name = nested.get("check_hostname") or options.get("ssl_verify_identity")
        mode = ("VERIFY_IDENTITY" if checks_name else "VERIFY_CA") if files["ca"] else "REQUIRED"
    given = {"ssl-mode": mode, **{f"ssl-{name}": path for name, path in files.items()}}
    return {name: str(value) for name, value in given.items() if value}


def _before_suspects(line: Rows) -> Rows:
    """A suspect at the front is claimed alone; otherwise everything before the first suspect."""
    suspects = [place for place, row in enumerate(line) if row[2] >= LOSSES_BEFORE_ALONE]
    return line[: max(1, suspects[0])] if suspects else line


def _recorded(task: Task) -> tuple[Any, ...]:
    """The columns of a recorded task behind its id. Its key is that id, because a retry has the task's id again."""
    return "celery", task.aggregate_id, task.task_name, task.payload, task.trace, task.id, None, task.due


def _number(error: Exception) -> int | None:
    """Returns the server's or the driver's number of an error."""
    return error.args[0] if error.args and isinstance(error.args[0], int) else None


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _hexes(ids: Iterable[uuid.UUID]) -> str:
    return _json([id.hex for id in ids])


def _pairs(ids: Iterable[uuid.UUID], token: uuid.UUID) -> str:
    return _json([(id.hex, token.hex) for id in ids])
