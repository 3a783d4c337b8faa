"""A database whose outbox is the write-ahead log. The harness holds its gate; its log can be read again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from frame.bench import Bench
from frame.database import Database

DROP = """SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots
    WHERE database = current_database() AND NOT active"""
LEFT = "SELECT count(*) FROM pg_replication_slots WHERE database = current_database()"
# A copy of the slot, which stays where it is.
KEPT = "kept_"
REWIND = """WITH slot AS (SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = %s)
    UPDATE outbox_log SET confirmed = slot.confirmed_flush_lsn, confirmed_at = clock_timestamp() FROM slot"""


class Logged:
    """The outbox of one database, while PostgreSQL's log can be decoded."""

    def __init__(self, database: Database) -> None:
        self.database, self.url = database, database.url

    def gate(self, *, is_open: bool) -> None:
        """As a relay says so, but for good: events go into the log though nobody reads it."""
        until = 9_999_999_999 if is_open else 0
        self.database.execute("SELECT setval('outbox_log_until', %s)", until)

    def keep(self) -> None:
        """From here on everything can be read again."""
        slot = self.slot()
        self.database.execute("SELECT pg_copy_logical_replication_slot(%s, %s)", slot, KEPT + slot)

    def rewind(self) -> None:
        """As if nothing had been read or delivered since."""
        slot = self.slot()
        wait(self.database, "SELECT NOT active FROM pg_replication_slots WHERE slot_name = %s", slot)
        self.database.execute("SELECT pg_drop_replication_slot(%s)", slot)
        self.database.execute("SELECT pg_copy_logical_replication_slot(%s, %s)", KEPT + slot, slot)
        self.database.execute(REWIND, slot)
        self.database.execute("TRUNCATE outbox_event")

    def slot(self) -> str:
        return self.database.value("SELECT slot FROM outbox_log")


@contextmanager
def logged(bench: Bench, name: str) -> Iterator[Logged]:
    """A fresh outbox, whose log was enabled by `pillarbox wal enable`."""
    database = bench.outbox(name)
    try:
        bench.run_program(["wal", "enable"], PILLARBOX_DATABASE_URL=database.url)
        yield Logged(database)
    finally:
        drop(database)


def drop(database: Database) -> None:
    """With its slots: a database that has some cannot be dropped."""
    for _ in range(200):
        database.execute(DROP)
        if not database.value(LEFT):
            break
        time.sleep(0.05)
    database.drop()


def wait(database: Database, statement: str, *values: object) -> None:
    for _ in range(600):
        if database.value(statement, *values):
            return
        time.sleep(0.05)
    raise RuntimeError(f"never true: {statement}")
