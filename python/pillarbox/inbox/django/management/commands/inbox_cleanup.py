"""`manage.py inbox_cleanup`: deletes old records of the inbox."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.db import DEFAULT_DB_ALIAS

from pillarbox.inbox.django import KEEP, cleanup


class Command(BaseCommand):
    help = "Deletes records of the inbox that are older than a number of days."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--days", type=float, default=KEEP.days, help=f"default: {KEEP.days}")
        parser.add_argument("--database", default=DEFAULT_DB_ALIAS)

    def handle(self, *args: Any, days: float, database: str, **options: Any) -> None:
        self.stdout.write(f"{cleanup(timedelta(days=days), using=database)} deleted")
