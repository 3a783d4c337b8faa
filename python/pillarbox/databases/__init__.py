"""The databases that an outbox can be in, by Django's names of their vendors."""

from __future__ import annotations

from django.db import NotSupportedError
from django.db.backends.base.base import BaseDatabaseWrapper

from pillarbox.databases.base import Database
from pillarbox.databases.mysql import Mysql
from pillarbox.databases.postgres import Postgres
from pillarbox.databases.sqlite import Sqlite

KINDS: dict[str, type[Database]] = {"postgresql": Postgres, "mysql": Mysql, "sqlite": Sqlite}
NEEDED = "PostgreSQL, MariaDB, MySQL or SQLite"


def kind_of(connection: BaseDatabaseWrapper) -> type[Database]:
    """Returns the kind of a connection's database. Raises NotSupportedError."""
    try:
        return KINDS[connection.vendor]
    except KeyError:
        raise NotSupportedError(
            f'the outbox cannot be in the database "{connection.alias}" ({connection.vendor}): it needs {NEEDED};'
            " route the app pillarbox to such a database with a database router"
        ) from None


def of(connection: BaseDatabaseWrapper) -> Database:
    """Returns the outbox's verbs on a connection. Raises NotSupportedError."""
    return kind_of(connection)(connection)
