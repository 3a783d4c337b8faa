"""One shop of the tests with real parts: a Django project with an outbox, a broker, and the processes between them."""

from __future__ import annotations

import json
import subprocess
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import redis
from kombu import Connection

from tests import processes, servers

PATIENCE = 240
"""Seconds. Long, because a busy machine is slow, and nobody waits for it when all is well."""
POLL = 0.02


def wait_until(what: str, check: Callable[[], Any], running: processes.Processes) -> None:
    """Fails after a while, or as soon as one of the processes has failed."""
    deadline = time.monotonic() + PATIENCE
    while not check():
        running.check()
        assert time.monotonic() < deadline, f"waited {PATIENCE} s in vain until {what}"
        time.sleep(POLL)


class Shop:
    """`kind` says whose outbox it has: `outbox` pillarbox's, `adopted` django-celery-outbox's, `plain` none.

    `server` is the database that it is in: `postgres` or `mariadb`."""

    TABLES = {"outbox": "outbox_event", "adopted": "celery_outbox"}

    def __init__(self, directory: Path, kind: str, broker: str, server: str = "postgres") -> None:
        self.kind, self.broker = kind, broker
        self.run = f"parts-{uuid.uuid4().hex[:8]}"
        self.database = servers.create_database(server)
        self.processes = processes.Processes(directory)
        self.marks = redis.Redis.from_url(servers.broker("redis"))
        if kind != "plain":
            self.produce("migrate")

    def __enter__(self) -> Shop:
        return self

    def __exit__(self, *error: object) -> None:
        self.processes.stop()

    def environment(self, **variables: str) -> dict[str, str]:
        variables = {
            "PARTS_KIND": self.kind,
            "PARTS_RUN": self.run,
            "PARTS_BROKER": self.broker,
            "PARTS_MARKS": servers.broker("redis"),
            **variables,
        }
        kind = variables["PARTS_KIND"]
        if kind == "plain":
            return processes.environment(**variables)
        return processes.project(kind, self.database, "tests.parts.app.app", **variables)

    def producer(self, *arguments: str, **variables: str) -> subprocess.Popen[bytes]:
        """A producer that goes on by itself."""
        command = [processes.python(processes.NEWEST), "-m", "tests.parts.produce", *arguments]
        return self.processes.start(f"producer-{arguments[0]}", command, self.environment(**variables))

    def produce(self, *arguments: str, **variables: str) -> None:
        """A producer, to its end."""
        self.producer(*arguments, **variables).wait(PATIENCE)
        self.processes.check()

    def worker(self, **variables: str) -> None:
        """An unmodified worker: plain Celery."""
        command = processes.worker(processes.NEWEST, "tests.parts.app", self.run)
        self.processes.start("worker", command, self.environment(PARTS_KIND="plain", **variables))

    def relay(self, *, declare: bool = True, more: str = "") -> subprocess.Popen[bytes]:
        """`pillarbox relay`; `more` are further lines about the destination."""
        declares = str(declare).lower()
        configuration = CONFIGURATION[self.kind].format(
            database=self.database, broker=self.broker, queue=self.run, declare=declares, more=more
        )
        return self.processes.relay("relay", configuration)

    def python_relay(self) -> None:
        """django-celery-outbox's own."""
        command = [processes.python(processes.NEWEST), "-m", "django", "celery_outbox_relay", "--idle-time", "0.05"]
        self.processes.start("python-relay", command, self.environment())

    def query(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with servers.connect(self.database) as connection, connection.cursor() as cursor:
            cursor.execute(statement, values)
            return list(cursor.fetchall()) if cursor.description else []

    def waiting(self) -> int:
        """How many tasks are still to be delivered."""
        where = "WHERE status = 'pending'" if self.kind == "outbox" else ""
        [[number]] = self.query(f"SELECT count(*) FROM {self.TABLES[self.kind]} {where}")
        return number

    def given_up(self) -> list[tuple[Any, ...]]:
        """The id of each task that was given up, and why."""
        if self.kind == "outbox":
            return self.query("SELECT aggregate_id, error_message FROM outbox_event WHERE status = 'failed'")
        return self.query("SELECT task_id, failure_reason FROM celery_outbox_dead_letter")

    def sent(self) -> set[str]:
        """The ids of all tasks whose transactions were committed."""
        return {name.decode() for name in self.marks.smembers(f"{self.run}-sent")}

    def ran(self) -> dict[str, int]:
        """How many times each task ran."""
        return {name.decode(): int(times) for name, times in self.marks.hgetall(f"{self.run}-ran").items()}

    def arrived(self) -> list[str]:
        """Takes what is in the queue; the ids of the tasks."""
        found = []
        with Connection(self.broker) as connection, connection.SimpleQueue(self.run, no_ack=True) as queue:
            for _ in range(len(queue)):
                found.append(queue.get_nowait().headers["id"])
        return found

    def told(self, what: str) -> dict[str, Any]:
        """What the next process tells, waiting for it."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if popped := self.marks.blpop([f"{self.run}-{what}"], timeout=1):
                return json.loads(popped[1])
            self.processes.check()
        raise AssertionError(f"nobody told {what} within {PATIENCE} s")

    def wait_until(self, what: str, check: Callable[[], Any]) -> None:
        wait_until(what, check, self.processes)


CONFIGURATION = {
    "outbox": """
[database]
url = "{database}"
[destinations.celery]
kind = "celery"
broker = "{broker}"
declare = {declare}
{more}
[[routes]]
events = "*"
to = ["celery"]
""",
    "adopted": """
[database]
url = "{database}"
[source]
kind = "django-celery-outbox"
[destinations.celery]
kind = "celery"
broker = "{broker}"
default_queue = "{queue}"
declare = {declare}
{more}
""",
}
