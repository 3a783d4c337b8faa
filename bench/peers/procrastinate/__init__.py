"""procrastinate: its asynchronous worker. Done jobs stay, as by default."""

from __future__ import annotations

import sys
from importlib import metadata

from frame.bench import Bench
from frame.database import Database
from peers.peer import HERE, Peer

WORKER = str(HERE / "procrastinate/worker.py")
FILL = """INSERT INTO procrastinate_jobs (queue_name, task_name, args)
    SELECT 'default', 'order', jsonb_build_object('order', number, 'filler', repeat('x', 464))
    FROM generate_series(1, {rows}) AS number"""


def fill(bench: Bench, database: Database, rows: int) -> None:
    bench.run([sys.executable, WORKER, "migrate", database.url])
    database.execute(FILL.format(rows=rows))


PEER = Peer(
    key="procrastinate",
    name="procrastinate",
    settings="asynchronous worker, concurrency 30; done jobs are kept",
    version=lambda: metadata.version("procrastinate"),
    fill=fill,
    command=lambda url, rows: [sys.executable, WORKER, "drain", url, str(rows)],
    slow=True,
)
