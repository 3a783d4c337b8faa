"""`manage.py pillarbox_relay`: runs the program on the database and the broker of the settings.

Secrets go by the environment. If anybody receives the signals of :mod:`pillarbox.signals`, the program is a child of
this command, which sends them; otherwise it takes the place of this process.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError, connections, router

from pillarbox import databases, metrics, program, report

#: The program's own default, in the current directory.
_OWN_CONFIG = "pillarbox.toml"


class Command(BaseCommand):
    help = (
        "Runs the relay with the database and the broker of the settings. Other flags are passed to the"
        " program: see pillarbox relay --help, or pillarbox celery-relay --help for django-celery-outbox."
    )
    stealth_options = ("flags",)

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--source",
            choices=("outbox", "django-celery-outbox"),
            default="outbox",
            help="where the tasks are: in the table of this app, or in the tables of django-celery-outbox",
        )
        parser.add_argument("--database", metavar="ALIAS", help="the database; by default the router's")
        parser.add_argument(
            "--broker-url-setting",
            metavar="NAME",
            help="the setting with the broker's URL; by default that of the Celery app",
        )
        parser.add_argument(
            "--config",
            metavar="FILE",
            help=f"the relay's configuration; by default ./{_OWN_CONFIG}, or what pillarbox_config prints",
        )

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        """What this command does not know is for the program."""
        parser = super().create_parser(prog_name, subcommand, **kwargs)
        known = parser.parse_known_args

        def parse_args(args: Any = None, namespace: Any = None) -> argparse.Namespace:
            parsed, flags = known(args, namespace)
            parsed.flags = [flag for flag in flags if flag != "--"]
            return parsed

        parser.parse_args = parse_args  # type: ignore[method-assign]
        return parser

    def handle(self, *args: Any, **options: Any) -> None:
        own = options["config"] or (_OWN_CONFIG if os.path.exists(_OWN_CONFIG) else None)
        try:
            path = program.find_program()
            environment = self._environment(options)
            written = self._celery(options, environment, has_config=own is not None)
        except (ImproperlyConfigured, DatabaseError) as error:
            raise CommandError(f"the relay cannot be started: {error}") from error
        for connection in connections.all(initialized_only=True):
            connection.close()
        with _named(written) as name:
            command = [path, *self._subcommand(options), "--config", own or name]
            if not report.is_wanted():
                sys.stdout.flush()
                os.execve(path, command, environment)  # noqa: S606
            code = _run_child([*command, "--report"], environment)
        if code:
            raise SystemExit(code)

    def _subcommand(self, options: dict[str, Any]) -> list[str]:
        """What the program is to do, with its own flags."""
        flags = options.get("flags", [])
        if options["source"] != "django-celery-outbox":
            return ["relay", *flags]
        stale = getattr(settings, "CELERY_OUTBOX_STALE_TIMEOUT_SECONDS", None)
        if stale is not None and not any(flag.startswith("--stale-timeout-seconds") for flag in flags):
            flags = [*flags, "--stale-timeout-seconds", str(stale)]
        return ["celery-relay", *flags]

    def _environment(self, options: dict[str, Any]) -> dict[str, str]:
        """The environment of this process, with the secrets of the settings. What is in it already stays."""
        from pillarbox.models import OutboxEvent

        given = dict(os.environ)
        if "PILLARBOX_DATABASE_URL" not in given:
            alias = options["database"] or router.db_for_write(OutboxEvent)
            given["PILLARBOX_DATABASE_URL"] = databases.of(connections[alias]).url()
            if passfile := (connections[alias].settings_dict.get("OPTIONS") or {}).get("passfile"):
                given.setdefault("PGPASSFILE", str(passfile))
            table = "celery_outbox" if options["source"] == "django-celery-outbox" else OutboxEvent._meta.db_table
            if schema := databases.of(connections[alias]).schema_of(table):
                given.setdefault("PILLARBOX_DATABASE_SCHEMA", schema)
        if metrics.enabled() and hasattr(settings, "MONITORING_STATSD_HOST"):
            given.setdefault("PILLARBOX_METRICS_STATSD", metrics.address_text())
            given.setdefault("PILLARBOX_METRICS_PREFIX", metrics.prefix())
            if tags := ",".join(f"{key}={value}" for key, value in metrics.constant_tags().items()):
                given.setdefault("PILLARBOX_METRICS_TAGS", tags)
        return given

    def _celery(self, options: dict[str, Any], environment: dict[str, str], *, has_config: bool) -> str:
        """Puts the broker's URL into the environment; answers a configuration if the project has none of its own."""
        if not getattr(settings, "CELERY_OUTBOX_APP", None):
            if has_config:
                return ""  # a project that only emits events
            raise ImproperlyConfigured(
                f"it has no configuration: write ./{_OWN_CONFIG} or give --config; or, for tasks of Celery, set"
                ' CELERY_OUTBOX_APP to the dotted path of your Celery app, for example "shop.celery.app"'
            )
        program.require_celery()
        from pillarbox.celery.broker import broker_of
        from pillarbox.celery.config import DJANGO_CELERY_OUTBOX, CannotSay, relay_config
        from pillarbox.celery.loading import load_app

        app = load_app()
        broker = broker_of(app, _setting(options["broker_url_setting"]))
        environment.setdefault("PILLARBOX_BROKER_URL", broker.url)
        if broker.sentinel_password:
            environment.setdefault("PILLARBOX_SENTINEL_PASSWORD", broker.sentinel_password)
        if has_config:
            return ""
        source = options["source"]
        try:
            # Tasks of OutboxCelery carry their route with them.
            return relay_config(app, source=source, routes=source == DJANGO_CELERY_OUTBOX, broker=broker)
        except CannotSay as error:
            raise ImproperlyConfigured("; ".join(error.problems)) from error


def _setting(name: str | None) -> str | None:
    if name is None:
        return None
    value = getattr(settings, name, None)
    if not value or not isinstance(value, str):
        raise ImproperlyConfigured(f"the setting {name} of --broker-url-setting is not the URL of a broker")
    return value


@contextmanager
def _named(text: str) -> Iterator[str]:
    """A name by which the program can open a text. The file itself has none, so that nobody need remove it."""
    with tempfile.TemporaryFile() as file:
        file.write(text.encode())
        file.seek(0)
        os.set_inheritable(file.fileno(), True)
        yield f"/dev/fd/{file.fileno()}"


def _run_child(command: list[str], environment: dict[str, str]) -> int:
    """Runs the program and tells what it reports. It has a session of its own: it hears of signals only from here."""
    child: subprocess.Popen[bytes] | None = None
    received: list[int] = []

    def forward(number: int, _frame: Any) -> None:
        received.append(number)
        if child is not None:
            child.send_signal(signal.SIGTERM if number == signal.SIGHUP else number)

    before = {number: signal.signal(number, forward) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    try:
        child = subprocess.Popen(  # noqa: S603
            command, env=environment, stdout=subprocess.PIPE, close_fds=False, start_new_session=True
        )
        if received:
            child.terminate()  # it came while there was nobody to forward it to
        with child.stdout as lines:
            report.listen(lines)
        code = child.wait()
    finally:
        if child is not None and child.poll() is None:
            child.terminate()
            child.wait()
        for number, handler in before.items():
            signal.signal(number, handler)
    return code if code >= 0 else 128 - code
