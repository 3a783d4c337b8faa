"""awa: a queue in Rust with a storage engine of its own in PostgreSQL, from crates.io."""

from __future__ import annotations

import re

from frame.bench import Bench
from frame.database import Database
from peers.peer import HERE, Peer

HOME = HERE / "awa"
PROGRAM = HOME / "target/release/awa-peer"


def fill(bench: Bench, database: Database, rows: int) -> None:
    bench.run([str(PROGRAM), "fill", database.url, str(rows)])


def version() -> str:
    found = re.search(r'name = "awa"\nversion = "([^"]+)"', (HOME / "Cargo.lock").read_text())
    return found[1] if found else "unknown"


PEER = Peer(
    key="awa",
    name="awa",
    settings="queue storage (its default), 2048 workers, claims of 512, completions in batches of 512, no deadlines",
    version=version,
    fill=fill,
    command=lambda url, rows: [str(PROGRAM), "drain", url, str(rows)],
    slow=True,
    missing=lambda: None if PROGRAM.exists() else "it could not be built",
)
