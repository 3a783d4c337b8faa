"""What a scenario is given: fresh databases, the addresses of the servers, the programs, and the clock of a run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from frame import machine
from frame.database import Database
from frame.mariadb import MariaDb
from frame.rounds import Sample, interleave
from frame.servers import ROOT, Servers

if TYPE_CHECKING:
    from frame.report import About

Key = TypeVar("Key")
# What one call of `load` may take.
PATIENCE = 1800.0


class Bench:
    """One run on one set of servers."""

    def __init__(self, servers: Servers, *, quick: bool) -> None:
        self.quick = quick
        self.rounds = 1 if quick else 3
        self.amqp, self.redis, self.http = servers.amqp, servers.redis, servers.http
        release = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve() / "release"
        self.program, self.load = release / "pillarbox", release / "load"
        self.directory = servers.directory
        # Of the scenarios that ran before, by the names that they gave them.
        self.figures: dict[str, float] = {}
        # Contenders that broke: their rows say why, and the run ends with an error.
        self.broken: list[str] = []
        self._servers = servers
        self._began = time.monotonic()

    @classmethod
    @contextmanager
    def start(cls, *, quick: bool) -> Iterator[Bench]:
        with Servers() as servers:
            yield cls(servers, quick=quick)

    def log(self, text: str) -> None:
        """To the terminal, with the time since the run began."""
        print(f"[{time.monotonic() - self._began:6.0f} s] {text}", file=sys.stderr, flush=True)

    def pick(self, full: int, quick: int) -> int:
        """A count, or a small one in a quick run."""
        return quick if self.quick else full

    def postgres(self, name: str, template: Database | None = None) -> Database:
        """A fresh database on the private server, empty or copied from one to which nobody is connected."""
        return Database.create(self._servers.postgres, name, template)

    def mariadb(self, name: str) -> MariaDb:
        """A database on the private MariaDB, which need not exist yet."""
        return MariaDb(self._servers.mysql, name)

    def outbox(self, name: str) -> Database:
        """A fresh database with Pillarbox's tables, made by its own `migrate`."""
        database = self.postgres(name)
        self.run_program(["migrate"], PILLARBOX_DATABASE_URL=database.url)
        return database

    def interleave(self, contenders: Mapping[Key, Callable[[], float]]) -> dict[Key, Sample]:
        """All contenders in each round of this run."""
        samples = interleave(self.rounds, contenders, self.log)
        self.broken += [str(key) for key, sample in samples.items() if sample.broke]
        return samples

    def server_cpu(self) -> float:
        """CPU seconds used by PostgreSQL's processes so far."""
        return self._servers.cpu()

    @contextmanager
    def decodable(self) -> Iterator[None]:
        """Within the block, PostgreSQL's write-ahead log can be read. The server restarts before and after it."""
        self._servers.restart_postgres({"wal_level": "logical", "max_slot_wal_keep_size": "8GB"})
        try:
            yield
        finally:
            self._servers.restart_postgres({})

    @contextmanager
    def statements(self, database: Database) -> Iterator[None]:
        """pg_stat_statements counts within the block, and can be read in `database`, also after it."""
        database.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        for setting, value in (("compute_query_id", "on"), ("pg_stat_statements.track", "top")):
            database.execute(f"ALTER SYSTEM SET {setting} = '{value}'")
        database.execute("SELECT pg_reload_conf()")
        database.execute("SELECT pg_stat_statements_reset()")
        try:
            yield
        finally:
            database.execute("ALTER SYSTEM RESET ALL")
            database.execute("SELECT pg_reload_conf()")

    def run_load(self, args: list[str]) -> dict[str, Any]:
        """Runs `load` and reads the one line of JSON that it prints."""
        said = self.run([str(self.load), *args])
        try:
            return json.loads(said)
        except json.JSONDecodeError:
            raise RuntimeError(f"load {' '.join(args)}: no JSON but {said[:200]!r}") from None

    def run_program(self, args: list[str], **environment: str) -> str:
        """Runs a command of `pillarbox` to its end."""
        return self.run([str(self.program), *args], **environment)

    def run(self, command: list[str], cwd: Path | None = None, **environment: str) -> str:
        """What a command prints. Its diagnostics are shown only if it fails."""
        done = subprocess.run(
            command,
            env={**os.environ, "RUST_BACKTRACE": "0", **environment},
            cwd=cwd or self.directory,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        if done.returncode != 0:
            shown = " ".join(command)
            raise RuntimeError(f"{shown} ended with {done.returncode}:\n{done.stderr[-2000:]}")
        return done.stdout

    def about(self) -> About:
        """Machine, versions and settings, for the report."""
        return machine.describe(self)
