"""Ends connections as an administrator, a failover or an idle timeout does; their owner is not told."""

from __future__ import annotations

import time
from typing import Any

from django.db import connections

from tests import servers

#: Seconds. The server ends an idle connection at once; a busy machine may need longer.
_PATIENCE = 60


def terminate(alias: str = "default") -> None:
    """Ends the server's side of this thread's connection, and returns when it has ended."""
    connection = connections[alias]
    connection.ensure_connection()
    if connection.vendor == "mysql":
        _kill("id = %s", connection.connection.thread_id())
    else:
        _terminate("SELECT pg_terminate_backend(%s, %s)", connection.connection.info.backend_pid)


def terminate_all(address: str) -> None:
    """Ends all connections to a database, by its URL."""
    name = address.rsplit("/", 1)[1]
    if address.startswith("mysql:"):
        _kill("db = %s", name)
        return
    _terminate(
        "SELECT bool_and(pg_terminate_backend(pid, timeout)) FROM pg_stat_activity, (SELECT %s::text, %s::bigint)"
        " AS given (name, timeout) WHERE datname = name AND backend_type = 'client backend'",
        name,
    )


def _terminate(statement: str, who: int | str) -> None:
    with servers.connect(servers.postgres()) as server:
        assert server.execute(statement, [who, _PATIENCE * 1000]).fetchone() == (True,)


def _kill(condition: str, who: Any) -> None:
    with servers.connect(servers.shared("PILLARBOX_TEST_MYSQL")) as server, server.cursor() as cursor:
        cursor.execute(f"SELECT id FROM information_schema.processlist WHERE {condition}", [who])
        ids = [id for (id,) in cursor.fetchall()]
        for id in ids:
            cursor.execute("KILL %s", [id])
        deadline = time.monotonic() + _PATIENCE
        while cursor.execute("SELECT 1 FROM information_schema.processlist WHERE id IN %s", [ids or [0]]):
            assert time.monotonic() < deadline, f"connections {ids} have not ended after {_PATIENCE} s"
            time.sleep(0.005)
