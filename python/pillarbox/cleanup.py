"""Cleanup: terminal events go when they have been terminal long enough, with all that is kept of them."""

from __future__ import annotations

from django.db import router

from pillarbox.models import OutboxEvent
from pillarbox.store import Store

BATCH_SIZE = 1000
RETENTION_HOURS = 168


def cleanup_delivered_events(
    retention_hours: float = RETENTION_HOURS, *, batch_size: int = BATCH_SIZE, using: str | None = None
) -> dict[str, int]:
    """Deletes one batch of delivered and failed events that have been so for so long, never a pending one.

    Answers how many were deleted, and how many old ones remain for the next time.
    """
    store = Store(using or router.db_for_write(OutboxEvent))
    seconds = retention_hours * 3600.0
    deleted = store.cleanup(seconds, seconds, batch_size)
    # A count reads all that is old: only where there may be some.
    remaining = store.cleanup_remaining(seconds, seconds) if deleted >= batch_size else 0
    return {"deleted": deleted, "remaining": remaining}
