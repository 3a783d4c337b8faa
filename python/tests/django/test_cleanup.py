"""Cleanup: old terminal events go, with all that is kept of them; pending ones never."""

from __future__ import annotations

import datetime

import pytest
from django.db import connections
from django.utils import timezone

import pillarbox
from pillarbox import databases
from pillarbox.ids import as_uuid
from pillarbox.models import OutboxEvent


@pytest.fixture
def make(alias):
    def make(status: str, hours: float) -> OutboxEvent:
        event = pillarbox.emit_event("Order", "1", "order.placed", {}, repeatable=True, using=alias)
        moment = timezone.now() - datetime.timedelta(hours=hours)
        OutboxEvent.objects.using(alias).filter(pk=event.pk).update(
            status=status,
            next_attempt_at=moment if status == "pending" else None,
            delivered_at=moment if status == "delivered" else None,
            created_at=moment,
            updated_at=moment,
        )
        return event

    return make


def test_old_terminal_events_go_and_the_rest_stays(make, alias):
    old = [make("delivered", 169), make("failed", 169)]
    kept = [make("delivered", 167), make("failed", 167), make("pending", 9999)]
    with connections[alias].cursor() as cursor:
        for event in (old[1], kept[1]):
            cursor.execute(
                "INSERT INTO outbox_attempt (event_id, number, destination, took_ms, error)"
                " VALUES (%s, 1, 'd', 1, 'e')",
                [databases.of(connections[alias]).id(event.pk)],
            )
            cursor.execute(
                "INSERT INTO outbox_delivery (event_id, destination, status) VALUES (%s, 'd', 'failed')",
                [databases.of(connections[alias]).id(event.pk)],
            )
    assert pillarbox.cleanup_delivered_events(using=alias) == {"deleted": 2, "remaining": 0}
    left = OutboxEvent.objects.using(alias).values_list("pk", flat=True)
    assert set(left) == {event.pk for event in kept}
    with connections[alias].cursor() as cursor:
        for table in ("outbox_attempt", "outbox_delivery"):
            cursor.execute(f"SELECT event_id FROM {table}")
            assert [as_uuid(row[0]) for row in cursor.fetchall()] == [kept[1].pk]


def test_one_batch_at_a_time_and_what_remains_is_told(make, alias):
    for _ in range(3):
        make("delivered", 5)
    assert pillarbox.cleanup_delivered_events(1, batch_size=2, using=alias) == {"deleted": 2, "remaining": 1}
    assert pillarbox.cleanup_delivered_events(1, using=alias) == {"deleted": 1, "remaining": 0}
    assert pillarbox.cleanup_delivered_events(1, using=alias) == {"deleted": 0, "remaining": 0}
