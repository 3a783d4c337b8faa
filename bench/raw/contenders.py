"""The raw limits as contenders: each SQL design on a copy of the filled table, each sink without a database."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from frame import processes
from frame.bench import Bench
from frame.database import Database
from raw.designs import DESIGNS

RUN = Path(__file__).resolve().parent / "run.py"
# What the tables show; the aims compare with the first.
BATCH, LARGE = 500, 1000


def key(design: str, connections: int = 1, batch: int = BATCH) -> str:
    return f"raw.{design}.{connections}.{batch}"


def sql(bench: Bench, template: Database, rows: int, heaps: dict[str, float]) -> dict[str, Callable[[], float]]:
    """Every design alone; those that were weighed against each other also with larger batches, or two connections."""
    variants = [(design, 1, BATCH) for design in DESIGNS]
    if not bench.quick:
        variants += [(name, 1, LARGE) for name in ("g", "h")]
        variants += [(name, 2, BATCH) for name in ("g", "h")]

    def contender(design: str, connections: int, batch: int) -> Callable[[], float]:
        def measure() -> float:
            database = bench.postgres("drain", template)
            command = [sys.executable, RUN, "--database", database.url, "--design", design, "--batch", str(batch)]
            commands = [[*command, "--part", f"{number}/{connections}"] for number in range(connections)]
            rate = processes.drain(commands, rows, bench.directory / "raw.log").rate
            if (connections, batch) == (1, BATCH):
                heaps[design] = database.value("SELECT pg_table_size('outbox_event')") / 1e6
            database.drop()
            return rate

        return measure

    return {key(*variant): contender(*variant) for variant in variants}


def sinks(bench: Bench, count: int, tasks: int) -> dict[str, Callable[[], float]]:
    """What the same clients reach when no row has to be claimed or settled."""

    def contender(*args: str, count: int = count) -> Callable[[], float]:
        return lambda: bench.run_load([*args, "--count", str(count)])["rate"]

    return {
        "raw.http": contender("raw-http", "--url", bench.http),
        "raw.rabbitmq": contender("raw-amqp", "--broker", bench.amqp, count=tasks),
        "raw.redis": contender("raw-redis", "--broker", bench.redis),
    }
