"""The processes that a test starts: workers, producers, relays. Each has a log, and none outlives the test."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from celery import Celery

ROOT = Path(__file__).parents[2]
NEWEST, CELERY_53 = ".venv", ".venv-celery53"
"""The Python environments that `scripts/setup` makes."""


def python(environment: str, program: str = "python") -> str:
    """A program of one of the Python environments."""
    return str(ROOT / environment / "bin" / program)


def pillarbox() -> str:
    """The built program; `make test` says which."""
    return os.environ.get("PILLARBOX_PROGRAM") or str(ROOT / "target/debug/pillarbox")


def environment(**variables: str) -> dict[str, str]:
    """For a Python program that finds the tests' modules. Django's settings are named only by those who want Django."""
    inherited = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    return {
        **inherited,
        "PYTHONPATH": str(ROOT / "python"),
        # Workers that accept pickle refuse to run as root, which is who runs tests in a container.
        "C_FORCE_ROOT": "1",
        # Celery makes lists of stamps from sets.
        "PYTHONHASHSEED": "0",
        **variables,
    }


def project(kind: str, database: str, app: str, **variables: str) -> dict[str, str]:
    """For a process of a Django project with an outbox: pillarbox's, or `adopted` from django-celery-outbox."""
    return environment(
        DJANGO_SETTINGS_MODULE="tests.project",
        PROJECT_KIND=kind,
        PROJECT_DATABASE=database,
        PROJECT_APP=app,
        **variables,
    )


def worker(environment: str, module: str, hostname: str) -> list[str]:
    """A worker that does one task after the other, and talks to no other worker."""
    quiet = ("--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel=INFO")
    return [python(environment, "celery"), "-A", module, "worker", "--pool=solo", f"--hostname={hostname}", *quiet]


def outbox_class(kind: str) -> type[Celery]:
    """The application class that a process of a kind uses, Django being set up if it needs it."""
    if kind == "plain":
        from celery import Celery

        return Celery
    import django

    django.setup()
    if kind == "outbox":
        from pillarbox.celery import OutboxCelery
    else:
        from django_celery_outbox.app import OutboxCelery
    return OutboxCelery


class Processes:
    """By their names; logs are in `directory`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, command: list[str], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
        if name in self.running:
            # Two of the same name would be one that nobody stops.
            assert self.running[name].poll() is not None, f"{name} is running already"
        with (self.directory / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                command, env=environment, cwd=self.directory, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        self.running[name] = process
        return process

    def relay(self, name: str, configuration: str) -> subprocess.Popen[bytes]:
        """`pillarbox relay` with this configuration."""
        path = self.directory / f"{name}.toml"
        path.write_text(configuration)
        return self.start(name, [pillarbox(), "relay", "--config", str(path)], os.environ)

    def log(self, name: str) -> str:
        return (self.directory / f"{name}.log").read_text(errors="replace")

    def check(self) -> None:
        """Fails when a process has failed, with its last words."""
        for name, process in self.running.items():
            if process.poll() not in (None, 0):
                raise AssertionError(f"{name} ended with {process.returncode}:\n{self.log(name)[-3000:]}")

    def stop(self) -> None:
        """At once: nothing that they have is wanted any more."""
        for process in self.running.values():
            process.kill()
        for process in self.running.values():
            process.wait()
