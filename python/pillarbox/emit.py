"""Emit: events are written in the caller's transaction, by the core's own statements.

Everything a database would refuse is refused here first, so that the caller's transaction stays usable. The same
statement wakes an idle relay (PostgreSQL): the notification goes out when the transaction commits, and only then.
"""

from __future__ import annotations

import datetime
import json
import logging
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from django.conf import settings
from django.core.serializers.json import DjangoJSONEncoder
from django.db import IntegrityError, connections, router, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils import timezone

from pillarbox import databases, on_commit, opaque, schemas
from pillarbox.connection import in_transaction, run_write
from pillarbox.fields import read_moment
from pillarbox.ids import as_uuid, uuid7
from pillarbox.log import warn
from pillarbox.models import CELERY, OutboxEvent

_logger = logging.getLogger(__name__)

AGGREGATE_LIMIT = 100
NAME_LIMIT = 255
PAYLOAD_LIMIT = 1024 * 1024
_ATTEMPTS_LIMIT = 2**31 - 1
# How far ahead an event can be emitted for: a hundred years.
_DELIVER_AT_LIMIT = datetime.timedelta(days=36_525)
# An escaped NUL, behind an even number of backslashes.
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


class InvalidEvent(ValueError):
    """An event that no database was asked to store, and why."""


class SchemaViolation(InvalidEvent):
    """An event whose payload violates its schema of `PILLARBOX_SCHEMAS`, and where."""


class JsonText(str):
    """A payload that is JSON text already: it is written as it stands, and checked like any other."""


@dataclass
class Row:
    """An event to write. Without a key it gets `{aggregate_type}:{aggregate_id}`; with `own_key` its own id."""

    aggregate_type: str
    aggregate_id: str
    event_type: str
    payload: Any = None
    idempotency_key: str | None = None
    headers: Mapping[str, Any] | None = None
    max_attempts: int | None = None
    deliver_at: datetime.datetime | None = None
    own_key: bool = False
    payload_limit: int | None = None
    #: An opaque payload, in place of `payload`, and its type.
    payload_bytes: bytes | None = None
    content_type: str | None = None
    id: uuid.UUID = field(default_factory=uuid7)

    def __post_init__(self) -> None:
        if self.payload_bytes is not None or self.content_type is not None:
            self._take_bytes()
        if self.aggregate_id is not None:
            self.aggregate_id = str(self.aggregate_id)
        self.payload = {} if self.payload is None else self.payload
        if self.own_key:
            self.idempotency_key = str(self.id)
        elif self.idempotency_key is None:
            self.idempotency_key = f"{self.aggregate_type}:{self.aggregate_id}"

    def _take_bytes(self) -> None:
        if self.payload_bytes is None or self.content_type is None:
            raise InvalidEvent("give payload_bytes and content_type together: content_type='application/x-protobuf'")
        if self.payload is not None:
            raise InvalidEvent("both payload and payload_bytes are given; give one of them")
        if not isinstance(self.payload_bytes, bytes | bytearray | memoryview):
            raise InvalidEvent(f"payload_bytes is a {type(self.payload_bytes).__name__}; give bytes")
        self.payload = opaque.encode(self.payload_bytes)
        if self.headers is None or isinstance(self.headers, Mapping):
            self.headers = {**(self.headers or {}), opaque.HEADER: self.content_type}


#: The seq and the moment of each written row, by its id.
Written = dict[uuid.UUID, tuple[int, datetime.datetime]]


def emit_event(
    aggregate_type: str,
    aggregate_id: Any,
    event_type: str,
    payload: Any = None,
    *,
    idempotency_key: str | None = None,
    headers: Mapping[str, Any] | None = None,
    max_attempts: int | None = None,
    deliver_at: datetime.datetime | None = None,
    repeatable: bool = False,
    payload_bytes: bytes | None = None,
    content_type: str | None = None,
    using: str | None = None,
) -> OutboxEvent:
    """Writes an event in the current transaction and answers it, pending.

        with transaction.atomic():
            order = Order.objects.create(...)
            emit_event("Order", order.pk, "order.placed", {"total": order.total})

    The payload may hold whatever Django's JSON encoder knows (UUID, datetime, Decimal); None becomes `{}`. The default
    key is `{aggregate_type}:{aggregate_id}`, so the same type of event is told once of an aggregate: `repeatable=True`,
    or a key of your own, tells it again. `max_attempts=0` never gives up, `deliver_at` delays, `using` names another
    database than the router's.

    `payload_bytes` with its `content_type`, in place of `payload`, is an opaque payload: receivers get the bytes as
    they are. The row holds them as base64, and the limit of payloads counts that.

    Outside of a transaction it is written at once, with the warning `pillarbox_event_not_in_transaction`.

    A repeatable event may be written into PostgreSQL's write-ahead log, if that is enabled. Then it has no row, and the
    answer has no seq.

    Raises IntegrityError for a duplicate, InvalidEvent (a ValueError) for what cannot be stored, and SchemaViolation
    (an InvalidEvent) for what violates its schema of `PILLARBOX_SCHEMAS`; the transaction stays usable after each.
    """
    row = Row(
        aggregate_type,
        aggregate_id,
        event_type,
        payload,
        idempotency_key=idempotency_key,
        headers=headers,
        max_attempts=max_attempts,
        deliver_at=deliver_at,
        own_key=repeatable and idempotency_key is None,
        payload_bytes=payload_bytes,
        content_type=content_type,
    )
    return write([row], using=using)[0]


