"""The program `pillarbox`, run on the databases of the tests."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from django.db import connections

from pillarbox import databases

REPOSITORY = Path(__file__).parents[3]


def program() -> Path:
    """PILLARBOX_PROGRAM, else what cargo built last."""
    target = Path(os.environ.get("CARGO_TARGET_DIR") or REPOSITORY / "target")
    path = Path(os.environ.get("PILLARBOX_PROGRAM") or target / "debug" / "pillarbox")
    if not path.exists():
        raise RuntimeError(f"{path} is not there: run cargo build -p pillarbox-cli, or set PILLARBOX_PROGRAM")
    return path


def url(alias: str) -> str:
    """Where the program finds the database of an alias."""
    return databases.of(connections[alias]).url()


def environment(database: str, **more: str) -> dict[str, str]:
    return {**os.environ, "PILLARBOX_DATABASE_URL": database, "RUST_LOG": "warn", **more}


def run(database: str, *arguments: str, cwd: Path, **more: str) -> Any:
    """Runs a command with `--json` and answers what it answered."""
    answer = subprocess.run(
        [program(), *arguments, "--json"],
        env=environment(database, **more),
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)
