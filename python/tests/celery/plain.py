"""Plain Celery on kombu's in-memory transport, which remembers what was published and declared."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

from kombu import pools
from kombu.transport import memory
from kombu.transport.base import to_rabbitmq_queue_arguments

from pillarbox.celery.message import DELAYED_EXCHANGE, without_delay

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")

#: What was published, in kombu's own form, with where to.
published: list[dict[str, Any]] = []
declared: list[tuple[str, dict[str, Any]]] = []


class Channel(memory.Channel):
    """Everything but the delivery is kombu's."""

    def prepare_queue_arguments(self, arguments: Any, **options: Any) -> dict[str, Any]:
        return to_rabbitmq_queue_arguments(arguments, **options)

    def exchange_declare(
        self, exchange: Any = None, type: str = "direct", durable: bool = False, **options: Any
    ) -> Any:
        declared.append(("exchange", {"exchange": exchange, "exchange_type": type, "durable": durable}))

    def queue_declare(self, queue: Any = None, passive: bool = False, **options: Any) -> Any:
        wanted = {"queue": queue, "durable": options["durable"], "arguments": options.get("arguments") or {}}
        declared.append(("queue", wanted))

    def queue_bind(self, queue: str, exchange: Any = None, routing_key: str = "", **options: Any) -> Any:
        declared.append(("binding", {"queue": queue, "exchange": exchange, "routing_key": routing_key}))

    def basic_publish(self, message: dict[str, Any], exchange: str, routing_key: str, **options: Any) -> Any:
        self._inplace_augment_message(message, exchange, routing_key)
        published.append({**message, "exchange": exchange, "routing_key": routing_key})


def forget() -> None:
    """Kombu, too, remembers what it has declared, with its connections."""
    published.clear()
    declared.clear()
    pools.reset()


class Transport(memory.Transport):
    """Says that it is RabbitMQ, so that Celery uses all that it has for it."""

    Channel = Channel
    driver_type = "amqp"


def as_published(recorded: dict[str, Any]) -> dict[str, Any]:
    """The recorded form as the relay would send it, comparable with :func:`comparable`."""
    body = recorded["body"]
    # Celery gives None when a queue is named: AMQP then has none, and this transport has 0.
    properties = {"priority": 0, **recorded["properties"]}
    message = {
        "body": base64.b64decode(body["base64"]) if isinstance(body, dict) else body.encode(),
        "content_type": recorded["content_type"],
        "content_encoding": recorded["content_encoding"],
        "headers": _values(recorded["headers"]),
        "properties": _values(properties),
        # Plain Celery knows the exchange no more when a task is delayed.
        "exchange": "" if recorded.get("delayed") else recorded["exchange"],
        "routing_key": recorded["routing_key"],
        "delayed": recorded.get("delayed", False),
    }
    return _numbered(message)


def _numbered(message: dict[str, Any]) -> dict[str, Any]:
    """The message with its random ids numbered as they come: each app makes its own."""
    text = json.dumps(message, sort_keys=True, default=lambda body: body.decode("latin-1"))
    ids: dict[str, str] = {}
    return json.loads(_UUID.sub(lambda found: ids.setdefault(found[0], f"id {len(ids)}"), text))


def comparable(message: dict[str, Any]) -> dict[str, Any]:
    """What kombu published, without what is made anew for each message and what is relative to the moment."""
    properties = dict(message["properties"])
    for name in ("delivery_info", "delivery_tag", "body_encoding"):
        properties.pop(name)
    if message["headers"]["expires"] is not None:
        properties.pop("expiration")
    exchange, routing_key = message["exchange"], message["routing_key"]
    if delayed := exchange == DELAYED_EXCHANGE:
        exchange, routing_key = "", without_delay(routing_key)
    published = {
        "body": base64.b64decode(message["body"]),
        "content_type": message["content-type"],
        "content_encoding": message["content-encoding"],
        "headers": json.loads(json.dumps(message["headers"], default=_readable)),
        "properties": json.loads(json.dumps(properties, default=_readable)),
        "exchange": exchange,
        "routing_key": routing_key,
        "delayed": delayed,
    }
    return _numbered(published)


def declared_by_recorded(recorded: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The calls that a broker sees for the recorded "declare"."""
    calls: list[tuple[str, dict[str, Any]]] = []
    for entry in recorded.get("declare", []):
        queue, exchange = entry["queue"], entry["exchange"]
        queue_call = {"queue": queue, "durable": entry["durable"], "arguments": entry.get("arguments", {})}
        if exchange:
            exchange_call = {"exchange": exchange, "exchange_type": entry["exchange_type"], "durable": entry["durable"]}
            binding = {"queue": queue, "exchange": exchange, "routing_key": entry["routing_key"]}
            calls += [("exchange", exchange_call), ("queue", queue_call), ("binding", binding)]
        else:
            calls.append(("queue", queue_call))
    return [call for number, call in enumerate(calls) if call not in calls[:number]]


def _values(value: Any) -> Any:
    """Special values as :func:`_readable` writes them."""
    if isinstance(value, dict):
        if value.keys() == {"$bytes"}:
            return f"bytes {value['$bytes']}"
        if value.keys() == {"$time"}:
            return f"time {value['$time']}"
        return {key: _values(item) for key, item in value.items()}
    return [_values(item) for item in value] if isinstance(value, list) else value


def _readable(value: Any) -> str:
    if isinstance(value, bytes):
        return f"bytes {base64.b64encode(value).decode()}"
    return f"time {value.isoformat()}"
