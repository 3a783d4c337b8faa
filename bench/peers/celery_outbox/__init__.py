"""django-celery-outbox: its relay on rows of its own producer, as bench/celery sets it up.

A drain counts from the first message that the broker has to the last, and ends with an empty table.
"""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from importlib import metadata
from pathlib import Path
from types import ModuleType

from frame.bench import Bench

SETUP = Path(__file__).resolve().parents[2] / "celery"
sys.path.append(str(SETUP))
QUEUE = "peer"
NAME = "django-celery-outbox"
SETTINGS = "celery_outbox_relay, --batch-size 1000, otherwise its defaults; relayed rows are deleted"


def version() -> str:
    return metadata.version(NAME)


class Together:
    """Several relays, asked as one."""

    def __init__(self, running: list) -> None:
        self.relay, self._running = running[0].relay, running

    def check(self) -> None:
        for one in self._running:
            one.check()


class CeleryOutbox:
    """Its tables, filled once; each drain starts from a copy of the rows."""

    def __init__(self, bench: Bench, rows: int) -> None:
        self.rows, self._log = rows, bench.directory / "celery_outbox.log"
        self._compare = self._modules(bench.postgres("peer_celery_outbox").url, bench.redis)
        self._compare.prepare(rows)

    @staticmethod
    def _modules(database: str, broker: str) -> ModuleType:
        """Django reads its settings once in a process: one database, and any broker, as nothing is sent from here."""
        os.environ.update(
            DJANGO_SETTINGS_MODULE="shop",
            COMPARE_DATABASE_URL=database,
            COMPARE_BROKER_URL=broker,
            COMPARE_QUEUE=QUEUE,
        )
        import compare

        return compare

    def drain(self, url: str, *, relays: int = 1, confirms: bool = False) -> float:
        """Messages a second."""
        import brokers
        import relays as theirs

        broker = brokers.connect(url, QUEUE)
        broker.purge()
        self._compare.refill()
        relay = theirs.theirs(1000, confirms=confirms)
        try:
            with ExitStack() as stack:
                running = [
                    stack.enter_context(theirs.Running(relay, {"COMPARE_BROKER_URL": url}, self._log))
                    for _ in range(relays)
                ]
                return self._compare.drain(broker, Together(running), self.rows)
        except SystemExit as error:
            raise RuntimeError(str(error)) from error
        finally:
            broker.purge()


def depth(url: str, queue: str) -> int:
    """How many messages a queue has; it is emptied."""
    import brokers

    broker = brokers.connect(url, queue)
    count = broker.depth()
    broker.purge()
    return count
