"""`manage.py pillarbox_stats`: the outbox in numbers."""

from __future__ import annotations

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError

from pillarbox.summary import summary, top_failing


class Command(BaseCommand):
    help = "The outbox in numbers: pending and failed events, and the age of the oldest pending event"

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="print one JSON object")
        parser.add_argument("--format", choices=["text", "json"], default="text", help="json: the same as --json")
        parser.add_argument("--top", type=int, default=0, metavar="N", help="also print the N types that fail most")
        parser.add_argument("--database", default=None, metavar="ALIAS", help="the database; by default the router's")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            counts = summary(using=options["database"])
            failing = top_failing(options["top"], using=options["database"]) if options["top"] > 0 else []
        except DatabaseError as error:
            raise CommandError(f"the outbox cannot be read: {error}; if its tables are missing, run migrate") from error
        answer = {
            "pending": counts.pending,
            "due": counts.due,
            "sending": counts.sending,
            "parked": counts.parked,
            "failed": counts.failed,
            "delivered": counts.delivered,
            "total": counts.total,
            "oldest_pending_seconds": counts.oldest_pending,
        }
        if options["top"] > 0:
            answer["top_failing"] = failing
        if options["json"] or options["format"] == "json":
            self.stdout.write(json.dumps(answer))
            return
        answer["oldest_pending"] = counts.oldest_pending_age or "-"
        del answer["oldest_pending_seconds"]
        answer.pop("top_failing", None)
        for name, value in answer.items():
            self.stdout.write(f"{name.replace('_', ' '):<15} {value}")
        for row in failing:
            self.stdout.write(f"  {row['event_type']}: {row['events']} events, {row['attempts']} failed attempts")
