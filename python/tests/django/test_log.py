"""Repeatable events in PostgreSQL's write-ahead log: Django follows the same gate as every emitter."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.django import program
from tests.django.test_schema import PACKAGE, manage
from tests.servers import PrivatePostgres

EMIT = """
import django
django.setup()
import json
from django.db import IntegrityError, transaction
import pillarbox
again = {"aggregate_type": "Order", "aggregate_id": 1, "event_type": "order.updated", "repeatable": True}
once = {"aggregate_type": "Order", "aggregate_id": 1, "event_type": "order.placed"}
with transaction.atomic():
    events = [pillarbox.emit_event("Order", 1, "order.updated", {"n": 1}, headers={"h": "1"}, repeatable=True)]
    events += pillarbox.emit_events([again, again])
    events += pillarbox.emit_events([again, once])
    try:
        pillarbox.emit_events([again, once])
    except IntegrityError:
        pass
    else:
        raise AssertionError("a duplicate")
try:
    with transaction.atomic():
        pillarbox.emit_event("Order", 1, "order.updated", repeatable=True)
        raise KeyError
except KeyError:
    pass
print(json.dumps([event.seq is None for event in events]))
"""


@pytest.fixture
def server() -> Iterator[PrivatePostgres]:
    with tempfile.TemporaryDirectory(prefix="pillarbox-log.") as room:
        Path(room).chmod(0o755)
        server = PrivatePostgres(Path(room) / "postgres")
        server.start()
        yield server
        server.kill()


def emit(server: PrivatePostgres) -> list[bool]:
    variables = {"PILLARBOX_TEST_POSTGRES": server.url, "DJANGO_SETTINGS_MODULE": "tests.django.settings"}
    environment = {**os.environ, **variables, "PYTHONPATH": str(PACKAGE)}
    ran = subprocess.run([sys.executable, "-c", EMIT], env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def test_repeatable_events_go_into_the_log(server: PrivatePostgres, tmp_path: Path) -> None:
    manage("migrate", postgres=server.url)
    program.run(server.url, "wal", "enable", cwd=tmp_path)
    assert emit(server) == [False] * 5, "no relay reads the log"
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("TRUNCATE outbox_event")
        connection.execute("SELECT pg_create_logical_replication_slot('probe', 'test_decoding')")
        connection.execute("SELECT setval('outbox_log_until', 9999999999)")
        assert emit(server) == [True, True, True, True, False]
        assert connection.execute("SELECT count(*) FROM outbox_event").fetchone() == (1,)
        read = "SELECT data FROM pg_logical_slot_get_changes('probe', NULL, NULL) WHERE data LIKE 'message: %'"
        messages = [json.loads(data.split(" content:1", 1)[1]) for (data,) in connection.execute(read)]
    assert len(messages) == 4, "neither the duplicate's companion nor what was rolled back"
    assert (messages[0]["payload"], messages[0]["headers"]) == ({"n": 1}, {"h": "1"})

    # The slot would outlive the tables.
    with pytest.raises(AssertionError, match="pillarbox wal disable"):
        manage("migrate", "pillarbox", "zero", postgres=server.url)
    program.run(server.url, "wal", "disable", "--force", "--yes", cwd=tmp_path)
    manage("migrate", "pillarbox", "zero", postgres=server.url)
