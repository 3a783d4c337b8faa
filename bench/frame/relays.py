"""The program `pillarbox relay` as a process beside whatever is measured, and what it uses."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from frame.bench import Bench
from frame.database import Database

TICKS = os.sysconf("SC_CLK_TCK")
# Everything is delivered to nowhere.
CONFIGURATION = """
[database]
url = "{url}"
[destinations.nowhere]
kind = "discard"
[[routes]]
events = "*"
to = ["nowhere"]
"""


class RunningRelay:
    """A relay that runs."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._proc = Path(f"/proc/{process.pid}")

    def cpu(self) -> float:
        """CPU seconds so far."""
        fields = (self._proc / "stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def memory(self) -> float:
        """What is resident now, in MB."""
        status = (self._proc / "status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
        return int(line.split()[1]) / 1024


@contextmanager
def relay(bench: Bench, database: Database) -> Iterator[RunningRelay]:
    """A relay with its defaults on this database, from when it has said that it is idle to the end of the block."""
    configuration = bench.directory / f"relay-{database.name}.toml"
    configuration.write_text(CONFIGURATION.format(url=database.url))
    log = bench.directory / f"relay-{database.name}.log"
    with log.open("wb") as errors:
        command = [str(bench.program), "relay", "--config", str(configuration)]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=errors, stderr=errors)
    try:
        wait_until_idle(database, process, log)
        yield RunningRelay(process)
        if process.poll() is not None:
            raise RuntimeError(f"the relay ended with {process.returncode}:\n{log.read_text()[-2000:]}")
    finally:
        process.terminate()
        try:
            process.wait(40)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_until_idle(database: Database, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(600):
        if database.value("SELECT count(*) FROM outbox_relay WHERE idle"):
            return
        if process.poll() is not None:
            break
        time.sleep(0.05)
    raise RuntimeError(f"the relay is not there:\n{log.read_text()[-2000:]}")
