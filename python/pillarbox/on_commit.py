"""On commit: those who stay in Python have their handlers run as soon as the transaction has committed.

Only a hint, and never the caller's trouble: what fails here is logged, and the next sweep finds the event.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import connections, transaction

if TYPE_CHECKING:
    from pillarbox.emit import Row

logger = logging.getLogger("pillarbox")


def deliver(alias: str, rows: Sequence[Row]) -> None:
    """Has the new events delivered on commit, if this project wants that and one of them has a handler.

    `CELERY_TASK_ALWAYS_EAGER` runs the handlers at once; `PILLARBOX_DELIVER_ON_COMMIT = True` sends the delivery task.
    """
    eager = getattr(settings, "CELERY_TASK_ALWAYS_EAGER", False)
    if not eager and not getattr(settings, "PILLARBOX_DELIVER_ON_COMMIT", False):
        return
    if not _wanted(rows):
        return
    connection = connections[alias]
    callback = _callback(alias, eager)
    # In a transaction that Django does not manage nobody knows when it commits.
    managed = connection.in_atomic_block or connection.get_autocommit()
    # Once is enough for all events of a transaction.
    if managed and not any(entry[1] is callback for entry in connection.run_on_commit):
        transaction.on_commit(callback, using=alias, robust=True)


def _wanted(rows: Sequence[Row]) -> bool:
    """A module of handlers that cannot be imported is no fault of whoever emits."""
    from pillarbox import handlers

    try:
        return any(handlers.wanted(row.event_type, row.aggregate_type) for row in rows)
    except Exception:
        logger.exception("pillarbox_handlers_broken: loading the handlers failed; the event waits for the next sweep")
        return False


@cache
def _callback(alias: str, eager: bool) -> Callable[[], object]:
    def run_handlers() -> object:
        from pillarbox.process import process_pending_events

        return process_pending_events(using=alias)

    def send_task() -> object:
        from pillarbox.tasks import deliver_outbox_events_task

        return deliver_outbox_events_task.apply_async(retry=False)

    return run_handlers if eager else send_task
