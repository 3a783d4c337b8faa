"""The statements: the core's own `.sql` files, one per verb, as Django's cursors take them.

The files are copies of the core's (a test compares them), but for those that only Python needs.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import Any

from django.db import NotSupportedError
from django.db.backends.base.base import BaseDatabaseWrapper

_FOLDERS = {"postgresql": "postgres", "sqlite": "sqlite"}
_PARAMETER = re.compile(r"[$?](\d+)")
_COMMENT = re.compile(r"--[^\n]*")


def folder(connection: BaseDatabaseWrapper) -> str:
    """Where the statements for this database stand."""
    try:
        return _FOLDERS[connection.vendor]
    except KeyError:
        raise NotSupportedError(
            f'the outbox cannot be in the database "{connection.alias}" ({connection.vendor}): it needs PostgreSQL '
            "or SQLite; route the app pillarbox to such a database with a database router"
        ) from None


@cache
def text(folder: str, name: str) -> str:
    """A file as it stands."""
    return files("pillarbox").joinpath("sql", folder, f"{name}.sql").read_text(encoding="utf-8")


@cache
def _prepared(folder: str, name: str) -> tuple[str, tuple[int, ...]]:
    """A statement with `%s` for its numbered parameters, and their order of appearance.

    Tables resolve through the connection's search_path, so the schema's name goes.
    """
    statement = _COMMENT.sub("", text(folder, name)).replace("{schema}.", "").replace("%", "%%")
    order = tuple(int(number) - 1 for number in _PARAMETER.findall(statement))
    return _PARAMETER.sub("%s", statement), order


def run(connection: BaseDatabaseWrapper, name: str, *params: Any) -> list[tuple[Any, ...]]:
    """Runs a statement with its parameters and answers its rows, if it has any."""
    statement, order = _prepared(folder(connection), name)
    with connection.cursor() as cursor:
        cursor.execute(statement, [params[number] for number in order])
        return cursor.fetchall() if cursor.description else []
