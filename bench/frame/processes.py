"""Processes that drain one table together, and the rate that they reach.

Each prints one JSON object: when it handled its first job or event (`first_at`), when it knew the last one completed
in the database (`last_at`), both as seconds since 1970, and how many were its own (`settled`).
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# A drain that takes longer has stopped.
PATIENCE = 300.0


@dataclass
class Drained:
    """What the processes of one drain did together."""

    rate: float
    reports: list[dict[str, Any]]


def drain(
    commands: Sequence[Sequence[str | Path]], count: int, log: Path, cwd: Path | None = None, **environment: str
) -> Drained:
    """From the first job that any of them handled to the last that was completed."""
    surroundings = {**os.environ, "RUST_BACKTRACE": "0", **environment}
    with log.open("ab") as errors:
        processes = [
            subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, env=surroundings, cwd=cwd
            )
            for command in commands
        ]
        try:
            said = [process.communicate(timeout=PATIENCE)[0] for process in processes]
        finally:
            for process in processes:
                process.kill()
                process.wait()
    for process, command in zip(processes, commands, strict=True):
        if process.returncode != 0:
            tail = log.read_text(errors="replace")[-2000:]
            raise RuntimeError(f"{' '.join(map(str, command))} ended with {process.returncode}:\n{tail}")
    reports = [json.loads(line) for line in said]
    settled = sum(report["settled"] for report in reports)
    if settled != count:
        raise RuntimeError(f"{' '.join(map(str, commands[0]))}: {settled} of {count} were completed")
    # One that found nothing to do has no first moment.
    worked = [report for report in reports if report["settled"]]
    seconds = max(report["last_at"] for report in worked) - min(report["first_at"] for report in worked)
    return Drained(count / seconds, reports)
