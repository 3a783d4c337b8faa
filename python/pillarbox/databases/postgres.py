"""PostgreSQL: lists are arrays, and every verb is one statement."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from django.core.exceptions import ImproperlyConfigured
from django.db import ProgrammingError

from pillarbox.databases.base import ATTEMPTS_KEPT, Database, Rows

if TYPE_CHECKING:
    from pillarbox.store import Attempt, Verdict

#: SQLSTATE of a write on a server that is a standby, or has become one.
_READ_ONLY = "25006"

#: What the program's URLs know of the options that Django hands to PostgreSQL's drivers.
_OPTIONS = (
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
    "application_name",
    "options",
    "target_session_attrs",
    "connect_timeout",
)


class Postgres(Database):
    folder = "postgres"
    id_type = "uuid"
    moment_type = "timestamp with time zone"
    clock = "clock_timestamp()"
    clamped = "CASE WHEN {0} IS NOT NULL THEN least(greatest({0}, '0001-01-02 00:00Z'), '9999-12-30 00:00Z') END"
    # The functions that call another one come first.
    beside_tables = (
        ("FUNCTION", "outbox_emit(text, bigint, text, jsonb, text, jsonb, int, timestamptz, boolean)"),
        ("FUNCTION", "outbox_emit(text, uuid, text, jsonb, text, jsonb, int, timestamptz, boolean)"),
        ("FUNCTION", "outbox_emit(outbox_text, text, outbox_text, json, text, json, int, timestamptz, boolean)"),
        ("FUNCTION", "outbox_emit(outbox_text, bigint, outbox_text, json, text, json, int, timestamptz, boolean)"),
        ("FUNCTION", "outbox_emit(outbox_text, uuid, outbox_text, json, text, json, int, timestamptz, boolean)"),
        ("FUNCTION", "outbox_emit(text, text, text, jsonb, text, jsonb, int, timestamptz, boolean)"),
        ("DOMAIN", "outbox_text"),
        ("FUNCTION", "outbox_uuid7"),
        ("SEQUENCE", "outbox_idle_until"),
        ("SEQUENCE", "outbox_log_until"),
        ("FUNCTION", "outbox_log_open"),
        ("FUNCTION", "outbox_log_write"),
        ("FUNCTION", "outbox_log_content"),
        ("FUNCTION", "outbox_log_timeline"),
        ("TABLE", "outbox_log_key"),
        ("TABLE", "outbox_log"),
    )

    def is_lost(self, error: Exception) -> bool:
        # psycopg 3 and psycopg 2.
        return _READ_ONLY in (getattr(error.__cause__, name, None) for name in ("sqlstate", "pgcode"))

    def insert(self, columns: list[tuple[Any, ...]]) -> Rows:
        # Keys that are the events' own ids are not searched for, and their events may go into the write-ahead log.
        are_own = all(row[6] == str(row[0]) for row in columns)
        if len(columns) == 1:
            name = "emit_own_one" if are_own else "emit_one"
            return [(columns[0][0], *row[:2]) for row in self.run(name, *columns[0])]
        rows = self.run("emit_own" if are_own else "emit", *map(list, zip(*columns, strict=True)))
        return [(row[0], row[1], row[5]) for row in rows]

    def patterns(self, patterns: Iterable[str]) -> Any:
        return [like(pattern, "\\") for pattern in patterns]

    def renew(self, ids: Sequence[uuid.UUID], token: uuid.UUID, lease: float) -> list[Any]:
        return [row[0] for row in self.run("renew", list(ids), [token] * len(ids), lease)]

    def release(self, ids: Sequence[uuid.UUID], token: uuid.UUID) -> None:
        self.run("release", list(ids), [token] * len(ids))

    def settle(self, id: uuid.UUID, seq: int, token: uuid.UUID, verdict: Verdict) -> bool:
        row = (id, token, verdict.change, verdict.attempts, verdict.after, None, verdict.error)
        return bool(self.run("settle", *([value] for value in row)))

    def durable(self) -> None:
        # A settle may be lost in a crash; what the caller's transaction wrote may not.
        with self.connection.cursor() as cursor:
            cursor.execute("SELECT set_config('synchronous_commit', 'on', true)")

    def keep_attempt(self, id: uuid.UUID, failed: Attempt) -> None:
        row = (id, failed.destination[:255], failed.took_ms, None, failed.error, None, 1)
        self.run("settle_attempts", *([value] for value in row), ATTEMPTS_KEPT, [False])

    def retry(self, ids: Sequence[uuid.UUID]) -> Rows:
        return self.run("retry", list(ids), None)

    def cleanup(self, delivered_after: float, failed_after: float, limit: int) -> int:
        return self.run("cleanup", delivered_after, failed_after, limit, "-infinity", "-infinity")[0][0]

    def migrating(self) -> AbstractContextManager[None]:
        return self._only_schema()

    def file(self, name: str) -> str:
        with self.connection.cursor() as cursor:
            cursor.execute("SELECT current_schema()")
            schema = cursor.fetchone()[0]
        return super().file(name).replace("{schema}", f'"{schema}"')

    def check_removal(self) -> None:
        with self.connection.cursor() as cursor:
            cursor.execute("SELECT slot FROM outbox_log")
            row = cursor.fetchone()
        if row is not None:
            raise ProgrammingError(
                f'the write-ahead log is enabled, and its replication slot "{row[0]}" would stay and keep the log until'
                " the disk is full; run `pillarbox wal disable` first"
            )

    @contextmanager
    def _only_schema(self) -> Iterator[None]:
        """The functions remember the search_path under which they were made: the schema, and nothing else."""
        with self.connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(hashtext('pillarbox migrate'))")
            cursor.execute("SELECT current_setting('search_path')")
            before = cursor.fetchone()[0]
            cursor.execute("SELECT set_config('search_path', quote_ident(current_schema()), true)")
            yield
            # After an error the transaction takes no more statements, and the setting ends with it.
            cursor.execute("SELECT set_config('search_path', %s, true)", [before])

    def url(self) -> str:
        database = self.connection.settings_dict
        options = database.get("OPTIONS") or {}
        if options.get("service"):
            raise ImproperlyConfigured(
                f'the database "{self.connection.alias}" is configured by a service file, which the relay does not'
                " support; set HOST and NAME, or PILLARBOX_DATABASE_URL"
            )
        host = database.get("HOST") or ""
        query = {name: str(options[name]) for name in _OPTIONS if options.get(name)}
        user, password, port = (str(database.get(name) or "") for name in ("USER", "PASSWORD", "PORT"))
        place = ""
        if host:
            login = quote(user, safe="") + (f":{quote(password, safe='')}" if password else "")
            # A directory, where a socket is, stands for a host when its slashes are quoted.
            place = (f"{login}@" if login else "") + _hosts(host, port)
        else:
            # Without a host a URL has no room for the others.
            given = {"user": user, "password": password, "port": port}
            query |= {name: value for name, value in given.items() if value}
        name = quote(str(database.get("NAME") or ""), safe="")
        # A space in a parameter is %20 there, not a plus.
        return f"postgres://{place}/{name}" + (f"?{urlencode(query, quote_via=quote)}" if query else "")

    def schema_of(self, table: str) -> str | None:
        """Whatever the project's search_path is."""
        with self.connection.cursor() as cursor:
            cursor.execute(
                "SELECT n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
                " WHERE c.oid = to_regclass(%s)",
                [table],
            )
            row = cursor.fetchone()
        if row is None:
            alias = self.connection.alias
            raise ImproperlyConfigured(f'there is no table {table} in the database "{alias}"; run manage.py migrate')
        return row[0]


def like(pattern: str, escape: str) -> str:
    """Returns a pattern of event types for LIKE."""
    for special in (escape, "%", "_"):
        pattern = pattern.replace(special, escape + special)
    return pattern.replace("*", "%")


def _hosts(host: str, port: str) -> str:
    """Several hosts, as libpq has them, share one port or have one each."""
    hosts, ports = host.split(","), port.split(",")
    if len(ports) == 1:
        ports *= len(hosts)
    if len(ports) != len(hosts):
        raise ImproperlyConfigured(
            f"HOST names {len(hosts)} hosts and PORT {len(ports)} ports; give one port for each host, or one for all"
        )
    places = (f"[{host}]" if ":" in host else quote(host, safe="") for host in hosts)
    return ",".join(place + (f":{port}" if port else "") for place, port in zip(places, ports, strict=True))
