"""The beat entries of those who stay in Python. Needs Celery.

    CELERY_BEAT_SCHEDULE = {**pillarbox.beat.beat_schedule(sweep_minutes=5), ...}

or, where the settings are ready: `app.conf.beat_schedule.update(beat_schedule())`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from celery.schedules import crontab

SWEEP_INTERVAL_MINUTES = 5


def beat_schedule(*, sweep_minutes: float | None = None, queue: str | None = None) -> dict[str, dict[str, Any]]:
    """The two entries. Without `sweep_minutes` the setting `OUTBOX_SWEEP_INTERVAL_MINUTES` counts, else 5.

    Inside a settings module Django's settings cannot be read yet: give `sweep_minutes` there.
    """
    if sweep_minutes is None:
        from django.conf import settings

        sweep_minutes = getattr(settings, "OUTBOX_SWEEP_INTERVAL_MINUTES", SWEEP_INTERVAL_MINUTES)
    options = {"options": {"queue": queue}} if queue else {}
    return {
        "deliver-outbox-events-sweep": {
            "task": "pillarbox.tasks.deliver_outbox_events_task",
            "schedule": timedelta(minutes=sweep_minutes),
            **options,
        },
        "cleanup-delivered-outbox-events": {
            "task": "pillarbox.tasks.cleanup_delivered_outbox_events_task",
            "schedule": crontab(minute="30", hour="*/6"),
            **options,
        },
    }
