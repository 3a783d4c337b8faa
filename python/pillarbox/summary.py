"""The outbox in numbers, for the admin and for `manage.py pillarbox_stats`."""

from __future__ import annotations

import datetime
from dataclasses import dataclass

from django.db import router
from django.db.models import Count, Sum

from pillarbox.models import OutboxEvent
from pillarbox.store import Store

ALL = 10**18


@dataclass(frozen=True)
class Summary:
    """`pending` are all that wait, `due`, `sending` and `parked` some of them; ages are in seconds."""

    pending: int
    due: int
    sending: int
    parked: int
    failed: int
    total: int
    estimated: bool
    oldest_pending: float | None

    @property
    def delivered(self) -> int:
        return self.total - self.pending - self.failed

    @property
    def oldest_pending_age(self) -> datetime.timedelta | None:
        return None if self.oldest_pending is None else datetime.timedelta(seconds=int(self.oldest_pending))


def summary(*, count_up_to: int = ALL, using: str | None = None) -> Summary:
    """Counts; from so many rows on (PostgreSQL) the total is the database's estimate."""
    store = Store(using or router.db_for_read(OutboxEvent))
    row = store.database.run("summary", count_up_to)[0]
    oldest = None if row[7] is None else max(0.0, row[7])
    return Summary(*row[:6], estimated=bool(row[6]), oldest_pending=oldest)


def top_failing(limit: int, *, using: str | None = None) -> list[dict[str, object]]:
    """The types of events whose attempts failed most often, among those that are kept and not delivered."""
    alias = using or router.db_for_read(OutboxEvent)
    return list(
        OutboxEvent.objects.using(alias)
        .filter(attempts__gt=0)
        .exclude(status=OutboxEvent.Status.DELIVERED)
        .values("event_type")
        .annotate(events=Count("pk"), attempts=Sum("attempts"))
        .order_by("-attempts", "event_type")[:limit]
    )
