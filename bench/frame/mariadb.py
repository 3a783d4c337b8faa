"""A database of its own on the private MariaDB, filled once and copied for each measurement."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import pymysql
from pymysql.connections import Connection


class MariaDb:
    """One database."""

    def __init__(self, server: str, name: str) -> None:
        self.name = name
        self.url = urlsplit(server)._replace(path=f"/{name}").geturl()
        self._server = urlsplit(server)

    def connect(self, database: str | None = None) -> Connection:
        """A connection that commits each statement by itself."""
        server = self._server
        return pymysql.connect(
            host=server.hostname, port=server.port or 3306, user=server.username, database=database, autocommit=True
        )

    def execute(self, *statements: str) -> int:
        """Runs statements, and returns the first value of the last one, or 0."""
        with self.connect(self.name) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            row = cursor.fetchone()
            return row[0] if row else 0

    def create(self) -> MariaDb:
        """Anew: one of that name is dropped."""
        self.drop()
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {self.name} CHARACTER SET utf8mb4")
        return self

    def drop(self) -> None:
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"DROP DATABASE IF EXISTS {self.name}")

    def fill_from(self, template: MariaDb) -> None:
        """Copies the events of another database, in their order."""
        columns = (
            "seq, id, aggregate_type, aggregate_id, event_type, payload, headers, idempotency_key, next_attempt_at"
        )
        columns += ", created_at, updated_at"
        self.execute(
            "TRUNCATE outbox_event",
            f"INSERT INTO outbox_event ({columns}) SELECT {columns} FROM {template.name}.outbox_event ORDER BY seq",
            "ANALYZE TABLE outbox_event",
        )

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """A transaction that may see every row as it is now, and stays open for the block."""
        with self.connect(self.name) as connection, connection.cursor() as cursor:
            cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
            cursor.execute("SELECT count(*) FROM outbox_relay")
            yield
            connection.rollback()
