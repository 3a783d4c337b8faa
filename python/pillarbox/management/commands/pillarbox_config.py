"""`manage.py pillarbox_config`: prints the relay's configuration, from the settings of the Celery app."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError, CommandParser

from pillarbox.program import require_celery


class Command(BaseCommand):
    help = "Prints the relay's configuration, from the settings of the Celery app CELERY_OUTBOX_APP; without secrets"
    # A configuration can be printed where no database is.
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--source",
            choices=("outbox", "django-celery-outbox"),
            default="outbox",
            help="where the relay finds the tasks: the table of this app, or the tables of django-celery-outbox",
        )
        parser.add_argument(
            "--without-routes",
            action="store_true",
            help="leave task_routes out: OutboxCelery records the route with each task",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            require_celery()
            from pillarbox.celery.config import CannotSay, relay_config
            from pillarbox.celery.loading import load_app
        except ImproperlyConfigured as error:
            raise CommandError(str(error)) from error
        try:
            config = relay_config(load_app(), source=options["source"], routes=not options["without_routes"])
        except ImproperlyConfigured as error:
            raise CommandError(str(error)) from error
        except CannotSay as error:
            raise CommandError("\n".join(["the configuration cannot be printed:", *error.problems])) from error
        self.stdout.write(config, ending="")
