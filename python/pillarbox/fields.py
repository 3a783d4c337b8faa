"""Model fields that read and write the core's forms, on PostgreSQL and on SQLite.

PostgreSQL has types for ids and moments. On SQLite the core writes both as text, in another form than Django does:
`0190…-…` with dashes, and `2026-02-25T12:34:56.789Z`, so that the order of the text is the order of time.
"""

from __future__ import annotations

import datetime
import uuid
from typing import Any

from django.conf import settings
from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import lookups
from django.db.models.expressions import Expression
from django.db.models.functions import ExtractYear
from django.utils import timezone
from django.utils.dateparse import parse_datetime


def moment_text(moment: datetime.datetime) -> str:
    """A moment as it stands in SQLite: UTC, milliseconds, cut and not rounded, as the core does."""
    if timezone.is_naive(moment):
        moment = timezone.make_aware(moment)
    utc = moment.astimezone(datetime.timezone.utc)
    return f"{utc.strftime('%Y-%m-%dT%H:%M:%S')}.{utc.microsecond // 1000:03}Z".rjust(24, "0")


def read_moment(value: Any) -> datetime.datetime | None:
    """A moment as a database answered it, aware or naive as the project's settings want it."""
    moment = parse_datetime(value) if isinstance(value, str) else value
    if moment is None:
        return None
    if settings.USE_TZ:
        return moment if timezone.is_aware(moment) else moment.replace(tzinfo=datetime.timezone.utc)
    return timezone.make_naive(moment) if timezone.is_aware(moment) else moment


_CLAMPED = {
    "postgresql": "CASE WHEN {0} IS NOT NULL THEN least(greatest({0}, '0001-01-02 00:00Z'), '9999-12-30 00:00Z') END",
    # Text that is no moment sorts before all moments or behind them.
    "sqlite": "CASE WHEN {0} < '0001-01-02' THEN '0001-01-02T00:00:00.000Z' "
    "WHEN {0} > '9999-12-30' OR julianday({0}) IS NULL AND {0} IS NOT NULL THEN '9999-12-30T00:00:00.000Z' "
    "ELSE {0} END",
}


class MomentField(models.DateTimeField):
    """A DateTimeField that keeps the core's text on SQLite."""

    def db_type(self, connection: BaseDatabaseWrapper) -> str | None:
        return "text" if connection.vendor == "sqlite" else super().db_type(connection)

    def get_db_prep_value(self, value: Any, connection: BaseDatabaseWrapper, prepared: bool = False) -> Any:
        if connection.vendor != "sqlite":
            return super().get_db_prep_value(value, connection, prepared)
        value = value if prepared else self.get_prep_value(value)
        return moment_text(value) if isinstance(value, datetime.datetime) else value

    def select_format(self, compiler: Any, sql: str, params: Any) -> tuple[str, Any]:
        """Reads moments outside of Python's years, which drivers refuse and others can write, as its first or last."""
        template = _CLAMPED.get(compiler.connection.vendor, "{0}")
        return template.format(sql), (*params,) * template.count("{0}")

    def from_db_value(self, value: Any, expression: Any, connection: BaseDatabaseWrapper) -> Any:
        return read_moment(value)


class _OwnYearBounds:
    """`__year=…` compares with the first and the last moment of the year: they too have the core's form on SQLite."""

    def year_lookup_bounds(self, connection: BaseDatabaseWrapper, year: int) -> list[Any]:
        bounds = super().year_lookup_bounds(connection, year)
        if connection.vendor != "sqlite":
            return bounds
        # As text in the connection's zone; without zones, in the project's.
        read = [parse_datetime(bound).replace(tzinfo=connection.timezone) for bound in bounds]
        return [moment_text(bound) for bound in read]


class _Year(ExtractYear):
    pass


for _name in ("YearExact", "YearGt", "YearGte", "YearLt", "YearLte"):
    _Year.register_lookup(type(_name, (_OwnYearBounds, getattr(lookups, _name)), {}))
MomentField.register_lookup(_Year)


class EventIdField(models.UUIDField):
    """A UUIDField that keeps the text with dashes on SQLite."""

    def db_type(self, connection: BaseDatabaseWrapper) -> str | None:
        return "text" if connection.vendor == "sqlite" else super().db_type(connection)

    def get_db_prep_value(self, value: Any, connection: BaseDatabaseWrapper, prepared: bool = False) -> Any:
        if connection.vendor != "sqlite":
            return super().get_db_prep_value(value, connection, prepared)
        value = self.to_python(value)
        return str(value) if isinstance(value, uuid.UUID) else value


# Django's own lookups on parts of a UUID leave out the dashes, which are there.
for _lookup in (
    lookups.IExact,
    lookups.Contains,
    lookups.IContains,
    lookups.StartsWith,
    lookups.IStartsWith,
    lookups.EndsWith,
    lookups.IEndsWith,
):
    EventIdField.register_lookup(_lookup)


class _NextSeq(Expression):
    """In an INSERT: the database's own next number."""

    def as_sql(self, compiler: Any, connection: BaseDatabaseWrapper) -> tuple[str, list[Any]]:
        return ("NULL" if connection.vendor == "sqlite" else "DEFAULT"), []


class SeqField(models.BigIntegerField):
    """The database's order of insertion: it gives the number, and Django reads it back."""

    db_returning = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.update(null=True, blank=True, editable=False)
        super().__init__(*args, **kwargs)

    def pre_save(self, model_instance: models.Model, add: bool) -> Any:
        value = super().pre_save(model_instance, add)
        return _NextSeq(output_field=self) if add and value is None else value


class Clock(models.Func):
    """The database's clock, as every statement of the core asks it: inside a transaction too it is now."""

    function = "clock_timestamp"
    template = "%(function)s()"
    arity = 0

    def __init__(self, **extra: Any) -> None:
        super().__init__(output_field=MomentField(), **extra)

    def as_sqlite(self, compiler: Any, connection: BaseDatabaseWrapper, **extra: Any) -> tuple[str, list[Any]]:
        return "strftime('%%Y-%%m-%%dT%%H:%%M:%%fZ', 'now')", []