def emit_events(events: Iterable[Row | Mapping[str, Any]], *, using: str | None = None) -> list[OutboxEvent]:
    """Writes many events with one statement, in their order: dicts with the arguments of `emit_event`, or `Row`s.

    All or none: a duplicate among them raises IntegrityError, and none is written.
    """
    rows = [event if isinstance(event, Row) else _row(**event) for event in events]
    return write(rows, using=using)


def _row(*, repeatable: bool = False, **fields: Any) -> Row:
    return Row(**fields, own_key=repeatable and fields.get("idempotency_key") is None)


def write(rows: Sequence[Row], *, using: str | None = None) -> list[OutboxEvent]:
    """Checks rows, writes them with one statement, and answers them in their order. All are written or none."""
    if not rows:
        return []
    columns = [_columns(row) for row in rows]
    alias = using or router.db_for_write(OutboxEvent)
    connection = connections[alias]
    if not in_transaction(connection):
        first = {"event_type": rows[0].event_type, "event_id": str(rows[0].id)}
        warn(_logger, "pillarbox_event_not_in_transaction", **first, events=len(rows))
    insert, found = partial(_insert_all, connection, rows, columns), partial(_found, alias, rows)
    written = run_write(connection, insert, found)
    on_commit.deliver(alias, rows)
    return [_event(row, written.get(row.id, (None, timezone.now())), alias) for row in rows]


def _insert_all(connection: BaseDatabaseWrapper, rows: Sequence[Row], columns: list[tuple[Any, ...]]) -> Written:
    # One row is whole by itself; of several, those before a duplicate would stay.
    with transaction.atomic(using=connection.alias) if len(rows) > 1 else nullcontext():
        written = _insert(connection, columns)
        for row in rows:
            if row.id not in written and row.idempotency_key != str(row.id):
                raise _duplicate(row)
    return written


def _found(alias: str, rows: Sequence[Row]) -> Written | None:
    """The rows as they are in the table, if all of them are there."""
    there = OutboxEvent.objects.using(alias).filter(pk__in=[row.id for row in rows])
    written = {id: (seq, created_at) for id, seq, created_at in there.values_list("id", "seq", "created_at")}
    return written if len(written) == len(rows) else None


def _insert(connection: BaseDatabaseWrapper, columns: list[tuple[Any, ...]]) -> Written:
    """The seq and the moment of each row that was written."""
    written = databases.of(connection).insert(columns)
    return {as_uuid(id): (seq, read_moment(created_at, connection)) for id, seq, created_at in written}


def _columns(row: Row) -> tuple[Any, ...]:
    """A row as the statement takes it, checked."""
    _check_text("aggregate_type", row.aggregate_type, AGGREGATE_LIMIT)
    if row.aggregate_type == CELERY:
        raise InvalidEvent(
            f'the aggregate_type "{CELERY}" is reserved for tasks that pillarbox.celery.OutboxCelery records; choose'
            " another, or send the task with the app"
        )
    _check_text("aggregate_id", row.aggregate_id, AGGREGATE_LIMIT)
    _check_text("event_type", row.event_type, NAME_LIMIT)
    _check_text("idempotency_key", row.idempotency_key, NAME_LIMIT)
    limit = row.payload_limit or getattr(settings, "PILLARBOX_PAYLOAD_LIMIT", PAYLOAD_LIMIT)
    if row.headers is not None and not isinstance(row.headers, Mapping):
        raise InvalidEvent(f"headers is a {type(row.headers).__name__}; give a dict")
    if opaque.is_opaque(row.headers):
        _check_opaque(row)
    attempts = row.max_attempts
    if attempts is not None and not 0 <= attempts <= _ATTEMPTS_LIMIT:
        raise InvalidEvent(f"max_attempts is {attempts}, the limit is {_ATTEMPTS_LIMIT}; 0 means never give up")
    payload = _json("payload", row.payload, limit)
    if not opaque.is_opaque(row.headers) and (what := schemas.violation(row.event_type, payload)):
        raise SchemaViolation(what)
    return (
        row.id,
        row.aggregate_type,
        row.aggregate_id,
        row.event_type,
        payload,
        _json("headers", row.headers, limit) if row.headers else None,
        row.idempotency_key,
        attempts,
        None if row.deliver_at is None else _check_moment(row.deliver_at),
    )


