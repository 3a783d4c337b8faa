"""What differs between databases and drivers: statements, parameters, and the meaning of errors. Decides nothing."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from functools import cache
from importlib.resources import files
from typing import Any

_PARAMETER = re.compile(r"\$\d+|\?\d*")
_COMMENT = re.compile(r"--[^\n]*\n?")
#: By the modules of their connections: the folder of the statements, and the form of a parameter.
_DRIVERS = {
    "psycopg": ("postgres", "%s"),
    "MySQLdb": ("mysql", "%s"),
    "pymysql": ("mysql", "%s"),
    "sqlite3": ("sqlite", "?"),
}


class Trouble(Enum):
    """Why a transaction failed, if it is not the handler's fault."""

    CONFLICT = "conflict"
    """A deadlock or a serialisation failure: the same transaction may succeed now."""
    LOCKED = "locked"
    """A lock was not granted in time."""
    LOST = "lost"
    """There is no connection. In an error of a handler, it may be the connection to another database."""
    DOWN = "down"
    """The database cannot do what was asked."""


_POSTGRES = {
    "40001": Trouble.CONFLICT,
    "40P01": Trouble.CONFLICT,
    "55P03": Trouble.LOCKED,
    # Shutting down, starting, ended by an administrator, idle for too long, too many connections.
    **dict.fromkeys(("57P01", "57P02", "57P03", "57P05", "25P03", "53300"), Trouble.LOST),
    # Read-only after a failover.
    "25006": Trouble.DOWN,
}
#: Classes: connection, out of resources, system error.
_POSTGRES_CLASSES = {"08": Trouble.LOST, "53": Trouble.DOWN, "58": Trouble.DOWN}
_POSTGRES_CANCELLED = "57014"
_MYSQL = {
    1213: Trouble.CONFLICT,
    1020: Trouble.CONFLICT,
    1205: Trouble.LOCKED,
    # No connection, lost, killed, shutting down, too many connections.
    **dict.fromkeys((2002, 2003, 2005, 2006, 2013, 2055, 1040, 1053, 1203, 1226, 1927, 3169, 4031), Trouble.LOST),
    # Read-only after a failover; no space.
    **dict.fromkeys((1290, 1792, 1836, 1021, 1114), Trouble.DOWN),
}
#: max_statement_time, KILL QUERY, and MySQL's max_execution_time.
_MYSQL_CANCELLED = (1969, 1317, 3024)
_MYSQL_NO_SAVEPOINT = 1305
_SQLITE_SNAPSHOT = 517
_SQLITE = {
    5: Trouble.LOCKED,
    6: Trouble.LOCKED,
    # Read-only, I/O error, corrupt, full, cannot open, not a database.
    **dict.fromkeys((8, 10, 11, 13, 14, 26), Trouble.DOWN),
}


@cache
def statement(folder: str, name: str, placeholder: str) -> str:
    """Returns a statement of `sql/`. Its parameters are in the order of their numbers."""
    text = files("pillarbox.inbox").joinpath("sql", folder, f"{name}.sql").read_text(encoding="utf-8")
    text = _COMMENT.sub("", text).strip()
    return _PARAMETER.sub(placeholder, text.replace("%", "%%") if placeholder == "%s" else text)


def script(folder: str, name: str) -> list[str]:
    """Returns the statements of a file without parameters."""
    text = files("pillarbox.inbox").joinpath("sql", folder, f"{name}.sql").read_text(encoding="utf-8")
    return [part.strip() for part in _COMMENT.sub("", text).split(";") if part.strip()]


