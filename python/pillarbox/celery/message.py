"""The stored form of a Celery message: what stands in the payload of its event. Pure: no database, no broker.

The body is the text that the serializer wrote, or base64 of what is not text, so that a database can neither reorder
nor refuse it. What is relative to the moment of sending (AMQP's expiration, the key of delayed delivery) is not in it:
the relay computes that from the absolute ``eta`` and ``expires`` of the headers.
"""

from __future__ import annotations

import base64
import datetime
import json
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any
from uuid import UUID

from celery.exceptions import ImproperlyConfigured
from celery.utils.time import maybe_iso8601
from django.utils.functional import Promise
from kombu import Exchange, Queue
from kombu.transport.base import to_rabbitmq_queue_arguments

VERSION = 1

#: The topic exchange that Celery's native delayed delivery starts at.
DELAYED_EXCHANGE = "celery_delayed_27"

#: The bits of a delay before the routing key. Older versions of kombu put one before the other when a task is retried.
_DELAY = re.compile(r"^(?:(?:[01]\.){28})+")

#: JSON's escapes for what PostgreSQL refuses in jsonb: NUL, and halves of surrogate pairs (whole ones match too).
_SUSPICIOUS = ("\\u0000", "\\ud")

#: The headers that show a task's arguments to people. The arguments themselves are in the body.
_REPRS = ("argsrepr", "kwargsrepr")

#: What kombu's queues have besides their arguments, and RabbitMQ knows as arguments.
_LIMITS = ("expires", "message_ttl", "max_length", "max_length_bytes", "max_priority")


class NotRecordable(TypeError):
    """A message that no broker could be given as it is; nothing was written, and the transaction is usable."""


def encode(
    *,
    body: str | bytes,
    content_type: str,
    content_encoding: str,
    headers: Mapping[str, Any],
    properties: Mapping[str, Any],
    exchange: str,
    routing_key: str,
    queue: str | None,
    declare: list[dict[str, Any]],
    delayed: bool,
) -> str:
    """The payload's JSON."""
    message: dict[str, Any] = {
        "celery": VERSION,
        "body": _body(body, content_encoding),
        "content_type": content_type,
        "content_encoding": content_encoding,
        "headers": headers,
        "properties": properties,
        "exchange": exchange,
        "routing_key": routing_key,
    }
    if queue is not None:
        message["queue"] = queue
    if declare:
        message["declare"] = declare
    if delayed:
        message["delayed"] = True
    try:
        text = _JSON.encode(message)
    except NotRecordable:
        raise
    except (TypeError, ValueError) as error:
        raise NotRecordable(f"a header or property of the task cannot be recorded: {error}") from error
    if any(escape in text for escape in _SUSPICIOUS):
        reprs = {name: storable(headers[name]) for name in _REPRS if name in headers}
        # The body has no such text any more, and may show the escapes of it.
        for name, value in {**message, "headers": {**headers, **reprs}}.items():
            if name != "body":
                _refuse_broken_text(value, name)
        if any(headers[name] != shown for name, shown in reprs.items()):
            return _JSON.encode({**message, "headers": {**headers, **reprs}})
    return text


def storable(value: Any) -> Any:
    """Text that only people read, with escapes for what a database cannot hold: strangers may have written it."""
    if isinstance(value, str):
        return value.replace("\0", "\\0").encode(errors="backslashreplace").decode()
    if isinstance(value, dict):
        return {storable(key): storable(item) for key, item in value.items()}
    return [storable(item) for item in value] if isinstance(value, list) else value


def _body(body: str | bytes, content_encoding: str) -> str | dict[str, str]:
    if isinstance(body, bytes):
        if content_encoding != "binary":
            try:
                text = body.decode()
            except UnicodeDecodeError:
                return _base64(body)
            return _body(text, "utf-8")
        return _base64(body)
    if content_encoding.lower() not in ("utf-8", "utf8") and not body.isascii():
        return _base64(body.encode(content_encoding))
    # Text that a database would refuse goes as the bytes that kombu would have sent.
    if "\0" in body or not _is_unicode(body):
        return _base64(body.encode("utf-8", "surrogatepass"))
    return body


