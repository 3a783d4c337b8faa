"""Transactions on connections of DB-API: opens one, begins, commits or rolls back, and closes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from typing import Any

from pillarbox.inbox.databases import Session, session_of
from pillarbox.inbox.once import forget

Connect = Callable[[], Any]
"""Returns a connection, which is closed afterwards, or a context manager of one, such as `pool.connection`."""


def transactions(connect: Connect) -> Callable[[], AbstractContextManager[Session]]:
    """Returns what begins a transaction on a connection of `connect`."""

    @contextmanager
    def transaction() -> Iterator[Session]:
        opened = connect()
        # Connections are context managers too, but theirs commit.
        with closing(opened) if hasattr(opened, "cursor") else opened as connection:
            session = session_of(connection)
            _begin(session)
            try:
                yield session
                _end(session, "COMMIT")
            except BaseException:
                # A lost connection cannot roll back; the server does.
                with suppress(Exception):
                    _end(session, "ROLLBACK")
                    forget(session)
                    _end(session, "COMMIT")
                raise

    return transaction


def _begin(session: Session) -> None:
    """Other drivers than these begin by themselves, unless they are in autocommit."""
    if session.folder == "sqlite":
        if not session.connection.in_transaction:
            session.execute("BEGIN IMMEDIATE")
    elif session.folder == "mysql":
        session.execute("START TRANSACTION")
    elif session.connection.autocommit:
        session.execute("BEGIN")


def _end(session: Session, how: str) -> None:
    if session.folder == "sqlite":
        # In autocommit, the module's own methods do nothing.
        if session.connection.in_transaction:
            session.execute(how)
    elif how == "COMMIT":
        session.connection.commit()
    else:
        session.connection.rollback()
