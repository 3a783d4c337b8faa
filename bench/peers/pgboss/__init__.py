"""pg-boss: its workers with large batches, and a loop of fetch and complete. Completed jobs stay."""

from __future__ import annotations

from dataclasses import replace

from frame.bench import Bench
from frame.database import Database
from peers.peer import HERE, NODE, Peer, node_package

SCRIPT = str(HERE / "pgboss/worker.mjs")


def fill(bench: Bench, database: Database, rows: int) -> None:
    bench.run([str(NODE), SCRIPT, "fill", database.url, str(rows)])


_version, _missing = node_package("pgboss", "pg-boss")
WORK = Peer(
    key="pgboss",
    name="pg-boss, work()",
    settings="batchSize 1000, localConcurrency 4, burstWhenBatchFull, polling every 0.5 s; completed jobs are kept",
    version=_version,
    fill=fill,
    command=lambda url, rows: [str(NODE), SCRIPT, "work", url, str(rows)],
    missing=_missing,
)
FETCH = replace(
    WORK,
    key="pgboss_fetch",
    name="pg-boss, fetch() and complete()",
    settings="one loop, batchSize 1000; completed jobs are kept",
    command=lambda url, rows: [str(NODE), SCRIPT, "fetch", url, str(rows)],
)