def _base64(body: bytes) -> dict[str, str]:
    return {"base64": base64.b64encode(body).decode()}


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _special(value: object) -> Any:
    """What JSON has not."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {"$bytes": base64.b64encode(value).decode()}
    if isinstance(value, datetime.datetime):
        return {"$time": value.isoformat()}
    if isinstance(value, (UUID, Decimal, Promise, datetime.date, datetime.time)):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (set, frozenset)):
        return list(value)
    if isinstance(value, Queue):  # reply_to may be one
        return value.name
    raise NotRecordable(
        f"a header or property of the task cannot be recorded: {type(value).__name__} cannot be put into a message;"
        " use text, a number, a list or a dict"
    )


_JSON = json.JSONEncoder(default=_special, allow_nan=False, separators=(",", ":"))


def to_json(value: Any) -> str:
    """JSON, as the payload is written."""
    return _JSON.encode(value)


def _refuse_broken_text(value: object, where: str) -> None:
    if isinstance(value, str):
        if "\0" in value or not _is_unicode(value):
            raise NotRecordable(
                f"{where} of the task contains text that a database cannot store (a NUL or half of a surrogate pair);"
                " remove it or give the value as bytes"
            )
    elif isinstance(value, Mapping):
        for key, item in value.items():
            _refuse_broken_text(key, where)
            _refuse_broken_text(item, f"{where}.{key}")
    elif isinstance(value, (list, tuple)):
        for item in value:
            _refuse_broken_text(item, where)


def require_protocol_2(headers: Mapping[str, Any]) -> None:
    """Protocol 1 has the task in its body, where no relay looks."""
    if "task" not in headers or "id" not in headers:
        raise ImproperlyConfigured("the outbox records Celery's message protocol 2; remove task_protocol = 1")


def absolute(headers: dict[str, Any]) -> None:
    """Says of ``eta`` and ``expires`` without a time zone that they are UTC: workers think so in any case."""
    for name in ("eta", "expires"):
        text = headers.get(name)
        if isinstance(text, str) and not text.endswith(("+00:00", "Z")):
            moment = maybe_iso8601(text)
            if moment.tzinfo is None:
                headers[name] = moment.replace(tzinfo=datetime.timezone.utc).isoformat()


def without_delay(routing_key: str) -> str:
    """The routing key of the real target."""
    return _DELAY.sub("", routing_key)


def declarations(entities: Iterable[Queue | Exchange | None]) -> list[dict[str, Any]]:
    """What kombu would have declared, as far as a relay may: durable things that others share.

    A queue that goes with its consumer (auto_delete, exclusive), an exchange with arguments or one alone is left to
    whoever consumes from it.
    """
    found = []
    for entity in entities:
        if isinstance(entity, Queue) and not (entity.no_declare or entity.auto_delete or entity.exclusive):
            found.extend(_declare_queue(entity))
    return found


def _declare_queue(queue: Queue) -> Iterable[dict[str, Any]]:
    arguments = queue.queue_arguments or {}
    limits = {name: getattr(queue, name) for name in _LIMITS if getattr(queue, name) is not None}
    if limits:
        arguments = to_rabbitmq_queue_arguments(arguments, **limits)
    # A queue with bindings is declared without its exchange: kombu's copies of it lose that.
    bindings = [(each.exchange, each.routing_key, each.arguments) for each in queue.bindings] or [
        (queue.exchange, queue.routing_key, queue.binding_arguments)
    ]
    for exchange, routing_key, binding_arguments in bindings:
        if not _plain(exchange, queue.durable) or binding_arguments:
            continue
        declared = {"queue": queue.name, "durable": queue.durable}
        if arguments:
            declared["arguments"] = dict(arguments)
        yield declared | {
            "exchange": exchange.name,
            "exchange_type": exchange.type,
            "routing_key": routing_key or "",
        }


def _plain(exchange: Exchange, durable: bool) -> bool:
    """Whether the form can say all that is to be known of the exchange."""
    if not exchange.name:
        return True
    return exchange.durable == durable and not (exchange.auto_delete or exchange.arguments or exchange.no_declare)
