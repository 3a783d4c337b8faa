"""graphile-worker: a local queue and batched completion, as its documentation recommends for many small jobs."""

from __future__ import annotations

import json
from typing import Any

from frame.bench import Bench
from frame.database import Database
from peers.peer import HERE, NODE, Peer, node_package

WORKER = str(HERE / "graphile/worker.mjs")
FILL = """SELECT count(*) FROM graphile_worker.add_jobs(ARRAY(
    SELECT ROW('order', json_build_object('order', number, 'filler', repeat('x', 464)),
        NULL, NULL, NULL, NULL, NULL, NULL)::graphile_worker.job_spec
    FROM generate_series({first}, {last}) AS number))"""
BATCH = 20_000


def fill(bench: Bench, database: Database, rows: int) -> None:
    bench.run([str(NODE), WORKER, "migrate", database.url])
    for first in range(1, rows + 1, BATCH):
        database.execute(FILL.format(first=first, last=min(rows, first + BATCH - 1)))


def latency(bench: Bench, database: Database, samples: int) -> dict[str, Any]:
    """From the commit to the handler of single jobs at random moments: `p50_ms`, `p99_ms`, `latencies_ms`."""
    bench.run([str(NODE), WORKER, "migrate", database.url])
    return json.loads(bench.run([str(NODE), WORKER, "latency", database.url, str(samples)]))


_version, _missing = node_package("graphile", "graphile-worker")
PEER = Peer(
    key="graphile",
    name="graphile-worker",
    settings="concurrentJobs 24, localQueue 500, completeJobBatchDelay and failJobBatchDelay 0; deletes completed jobs",
    version=_version,
    fill=fill,
    command=lambda url, rows: [str(NODE), WORKER, "drain", url, str(rows)],
    missing=_missing,
)
