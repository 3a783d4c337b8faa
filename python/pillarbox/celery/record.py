"""Record: a message becomes a row, in the current transaction of the database that the router gives to the outbox.

One task is one statement. Within :func:`batch` many tasks are one statement, at the end of the block.
"""

from __future__ import annotations

import contextlib
import datetime
import logging
from collections.abc import Iterator
from contextvars import ContextVar
from functools import partial
from typing import Any, NamedTuple

from celery.utils.time import maybe_iso8601
from django.conf import settings
from django.db import connections, router, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from pillarbox import databases, metrics
from pillarbox.celery import context, leaving, message
from pillarbox.connection import in_transaction, run_write
from pillarbox.ids import uuid7
from pillarbox.log import warn
from pillarbox.signals import outbox_message_created

_AGGREGATE_ID_LIMIT = 100
_NAME_LIMIT = 255

_logger = logging.getLogger(__name__)

#: What waits for the end of a batch.
_waiting: ContextVar[Batch | None] = ContextVar("pillarbox_waiting", default=None)

#: A connection that is in no transaction.
_OUTSIDE = (False, (), 0)


class Row(NamedTuple):
    """What is written of a task, and where."""

    alias: str
    id: str
    task_id: str
    task_name: str
    payload: str
    trace: str | None
    due: Any

    @property
    def aggregate_id(self) -> str:
        return self.task_id[:_AGGREGATE_ID_LIMIT]


class Batch:
    """Rows that wait, and where each connection was when the batch began."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self._began = {each.alias: (each, _place(each)) for each in connections.all(initialized_only=True)}

    def holds(self, connection: BaseDatabaseWrapper) -> bool:
        """Whether the connection is where it was. In a transaction or savepoint that began later nothing may wait for
        the end of the batch: it could be undone before, or committed. Other threads have other connections.
        """
        return self._began.get(connection.alias, (connection, _OUTSIDE)) == (connection, _place(connection))


def _place(connection: BaseDatabaseWrapper) -> tuple[bool, tuple[Any, ...], int]:
    """Transaction and savepoints, those of ``transaction.savepoint()`` included, which Django only counts."""
    return connection.in_atomic_block, tuple(connection.savepoint_ids), connection.savepoint_state


def record(sender: type, task_name: str, **recorded: Any) -> None:
    """Writes a message, given as the keywords of :func:`pillarbox.celery.message.encode`, or keeps it for the batch."""
    from pillarbox.models import OutboxEvent  # models cannot be imported before the apps are ready

    if len(task_name) > _NAME_LIMIT:
        raise message.NotRecordable(
            f"the name of the task has {len(task_name)} characters, the limit is {_NAME_LIMIT}: {task_name[:80]}…"
        )
    headers = recorded["headers"]
    alias = router.db_for_write(OutboxEvent)
    connection = connections[alias]
    trace = context.trace_of(headers)
    row = Row(
        alias,
        str(uuid7()),
        headers["id"],
        task_name,
        message.encode(**recorded),
        message.to_json(trace) if trace else None,
        _held_until(headers.get("eta"), connection),
    )
    waiting = _waiting.get()
    at_the_end = leaving.waiting()
    if at_the_end is not None and (waiting is not None or in_transaction(connection)):
        at_the_end.append((sender, row))
        return
    if not in_transaction(connection):
        warn(_logger, "celery_outbox_not_in_transaction", task_name=task_name, task_id=row.task_id)
    if waiting is not None and waiting.holds(connection):
        waiting.rows.append(row)
        return
    _write(row)
    _tell(sender, row)


def _write(row: Row) -> None:
    if row.due is not None:
        _write_all([row])
        return
    connection = connections[row.alias]
    record = partial(databases.of(connection).record, row, is_woken=_is_woken(connection))
    run_write(connection, record, partial(_found, [row]))


def _found(rows: list[Row]) -> bool | None:
    """True if the rows are in the table already."""
    from pillarbox.models import OutboxEvent

    there = OutboxEvent.objects.using(rows[0].alias).filter(pk__in=[row.id for row in rows])
    return there.count() == len(rows) or None


def _is_woken(connection: BaseDatabaseWrapper) -> bool:
    """Whether an earlier task of the same transaction has asked for the relay to be woken: once is enough.

    Django has a new list of hooks for each transaction, and makes another when a savepoint is rolled back, which may
    have taken the notification with it.
    """
    hooks = connection.run_on_commit if connection.in_atomic_block else None
    woken = hooks is not None and getattr(connection, "pillarbox_woken", None) is hooks
    connection.pillarbox_woken = hooks
    return woken


@contextlib.contextmanager
def batch(sender: type) -> Iterator[None]:
    """Tasks recorded inside are written at its end, with one statement, or not at all if the block fails."""
    outer = _waiting.get()
    if outer is not None and all(map(outer.holds, connections.all(initialized_only=True))):
        yield
        return
    inner = Batch()
    token = _waiting.set(inner)
    try:
        yield
    finally:
        _waiting.reset(token)
    record_together([(sender, row) for row in inner.rows])


def record_together(rows: list[tuple[type, Row]]) -> None:
    """Writes rows, each with its sender, with one statement for each database."""
    for alias in dict.fromkeys(row.alias for _, row in rows):
        _write_all([row for _, row in rows if row.alias == alias])
    for sender, row in rows:
        _tell(sender, row)


def _write_all(rows: list[Row]) -> None:
    connection = connections[rows[0].alias]
    run_write(connection, partial(databases.of(connection).record_all, rows), partial(_found, rows))


def _tell(sender: type, row: Row) -> None:
    outbox_message_created.send(sender=sender, task_id=row.task_id, task_name=row.task_name)
    if metrics.enabled():
        count = partial(metrics.increment, "messages.enqueued", tags=metrics.task_tag(row.task_name))
        connection = connections[row.alias]
        if connection.in_atomic_block or connection.get_autocommit():
            transaction.on_commit(count, using=row.alias, robust=True)
        else:
            count()  # nobody knows when a transaction commits that Django does not manage


def _held_until(eta: str | None, connection: BaseDatabaseWrapper) -> Any:
    """With ``PILLARBOX_HOLD_ETA_SECONDS`` a task waits in the outbox, not in a worker, until that near to its ETA."""
    if eta is None:
        return None
    hold = getattr(settings, "PILLARBOX_HOLD_ETA_SECONDS", None)
    if hold is None:
        return None
    until = maybe_iso8601(eta) - datetime.timedelta(seconds=hold)
    if until <= datetime.datetime.now(datetime.timezone.utc):
        return None
    return databases.kind_of(connection).moment(until)
