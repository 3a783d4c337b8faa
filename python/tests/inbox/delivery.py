"""Delivers events by the real relay to a receiver that is killed, through a network that loses requests and answers.

    .venv/bin/python -m tests.inbox.delivery --events 20000 --kills 20 express django-postgres

prints for each receiver how many events its database handled. Run it in `python`, with servers of `scripts/servers`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.inbox.kits import KITS, SECRET, Kit
from tests.processes import Processes, pillarbox
from tests.servers import connect, create_database, free_port

PATIENCE = 600
RELAY = """
[database]
url = "{outbox}"
[relay.retry]
base = "200ms"
cap = "1s"
max_attempts = 0
[relay.breaker]
base = "100ms"
cap = "500ms"
[destinations.receiver]
kind = "http"
url = "http://127.0.0.1:{port}/events"
allow_private = true
secrets = ["{secret}"]
timeout = "5s"
concurrency = 8
[[routes]]
to = ["receiver"]
[admin]
listen = "off"
"""


class Network:
    """Forwards connections, and drops some of them: before a request arrives, or before its answer does."""

    def __init__(self, target: int, seed: int) -> None:
        self.port, self.target = free_port(), target
        self.random = random.Random(seed)
        self.lost: Counter[str] = Counter()
        self.duplicates = 0
        self.loop = asyncio.new_event_loop()
        started = threading.Event()
        self.thread = threading.Thread(target=self._run, args=[started], daemon=True)
        self.thread.start()
        assert started.wait(10)

    def _run(self, started: threading.Event) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_until_complete(asyncio.start_server(self._forward, "127.0.0.1", self.port))
        started.set()
        self.loop.run_forever()

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self.loop).result(10)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(10)

    async def _end(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.close()
            return
        ways = {
            asyncio.create_task(self._copy(reader, back, "requests", 0.005)),
            asyncio.create_task(self._copy(there, writer, "answers", 0.03)),
        }
        # Also when the network ends: asyncio logs what is cancelled.
        with suppress(asyncio.CancelledError):
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in ways:
            way.cancel()
        for end in (writer, back):
            end.transport.abort()

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, what: str, share: float) -> None:
        with suppress(OSError):
            while chunk := await reader.read(65536):
                if self.random.random() < share:
                    self.lost[what] += 1
                    return
                self.duplicates += chunk.count(b"duplicate")
                writer.write(chunk)
                await writer.drain()


@dataclass
class Outcome:
    """What was counted after all events were delivered."""

    emitted: list[str]
    handled: list[str]
    recorded: list[str]
    kills: int
    lost: Counter[str]
    duplicates: int

    @property
    def is_exact(self) -> bool:
        return self.emitted == self.handled == self.recorded

    def __str__(self) -> str:
        twice = len(self.handled) - len(set(self.handled))
        return (
            f"{len(self.emitted)} events, {len(set(self.handled))} handled, {twice} handled twice, {self.kills} kills, "
            f"{self.lost['requests']} requests and {self.lost['answers']} answers lost, "
            f"{self.duplicates} duplicates answered"
        )


def deliver(name: str, directory: Path, *, events: int, kills: int, seed: int = 1) -> Outcome:
    """Emits events, delivers them while the receiver is killed, and counts what it has handled."""
    processes = Processes(directory)
    kit = Kit(name, processes, directory)
    network = Network(kit.port, seed)
    try:
        outbox = create_database()
        emitted = emit(outbox, events)
        kit.start()
        processes.relay("relay", RELAY.format(outbox=outbox, port=network.port, secret=SECRET))
        for kill in range(1, kills + 1):
            wait_until(processes, lambda kill=kill: handled(kit) >= events * kill // (kills + 1))
            kit.kill()
            kit.start()
        wait_until(processes, lambda: pending(outbox) == 0)
        return Outcome(emitted, kit.handled(), kit.recorded(), kills, network.lost, network.duplicates)
    finally:
        network.stop()
        processes.stop()


def emit(outbox: str, events: int) -> list[str]:
    environment = {**os.environ, "PILLARBOX_DATABASE_URL": outbox}
    subprocess.run([pillarbox(), "migrate"], env=environment, check=True, capture_output=True)
    with connect(outbox) as connection:
        connection.execute(
            "SELECT outbox_emit('Order', number::text, 'order.placed', '{}') FROM generate_series(1, %s) number",
            [events],
        )
        return sorted(str(row[0]) for row in connection.execute("SELECT id FROM outbox_event"))


def pending(outbox: str) -> int:
    with connect(outbox) as connection:
        [count] = connection.execute("SELECT count(*) FROM outbox_event WHERE status <> 'delivered'").fetchone()
        return count


def handled(kit: Kit) -> int:
    return kit.query("SELECT count(*) FROM handled")[0][0]


def wait_until(processes: Processes, condition) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        processes.check()
        assert time.monotonic() < deadline, processes.log("receiver")[-3000:]
        time.sleep(0.05)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kits", nargs="*", metavar="KIT", help=f"default: all of {', '.join(KITS)}")
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    failed = False
    for name in arguments.kits or KITS:
        started = time.monotonic()
        with tempfile.TemporaryDirectory() as directory:
            counts = {"events": arguments.events, "kills": arguments.kills, "seed": arguments.seed}
            outcome = deliver(name, Path(directory), **counts)
        failed |= not outcome.is_exact
        verdict = "ok" if outcome.is_exact else "FAILED"
        print(f"{name}: {verdict}: {outcome}, {time.monotonic() - started:.0f} s", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
