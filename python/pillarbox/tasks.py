"""The Celery tasks of those who stay in Python; `pillarbox.beat` has their schedule. Needs Celery."""

from __future__ import annotations

import logging

from celery import shared_task
from django.conf import settings

from pillarbox.cleanup import RETENTION_HOURS, cleanup_delivered_events
from pillarbox.process import process_pending_events
from pillarbox.retention import failed_seconds

logger = logging.getLogger("pillarbox")

_RETRY = {"bind": True, "max_retries": 2, "default_retry_delay": 60, "autoretry_for": (Exception,)}


@shared_task(name="pillarbox.tasks.deliver_outbox_events_task", **_RETRY)
def deliver_outbox_events_task(self) -> dict[str, int]:
    """Runs the handlers of at most 100 due events."""
    result = process_pending_events()
    if result["processed"]:
        logger.info("Delivered %d outbox events, %d remaining.", result["processed"], result["remaining"])
    return result


@shared_task(name="pillarbox.tasks.cleanup_delivered_outbox_events_task", **_RETRY)
def cleanup_delivered_outbox_events_task(self) -> dict[str, int]:
    """Deletes at most 1000 events that have been terminal for `OUTBOX_RETENTION_HOURS` (168).

    With `CELERY_OUTBOX_DLQ_RETENTION` failed events are kept as long as that says.
    """
    failed = failed_seconds()
    result = cleanup_delivered_events(
        getattr(settings, "OUTBOX_RETENTION_HOURS", RETENTION_HOURS),
        failed_retention_hours=None if failed is None else failed / 3600.0,
    )
    if result["deleted"]:
        logger.info("Cleaned up %d terminal outbox events, %d remaining.", result["deleted"], result["remaining"])
    return result
