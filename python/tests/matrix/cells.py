"""The cells of the matrix: for each broker and version of Celery a worker, producers of all kinds, and their relays.

Everything runs at once: all calls are made first, then all records are waited for.
"""

from __future__ import annotations

import json
import time
import uuid
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import redis

from tests import processes, servers

from . import relays
from .calls import CALLS
from .folding import Record
from .kinds import KINDS, PLAIN, Kind

PATIENCE = 240
AHEAD = 12
"""How far ahead the one moment lies that `eta` is called with: producers need some seconds to start."""


@dataclass(frozen=True)
class Cell:
    """One broker with one version of Celery."""

    broker: str
    environment: str

    @property
    def version(self) -> str:
        [found] = (processes.ROOT / self.environment).glob("lib/*/site-packages/celery-*.dist-info")
        return found.name.removeprefix("celery-").removesuffix(".dist-info")

    def __str__(self) -> str:
        return f"{self.broker}-{self.version}"


CELLS = [
    Cell(broker, environment)
    for broker in ("rabbitmq", "redis")
    for environment in (processes.CELERY_53, processes.NEWEST)
]


class Run:
    """All cells of one run: what they are given, which processes they have, and what those told."""

    def __init__(self, directory: Path) -> None:
        self.processes = processes.Processes(directory)
        self.id = uuid.uuid4().hex[:8]
        self.moment = float(int(time.time()) + AHEAD)
        self.records: dict[tuple[Cell, str], list[Record]] = defaultdict(list)
        self.databases: dict[tuple[Cell, Kind], str] = {}

    def complete(self) -> None:
        """Starts everything, and comes back when all is told that is expected, or patience is over."""
        for cell in CELLS:
            for kind in KINDS:
                if kind.app != "plain":
                    self.databases[cell, kind] = servers.create_database(kind.database)
                if kind is PLAIN or kind.worker != "plain":
                    self.start_worker(cell, kind)
                producer = [processes.python(cell.environment), "-m", "tests.matrix.produce"]
                self.processes.start(f"{cell}-{kind.name}", producer, self.environment(cell, kind, kind.app))
        self.collect()

    def start_worker(self, cell: Cell, kind: Kind) -> None:
        """One for all kinds that have a plain worker, and one for each of the others."""
        worker = processes.worker(cell.environment, "tests.matrix.app", self.queue(cell, kind))
        self.processes.start(f"{cell}-{kind.name}-worker", worker, self.environment(cell, kind, kind.worker))

    def queue(self, cell: Cell, kind: Kind) -> str:
        return f"matrix-{self.id}-{cell}" + ("" if kind.worker == "plain" else f"-{kind.name}")

    def environment(self, cell: Cell, kind: Kind, app: str) -> dict[str, str]:
        variables = {
            "MATRIX_APP": app,
            "MATRIX_TAG": kind.tag,
            "MATRIX_CELL": str(cell),
            "MATRIX_QUEUE": self.queue(cell, kind),
            "MATRIX_BROKER": servers.broker(cell.broker),
            "MATRIX_RESULTS": servers.broker("redis"),
            "MATRIX_RECORDS": f"matrix-{self.id}",
            "MATRIX_MOMENT": str(self.moment),
        }
        if app == "plain":
            return processes.environment(**variables)
        return processes.project(app, self.databases[cell, kind], "tests.matrix.app.app", **variables)

    def collect(self) -> None:
        store = redis.Redis.from_url(servers.broker("redis"))
        cells = {str(cell): cell for cell in CELLS}
        missing = {
            (cell, f"{call.name}{kind.tag}"): 1 + call.runs + call.result
            for cell in CELLS
            for kind in KINDS
            for call in CALLS.values()
            if call.adopted or kind.app != "adopted"
        }
        deadline = time.monotonic() + PATIENCE
        while missing and time.monotonic() < deadline:
            popped = store.blpop([f"matrix-{self.id}"], timeout=1)
            if popped is None:
                self.processes.check()
                continue
            record: Record = json.loads(popped[1])
            cell = cells[record.pop("cell")]
            if record["event"] == "produced":
                self.relay(cell, record["tag"])
                continue
            key = cell, record["tag"]
            self.records[key].append(record)
            if missing.get(key) == 1:
                del missing[key]
            elif key in missing:
                missing[key] -= 1

    def relay(self, cell: Cell, tag: str) -> None:
        """Once a producer has made its calls, and its tables are there, its relay can start."""
        [kind] = (kind for kind in KINDS if kind.tag == tag)
        if kind.app != "plain":
            settings = self.databases[cell, kind], servers.broker(cell.broker), self.queue(cell, kind)
            self.processes.relay(f"{cell}-{kind.name}-relay", relays.configuration(kind.app, *settings))
