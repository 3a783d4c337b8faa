"""Ends connections as an administrator, a failover or an idle timeout does; their owner is not told."""

from __future__ import annotations

import os

import psycopg
from django.db import connections

#: Milliseconds. The server ends an idle connection at once; a busy machine may need longer.
_PATIENCE = 60_000


def terminate(alias: str = "default") -> None:
    """Ends the server's side of this thread's connection, and returns when it has ended."""
    connection = connections[alias]
    connection.ensure_connection()
    _terminate("SELECT pg_terminate_backend(%s, %s)", connection.connection.info.backend_pid)


def terminate_all(database: str) -> None:
    """Ends all connections to a database."""
    _terminate(
        "SELECT bool_and(pg_terminate_backend(pid, timeout)) FROM pg_stat_activity, (SELECT %s::text, %s::bigint)"
        " AS given (name, timeout) WHERE datname = name AND backend_type = 'client backend'",
        database,
    )


def _terminate(statement: str, who: int | str) -> None:
    with psycopg.connect(os.environ["PILLARBOX_TEST_POSTGRES"], autocommit=True) as server:
        assert server.execute(statement, [who, _PATIENCE]).fetchone() == (True,)
