"""Reconnect: writes outside of a transaction survive a connection that the server has closed.

Django replaces broken connections between requests. Beat, workers and commands that run for days have no requests: they
would keep the broken connection, and every statement would fail until a restart. Inside a transaction nothing is
repeated: the earlier statements are lost with the connection, and the caller must know.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from typing import Any, TypeVar

from django.db import DatabaseError, DataError, IntegrityError, InterfaceError
from django.db.backends.base.base import BaseDatabaseWrapper

from pillarbox import databases

logger = logging.getLogger("pillarbox")

T = TypeVar("T")

#: The longest pauses, in seconds, before a transaction is repeated that was the victim of a deadlock.
_PAUSES = (0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.064, 0.064)


def in_transaction(connection: BaseDatabaseWrapper) -> bool:
    """Whether a statement would belong to a transaction of the caller, managed by Django or by hand."""
    if connection.in_atomic_block:
        return True
    if connection.connection is None:
        return not connection.settings_dict["AUTOCOMMIT"]
    return not connection.autocommit


def close_if_broken(connection: BaseDatabaseWrapper) -> None:
    """Closes a connection that does not answer, unless it is in a transaction. Costs a round trip."""
    if connection.connection is not None and not in_transaction(connection) and not connection.is_usable():
        connection.close()


def repeat_conflicts(connection: BaseDatabaseWrapper, operation: Callable[[], T]) -> T:
    """Runs a short transaction; one that the database has rolled back for the sake of another runs again.

    Inside a transaction of the caller nothing is repeated.
    """
    if in_transaction(connection):
        return operation()
    for pause in _PAUSES:
        try:
            return operation()
        except DatabaseError as error:
            if not databases.of(connection).is_conflict(error):
                raise
            time.sleep(random.uniform(0, pause))  # noqa: S311
    return operation()


def run_write(
    connection: BaseDatabaseWrapper, statement: Callable[[], T], found: Callable[[], T | None] | None = None
) -> T:
    """Runs a write; outside of a transaction, a write that fails for its connection runs again on a new one, once.

    The first write may have been committed before the connection broke. The second one then raises IntegrityError, and
    `found` returns what the first one wrote, or None if another writer has the key.
    """
    if in_transaction(connection):
        return statement()
    before = connection.connection
    try:
        return repeat_conflicts(connection, statement)
    except (DatabaseError, InterfaceError) as error:
        if before is None or not _is_broken(connection, before, error):
            raise
        logger.warning("pillarbox_connection_lost: %s; retrying on a new connection", _first_line(error))
    connection.close()
    try:
        return statement()
    except IntegrityError:
        answer = found() if found is not None else None
        if answer is None:
            raise
        return answer


def _is_broken(connection: BaseDatabaseWrapper, before: Any, error: Exception) -> bool:
    if isinstance(error, DataError | IntegrityError):
        return False
    if databases.of(connection).is_lost(error):
        return True
    # Leaving an atomic block replaces a connection on which nothing can be rolled back.
    return connection.connection is not before or not connection.is_usable()


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