class Session:
    """A connection of DB-API, or Django's: the inbox's statements on it."""

    def __init__(self, connection: Any, folder: str, placeholder: str) -> None:
        self.connection = connection
        self.folder = folder
        self.placeholder = placeholder
        #: What `committed` and `forget` know the row of `record` by. On MariaDB and MySQL, the session keeps it.
        self.recorded: tuple[Any, ...] | None = None

    def run(self, name: str, *values: Any) -> int:
        """Runs a statement and returns the number of its rows."""
        return len(self.rows(name, *values))

    def rows(self, name: str, *values: Any) -> Sequence[Any]:
        """Runs a statement and returns its rows; of one that returns none, their numbers."""
        cursor = self.connection.cursor()
        try:
            cursor.execute(statement(self.folder, name, self.placeholder), values)
            # SQLite does not count the rows of a query.
            return cursor.fetchall() if cursor.description else range(cursor.rowcount)
        finally:
            cursor.close()

    def script(self, name: str) -> None:
        """Runs a file of DDL."""
        for text in script(self.folder, name):
            self.execute(text)

    def execute(self, text: str) -> None:
        cursor = self.connection.cursor()
        try:
            cursor.execute(text)
        finally:
            cursor.close()

    def bound_wait(self, seconds: float) -> bool:
        """Bounds the wait for a lock; returns whether `restore` is needed. SQLite has its busy timeout."""
        if self.folder == "postgres":
            self.run("wait", f"{max(1, round(seconds * 1000))}ms")
        elif self.folder == "mysql":
            self.run("wait", max(1, math.ceil(seconds)))
        return self.folder != "sqlite"

    def record(self, consumer: str, id: str) -> bool:
        """Records an event; returns False for a duplicate."""
        rows = self.rows("record", consumer, id)
        if not rows:
            return False
        if self.folder == "sqlite":
            rows = self.rows("mark", consumer, id)
        self.recorded = (consumer, id) if self.folder == "mysql" else (consumer, id, _value(rows[0]))
        return True

    def forget(self) -> bool:
        """Deletes the record if it is there after a rollback; returns whether it was."""
        if self.recorded is None or not self.run("committed", *self.recorded):
            return False
        return self.run("forget", *self.recorded) == 1

    def cleanup(self, seconds: float, limit: int) -> int:
        """Deletes a batch of old records and returns their number."""
        if limit < 1:
            raise ValueError(f"a batch of cleanup has at least 1 record, but batch is {limit!r}")
        return self.run("cleanup", seconds, limit)

    def is_lost(self) -> bool:
        """Returns whether the connection cannot be used any more. A transaction that has failed can be rolled back."""
        try:
            self.execute("SELECT 1")
        except Exception as error:
            return trouble(error) is Trouble.LOST
        return False

    def commits_alone(self) -> bool:
        """Returns whether the next statement would be a transaction of its own."""
        inner = _inner(self.connection)
        if self.folder == "postgres":
            return bool(inner.autocommit) and inner.info.transaction_status.name == "IDLE"
        if self.folder == "sqlite":
            # Python 3.12 has the attribute; before it, and with -1, the level decides.
            mode = getattr(inner, "autocommit", -1)
            commits = inner.isolation_level is None if mode == -1 else bool(mode)
            return commits and not inner.in_transaction
        if not inner.get_autocommit():
            return False
        # The drivers do not tell whether a transaction is open. Outside of one, a savepoint ends at once.
        self.execute("SAVEPOINT pillarbox_inbox")
        try:
            self.execute("RELEASE SAVEPOINT pillarbox_inbox")
        except Exception as error:
            if error.args[:1] != (_MYSQL_NO_SAVEPOINT,):
                raise
            return True
        return False


def session_of(connection: Any) -> Session:
    """Returns the inbox's statements on a connection of DB-API. Raises TypeError for an unknown driver."""
    inner = _inner(connection)
    for base in type(inner).__mro__:
        known = _DRIVERS.get(base.__module__.partition(".")[0])
        if known is not None:
            return Session(connection, *known)
    raise TypeError(
        f"the inbox knows the drivers psycopg, PyMySQL, mysqlclient and sqlite3, but not {type(inner).__module__}"
    )


def _value(row: Any) -> Any:
    """Returns the value of a row of one column. The application's row factory decides what a row is."""
    if isinstance(row, Mapping):
        return next(iter(row.values()))
    return row if isinstance(row, str) else row[0]


def _inner(connection: Any) -> Any:
    """SQLAlchemy's raw connections are proxies."""
    return getattr(connection, "driver_connection", None) or connection


def trouble(error: BaseException) -> Trouble | None:
    """Returns what is wrong with the database, by the first cause of an error that says so."""
    return next(filter(None, map(_trouble, _causes(error))), None)


def is_cancelled(error: BaseException) -> bool:
    """Returns whether the server has ended a statement that took too long, or that an administrator has cancelled."""
    for cause in _causes(error):
        driver = type(cause).__module__.partition(".")[0]
        if driver in ("psycopg", "psycopg2") and _state(cause) == _POSTGRES_CANCELLED:
            return True
        if driver in ("MySQLdb", "pymysql") and cause.args and cause.args[0] in _MYSQL_CANCELLED:
            return True
    return False


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """What an error was raised from. An error that the handler caught before it failed is the context, but no cause."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__


def _trouble(error: BaseException) -> Trouble | None:
    driver = type(error).__module__.partition(".")[0]
    if driver in ("psycopg", "psycopg2"):
        return _postgres_trouble(error)
    if driver in ("MySQLdb", "pymysql"):
        number = error.args[0] if error.args else None
        # PyMySQL raises InterfaceError(0, "") on a connection that is closed.
        return _MYSQL.get(number) or (Trouble.LOST if type(error).__name__ == "InterfaceError" else None)
    if driver == "sqlite3":
        return _sqlite_trouble(error)
    return None


def _state(error: BaseException) -> str | None:
    return getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)


def _postgres_trouble(error: BaseException) -> Trouble | None:
    state = _state(error)
    if state is None:
        # Only the client's own errors have no state, such as a connection that was refused or lost.
        names = {base.__name__ for base in type(error).__mro__}
        return Trouble.LOST if names & {"OperationalError", "InterfaceError"} else None
    return _POSTGRES.get(state) or _POSTGRES_CLASSES.get(state[:2])


def _sqlite_trouble(error: BaseException) -> Trouble | None:
    code = getattr(error, "sqlite_errorcode", None)
    if code is not None:
        return Trouble.CONFLICT if code == _SQLITE_SNAPSHOT else _SQLITE.get(code & 0xFF)
    # Python 3.10 has only the text.
    text = str(error)
    if "is locked" in text:
        return Trouble.LOCKED
    return Trouble.DOWN if "unable to open" in text or "disk" in text or "readonly" in text else None
