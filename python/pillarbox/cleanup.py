"""Cleanup: terminal events go when they have been terminal long enough, with all that is kept of them."""

from __future__ import annotations

from django.db import router

from pillarbox.connection import close_if_broken
from pillarbox.models import OutboxEvent
from pillarbox.store import Store

BATCH_SIZE = 1000
RETENTION_HOURS = 168


def cleanup_delivered_events(
    retention_hours: float = RETENTION_HOURS,
    *,
    failed_retention_hours: float | None = None,
    batch_size: int = BATCH_SIZE,
    using: str | None = None,
) -> dict[str, int]:
    """Deletes one batch of delivered and failed events that have been so for so long, never a pending one.

    Failed events are kept for `failed_retention_hours` if it is given.

    Answers how many were deleted, and how many old ones remain for the next time.
    """
    store = Store(using or router.db_for_write(OutboxEvent))
    close_if_broken(store.connection)
    delivered = retention_hours * 3600.0
    failed = delivered if failed_retention_hours is None else failed_retention_hours * 3600.0
    deleted = store.cleanup(delivered, failed, batch_size)
    # A count reads all that is old: only where there may be some.
    remaining = store.cleanup_remaining(delivered, failed) if deleted >= batch_size else 0
    return {"deleted": deleted, "remaining": remaining}
