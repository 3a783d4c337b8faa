"""Model fields that read and write the core's forms of ids and moments, which `pillarbox.databases` knows."""

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
from django.db.models.functions.datetime import TruncBase
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from pillarbox.databases import kind_of
from pillarbox.ids import as_uuid


def read_moment(value: Any, connection: BaseDatabaseWrapper) -> datetime.datetime | None:
    """A moment as a database returned it, aware or naive as the project's settings want it."""
    if value is None:
        return None
    moment = kind_of(connection).read_moment(value)
    if settings.USE_TZ:
        return moment if timezone.is_aware(moment) else moment.replace(tzinfo=datetime.timezone.utc)
    return timezone.make_naive(moment) if timezone.is_aware(moment) else moment


class MomentField(models.DateTimeField):
    """A DateTimeField that keeps the core's form."""

    def db_type(self, connection: BaseDatabaseWrapper) -> str | None:
        return kind_of(connection).moment_type

    def get_db_prep_value(self, value: Any, connection: BaseDatabaseWrapper, prepared: bool = False) -> Any:
        value = value if prepared else self.get_prep_value(value)
        return kind_of(connection).moment(value) if isinstance(value, datetime.datetime) else value

    def select_format(self, compiler: Any, sql: str, params: Any) -> tuple[str, Any]:
        """Reads moments outside of Python's years, which drivers refuse and others can write, as its first or last."""
        template = kind_of(compiler.connection).clamped
        return template.format(sql), (*params,) * template.count("{0}")

    def from_db_value(self, value: Any, expression: Any, connection: BaseDatabaseWrapper) -> Any:
        # Django has brought what it truncates into the project's time zone already.
        return value if isinstance(expression, TruncBase) else read_moment(value, connection)


class _OwnYearBounds:
    """`__year=…` compares with the first and the last moment of the year: they too have the core's form."""

    def year_lookup_bounds(self, connection: BaseDatabaseWrapper, year: int) -> list[Any]:
        """Where Django makes text of them, it is in the connection's zone; without zones, in the project's."""
        return [
            kind_of(connection).moment(parse_datetime(bound).replace(tzinfo=connection.timezone))
            if isinstance(bound, str)
            else bound
            for bound in super().year_lookup_bounds(connection, year)
        ]


class _Year(ExtractYear):
    pass


for _name in ("YearExact", "YearGt", "YearGte", "YearLt", "YearLte"):
    _Year.register_lookup(type(_name, (_OwnYearBounds, getattr(lookups, _name)), {}))
MomentField.register_lookup(_Year)


class EventIdField(models.UUIDField):
    """A UUIDField that keeps the core's form."""

    def get_internal_type(self) -> str:
        # Django would read a UUIDField's values in its own form, before `from_db_value`.
        return "EventIdField"

    def db_type(self, connection: BaseDatabaseWrapper) -> str | None:
        return kind_of(connection).id_type

    def get_db_prep_value(self, value: Any, connection: BaseDatabaseWrapper, prepared: bool = False) -> Any:
        value = self.to_python(value)
        return kind_of(connection).id(value) if isinstance(value, uuid.UUID) else value

    def from_db_value(self, value: Any, expression: Any, connection: BaseDatabaseWrapper) -> uuid.UUID | None:
        return None if value is None else as_uuid(value)


class _OnText:
    """Looks into the text of an id. Django's own lookups on parts of a UUID leave out the dashes."""

    def process_lhs(self, compiler: Any, connection: BaseDatabaseWrapper, lhs: Any = None) -> tuple[str, Any]:
        sql, params = super().process_lhs(compiler, connection, lhs)
        return kind_of(connection).id_text.format(sql), params


for _name in ("IExact", "Contains", "IContains", "StartsWith", "IStartsWith", "EndsWith", "IEndsWith"):
    EventIdField.register_lookup(type(_name, (_OnText, getattr(lookups, _name)), {}))


class _NextSeq(Expression):
    """In an INSERT: the database's own next number."""

    def as_sql(self, compiler: Any, connection: BaseDatabaseWrapper) -> tuple[str, list[Any]]:
        return kind_of(connection).next_seq, []


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

    arity = 0

    def __init__(self, **extra: Any) -> None:
        super().__init__(output_field=MomentField(), **extra)

    def as_sql(self, compiler: Any, connection: BaseDatabaseWrapper, **extra: Any) -> tuple[str, list[Any]]:
        return kind_of(connection).clock.replace("%", "%%"), []
