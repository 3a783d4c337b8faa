"""The relays that are compared, as processes: how each is started, and how much memory it took."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Relay:
    """One way to empty the same table."""

    name: str
    command: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)


def theirs(batch: int, *, confirms: bool = False) -> Relay:
    """django-celery-outbox's own command."""
    command = (sys.executable, "-m", "django", "celery_outbox_relay", "--batch-size", str(batch))
    confirmed = ", confirms" if confirms else ""
    return Relay(
        f"celery_outbox_relay, batch {batch}{confirmed}", command, {"COMPARE_CONFIRMS": "1"} if confirms else {}
    )


def ours(program: str, batch: int) -> Relay:
    """Pillarbox on the same tables. On RabbitMQ it always waits for confirms."""
    return Relay(f"pillarbox celery-relay, batch {batch}", (program, "celery-relay", "--batch-size", str(batch)))


class Running:
    """A relay that runs, until the block ends."""

    def __init__(self, relay: Relay, environment: dict[str, str], log: Path) -> None:
        self.relay = relay
        self._environment = {**os.environ, **environment, **relay.environment, "PYTHONPATH": str(HERE)}
        self._log = log

    def __enter__(self) -> Running:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self.relay.command, env=self._environment, stdout=log, stderr=log, cwd=self._log.parent
            )
        return self

    def check(self) -> None:
        """A relay that has ended by itself is no relay."""
        if self._process.poll() is not None:
            raise SystemExit(f"{self.relay.name} ended with {self._process.returncode}; see {self._log}")

    def peak_memory(self) -> float:
        """The most that was resident, in MB."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) / 1024

    def __exit__(self, *_: object) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(40)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