def _check_opaque(row: Row) -> None:
    """Such an event could never be sent."""
    content_type = row.headers[opaque.HEADER]
    if not opaque.is_content_type(content_type):
        raise InvalidEvent(f"content_type is {content_type!r}, which is no content type; write application/x-protobuf")
    try:
        opaque.decode(json.loads(row.payload) if isinstance(row.payload, JsonText) else row.payload)
    except ValueError as error:
        raise InvalidEvent(f"{error}; give bytes as payload_bytes, or leave out the header {opaque.HEADER}") from None


def _check_moment(moment: datetime.datetime) -> datetime.datetime:
    """How far in the past it is makes no difference; datetime.min and datetime.max have no place in most zones."""
    try:
        ahead = _aware(moment) - timezone.now()
    except OverflowError:
        ahead = datetime.timedelta.max if moment.year > timezone.now().year else datetime.timedelta.min
    if ahead > _DELIVER_AT_LIMIT:
        raise InvalidEvent(f"deliver_at is {moment}, the limit is 100 years from now; choose an earlier moment")
    return timezone.now() if ahead < datetime.timedelta() else _aware(moment)


def _is_later(moment: datetime.datetime | None, than: datetime.datetime) -> bool:
    try:
        return moment is not None and _aware(moment) > _aware(than)
    except OverflowError:
        # Only the past has such moments: the future has a limit.
        return False


def _aware(moment: datetime.datetime) -> datetime.datetime:
    return timezone.make_aware(moment) if timezone.is_naive(moment) else moment


def _check_text(name: str, text: Any, limit: int) -> None:
    if not isinstance(text, str):
        raise InvalidEvent(f"{name} is {'None' if text is None else 'a ' + type(text).__name__}; give text")
    if not text:
        raise InvalidEvent(f"{name} is empty; give it at least one character")
    if len(text) > limit:
        raise InvalidEvent(f"{name} has {len(text)} characters, the limit is {limit}; shorten it")
    if "\0" in text:
        raise _unstorable(name, "a NUL character (U+0000)")
    _encode(name, text)


def _json(name: str, value: Any, limit: int) -> str:
    try:
        text = (
            value
            if isinstance(value, JsonText)
            else json.dumps(value, cls=DjangoJSONEncoder, ensure_ascii=False, allow_nan=False)
        )
    except RecursionError:
        raise _unstorable(name, "more levels of arrays and objects than Python can write") from None
    except (TypeError, ValueError) as error:
        raise InvalidEvent(f"the {name} cannot be written as JSON: {error}") from error
    if _NUL.search(text) or (isinstance(value, JsonText) and "\0" in text):
        raise _unstorable(name, "a NUL character (U+0000)")
    size = len(_encode(name, text))
    if size > limit:
        raise InvalidEvent(
            f"the {name} has {size} bytes of JSON, the limit is {limit}; store the bulk elsewhere and send a "
            "reference, or raise the setting PILLARBOX_PAYLOAD_LIMIT"
        )
    return text


def _encode(name: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise _unstorable(name, "half of a surrogate pair") from None


def _unstorable(name: str, what: str) -> InvalidEvent:
    return InvalidEvent(
        f"{name} contains {what}, which the database cannot store; remove or encode it (base64, for example)"
    )


def _duplicate(row: Row) -> IntegrityError:
    return IntegrityError(
        f'an event "{row.event_type}" with the idempotency key "{row.idempotency_key}" exists already; if it may '
        "happen more than once to an aggregate, emit it with repeatable=True or with another idempotency_key"
    )


def _event(row: Row, answer: tuple[int | None, datetime.datetime], alias: str) -> OutboxEvent:
    """The row as it stands in the table now, without asking for it again. In the write-ahead log it has no seq."""
    seq, created_at = answer
    event = OutboxEvent(
        id=row.id,
        seq=seq,
        aggregate_type=row.aggregate_type,
        aggregate_id=row.aggregate_id,
        event_type=row.event_type,
        payload=json.loads(row.payload) if isinstance(row.payload, JsonText) else row.payload,
        headers=dict(row.headers) if row.headers else None,
        idempotency_key=row.idempotency_key,
        max_attempts=row.max_attempts,
        next_attempt_at=row.deliver_at if _is_later(row.deliver_at, created_at) else created_at,
        created_at=created_at,
        updated_at=created_at,
    )
    event._state.adding = False
    event._state.db = alias
    return event
