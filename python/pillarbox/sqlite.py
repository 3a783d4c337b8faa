"""SQLite: Django cuts moments (`__date`, `datetimes()`, the admin's date hierarchy) with functions of its own.

They know only Django's form of a moment. Here they learn the core's as well; for Django's they stay what they were.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

_FUNCTIONS = {
    "django_datetime_cast_date": 3,
    "django_datetime_cast_time": 3,
    "django_datetime_extract": 4,
    "django_datetime_trunc": 4,
}


def _django_form(value: Any) -> Any:
    if isinstance(value, str) and len(value) == 24 and value[10] == "T" and value[23] == "Z":
        return f"{value[:10]} {value[11:23]}"
    return value


def _taught(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *values: function(*map(_django_form, values))


def teach_moments(sender: Any, connection: BaseDatabaseWrapper, **kwargs: Any) -> None:
    """A receiver of `connection_created`."""
    if connection.vendor != "sqlite":
        return
    from django.db.backends.sqlite3 import _functions

    for name, count in _FUNCTIONS.items():
        function = getattr(_functions, name.replace("django_", "_sqlite_", 1))
        connection.connection.create_function(name, count, _taught(function), deterministic=True)
