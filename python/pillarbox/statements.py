"""The statements: the core's own `.sql` files, one per verb, as Django's cursors take them.

The files are copies of the core's (a test compares them), but for those that only Python needs.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

# `$1` on PostgreSQL, `?1` elsewhere; `?` alone is the next one.
_PARAMETER = re.compile(r"\$(\d+)|\?(\d*)")
_COMMENT = re.compile(r"--[^\n]*")


@cache
def text(folder: str, name: str) -> str:
    """A file as it stands."""
    return files("pillarbox").joinpath("sql", folder, f"{name}.sql").read_text(encoding="utf-8")


def without_comments(script: str) -> str:
    """No statement has two dashes in a literal."""
    return _COMMENT.sub("", script)


@cache
def prepared(folder: str, name: str) -> tuple[str, tuple[int, ...]]:
    """A statement with `%s` for its parameters, and their numbers in the order of appearance.

    Tables resolve through the connection's search_path, so the schema's name goes.
    """
    statement = without_comments(text(folder, name)).replace("{schema}.", "").replace("%", "%%")
    found = [number or other for number, other in _PARAMETER.findall(statement)]
    order = tuple(int(number) - 1 if number else place for place, number in enumerate(found))
    return _PARAMETER.sub("%s", statement), order


def run(connection: BaseDatabaseWrapper, folder: str, name: str, *params: Any) -> list[tuple[Any, ...]]:
    """Runs a statement with its parameters and answers its rows, if it has any."""
    statement, order = prepared(folder, name)
    with connection.cursor() as cursor:
        cursor.execute(statement, [params[number] for number in order])
        return list(cursor.fetchall()) if cursor.description else []
