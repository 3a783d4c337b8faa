"""Handles an event once, in the caller's transaction, without HTTP: for consumers of Kafka, NATS, RabbitMQ, Celery."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

from pillarbox.inbox.databases import Session, Trouble, is_cancelled, session_of, trouble
from pillarbox.inbox.errors import InFlight, RolledBack
from pillarbox.inbox.event import check_consumer, check_id

logger = logging.getLogger("pillarbox.inbox")

#: Shorter than a relay's timeout, which is 10 s by default.
WAIT = 5.0
#: Longer than an outbox keeps a failed event, which is 30 days by default: until then, a person can retry it.
KEEP = timedelta(days=60)


def once(connection: Any, id: str, handler: Callable[[], object], *, consumer: str, wait: float = WAIT) -> bool:
    """Records the event and runs the handler, in the connection's open transaction; returns False for a duplicate.

    The caller commits if this returns, and rolls back if it raises. The handler's errors are raised as they are.
    InFlight is raised after `wait` seconds in which another transaction held the same event. RuntimeError is raised,
    and nothing written, if the connection is in autocommit and no transaction is open.
    """
    session, consumer, id = session_of(connection), check_consumer(consumer), check_id(id)
    if session.commits_alone():
        raise RuntimeError(
            "the connection is in autocommit, and no transaction is open: the record would be committed before the "
            "handler runs, and an event whose handler fails would be lost; begin a transaction before once()"
        )
    return once_in(session, consumer, id, handler, wait)


def once_in(session: Session, consumer: str, id: str, handler: Callable[[], object], wait: float) -> bool:
    """As `once`, with names that were checked."""
    check_handler(handler)
    if not record(session, consumer, id, wait):
        return False
    check_result(handler())
    confirm(session, consumer, id)
    return True


def check_handler(handler: Callable[..., object]) -> None:
    """Raises TypeError if the handler is async: its coroutine would never run, and the event would be lost."""
    if any(map(inspect.iscoroutinefunction, (handler, getattr(handler, "__call__", None)))):  # noqa: B004
        raise TypeError("the handler must be a plain function, with a blocking connection: define it without async")


def check_result(result: object) -> None:
    """Raises TypeError if a handler returned a coroutine or a generator: not every one can be seen in advance."""
    if not (inspect.isawaitable(result) or inspect.isgenerator(result) or inspect.isasyncgen(result)):
        return
    # Python would warn of a coroutine that was never awaited.
    if inspect.iscoroutine(result):
        result.close()
    raise TypeError(f"the handler must be a plain function, but it returned a {type(result).__name__}, which never ran")


def record(session: Session, consumer: str, id: str, wait: float) -> bool:
    """Records the event; returns False for a duplicate. Raises InFlight."""
    is_bound = session.bound_wait(wait)
    try:
        is_new = session.record(consumer, id)
    except Exception as error:
        # On PostgreSQL the bound ends with the transaction, which can do nothing more.
        if is_bound and session.folder == "mysql":
            with suppress(Exception):
                session.run("restore")
        # Any writer locks the whole of an SQLite database, so it does not mean that the event is being handled. A
        # statement timeout that is shorter than the wait ends the same wait.
        if session.folder != "sqlite" and (trouble(error) is Trouble.LOCKED or is_cancelled(error)):
            raise InFlight(f"the event {id} is still being handled by another transaction") from error
        raise
    if is_bound:
        session.run("restore")
    return is_new


def confirm(session: Session, consumer: str, id: str) -> None:
    """Raises RolledBack if a commit would not record the event."""
    try:
        found = session.run("confirm", consumer, id)
    except Exception as error:
        if trouble(error) is not None:
            raise
        raise RolledBack("the handler ignored an error of the database; the transaction cannot be committed") from error
    if not found:
        raise RolledBack("the handler ended the transaction that it was given; the inbox commits it")


def forget(session: Session) -> None:
    """Deletes the record of a handler that committed by itself and then failed, after the rollback.

    Otherwise the next request would be a duplicate, and the event lost.
    """
    if session.forget():
        logger.error("inbox_committed: the handler committed by itself and then failed; its record is deleted")


def create_table(connection: Any) -> None:
    """Creates the table `inbox_event` if it does not exist, and commits."""
    session_of(connection).script("create")
    connection.commit()


def cleanup(connection: Any, keep: timedelta = KEEP, batch: int = 1000) -> int:
    """Deletes records that are older than `keep`, in batches that are committed; returns their number.

    An event that is sent again after its record was deleted is handled again.
    """
    session, deleted = session_of(connection), 0
    while True:
        rows = session.cleanup(keep.total_seconds(), batch)
        connection.commit()
        deleted += rows
        if rows < batch:
            return deleted
