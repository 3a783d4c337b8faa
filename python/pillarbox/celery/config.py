"""The relay's configuration, from the settings of a Celery app.

What Python alone can decide is refused: a router that is a function, a regular expression. Tasks of ``OutboxCelery``
carry their route with them and need no routes here; rows of django-celery-outbox, and tasks from Rust, do.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from celery import Celery
from django.core.exceptions import ImproperlyConfigured
from kombu import Exchange, Queue

from pillarbox import mask, metrics, redact
from pillarbox.celery.broker import Broker, broker_of
from pillarbox.celery.message import declarations
from pillarbox.json_path import InvalidPath
from pillarbox.retention import failed_seconds

OUTBOX = "outbox"
DJANGO_CELERY_OUTBOX = "django-celery-outbox"

_ROUTE_KEYS = ("queue", "exchange", "routing_key", "priority")


class CannotSay(ValueError):
    """Settings that the relay's configuration has no words for; all of them, each with what to do."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


def relay_config(app: Celery, *, source: str = OUTBOX, routes: bool = True, broker: Broker | None = None) -> str:
    """The configuration, as TOML and without secrets: those are in PILLARBOX_DATABASE_URL and PILLARBOX_BROKER_URL.

    Raises CannotSay, and ImproperlyConfigured for wrong settings of this package. Without ``routes`` those of the app
    are left out, and what would be wrong with them.
    """
    broker = broker or broker_of(app)
    queues = {name: app.amqp.queues[name] for name in app.amqp.queues}
    problems = list(broker.problems)
    written = []
    for table in _routes(app.conf.task_routes, app, problems) if routes else ():
        queue = table.get("queue")
        if isinstance(queue, Queue):
            queues[queue.name] = queue
            table["queue"] = queue.name
        elif queue is not None:
            queues[queue] = app.amqp.queues[queue]
        written.append(table)
    if problems:
        raise CannotSay(problems)
    return "\n".join([*_head(source), *_destination(app, broker, queues), *_tables(written), *_end(source)]) + "\n"


def _head(source: str) -> Iterator[str]:
    yield "# Printed by manage.py pillarbox_config. PILLARBOX_DATABASE_URL is the database of the outbox,"
    yield "# PILLARBOX_BROKER_URL the broker: manage.py pillarbox_relay sets both from the settings."
    if source == DJANGO_CELERY_OUTBOX:
        yield f"\n[source]\nkind = {_toml(source)}"
    elif (failed := failed_seconds()) is not None:
        yield f'\n[relay]\ncleanup = {{ failed_after = "{int(failed)}s" }}'
    if paths := _masked():
        yield f"\n[admin]\nmask = {_toml(paths)}"
    if metrics.enabled():
        yield f"\n[metrics]\nstatsd = {_toml(metrics.address_text())}\nprefix = {_toml(metrics.prefix())}"
        if tags := metrics.constant_tags():
            yield f"tags = {_toml({key: str(value) for key, value in tags.items()})}"


def _masked() -> list[str]:
    """What the relay's own pages do not show. No relay can ask a redactor, so the whole body of a task is masked."""
    try:
        paths = mask.configured()
        mask.parsed(tuple(paths))
    except InvalidPath as error:
        raise ImproperlyConfigured(f"PILLARBOX_MASK: {error}") from error
    if redact.is_wanted():
        paths += [path for path in ("$.body", "$.headers.argsrepr", "$.headers.kwargsrepr") if path not in paths]
    return paths


def _destination(app: Celery, broker: Broker, queues: dict[str, Queue]) -> Iterator[str]:
    default: Queue = app.amqp.default_queue
    left_out = sorted(name for name, queue in queues.items() if not declarations([queue]))
    yield '\n[destinations.celery]\nkind = "celery"\nbroker = "env:PILLARBOX_BROKER_URL"'
    yield f"default_queue = {_toml(default.name)}"
    if left_out:
        yield f"# Not declared, because the relay does not support all options of: {', '.join(left_out)}"
    yield f"declare = {_toml(not left_out)}"
    if getattr(app.conf, "task_create_missing_queue_type", None) == "quorum":
        yield 'queue_type = "quorum"'
    for key, value in sorted(broker.options.items()):
        yield f"{key} = {_toml(value)}"
    if broker.sentinel_password:
        yield 'sentinel_password = "env:PILLARBOX_SENTINEL_PASSWORD"'
    for name, queue in sorted(queues.items()):
        # The form in which a task's row says it, too. A queue with several bindings is published to by the first.
        for entry in declarations([queue])[:1] or [_undeclared(queue)]:
            yield f"\n[destinations.celery.queues.{_key(name)}]"
            yield from (f"{key} = {_toml(value)}" for key, value in entry.items() if key != "queue")


def _undeclared(queue: Queue) -> dict[str, Any]:
    exchange = queue.exchange or Exchange("")
    return {"exchange": exchange.name, "exchange_type": exchange.type, "routing_key": queue.routing_key or ""}


def _tables(routes: list[dict[str, Any]]) -> Iterator[str]:
    for table in routes:
        yield "\n[[destinations.celery.routes]]"
        yield from (f"{key} = {_toml(value)}" for key, value in table.items())


def _end(source: str) -> Iterator[str]:
    if source == OUTBOX:
        yield '\n[[routes]]\naggregates = "celery"\nto = ["celery"]'


def _routes(given: Any, app: Celery, problems: list[str]) -> Iterator[dict[str, Any]]:
    """Celery asks one router after the other; a map has its plain names before its patterns."""
    if given is None:
        return
    for number, router in enumerate(given if isinstance(given, (list, tuple)) else [given]):
        where = f"task_routes[{number}]" if isinstance(given, (list, tuple)) else "task_routes"
        if not isinstance(router, (Mapping, list, tuple)):
            name = router if isinstance(router, str) else getattr(router, "__qualname__", type(router).__name__)
            problems.append(
                f"{where} is the router {name}, which only Python can call; replace it by a map of task names, or send"
                " the tasks with pillarbox.celery.OutboxCelery, which calls it when a task is sent, and print the"
                " configuration --without-routes"
            )
            continue
        pairs = list(router.items() if isinstance(router, Mapping) else router)
        plain = [pair for pair in pairs if isinstance(pair[0], str) and "*" not in pair[0]]
        for tasks, target in plain + [pair for pair in pairs if pair not in plain]:
            if (table := _route(tasks, target, app, where, problems)) is not None:
                yield table


def _route(tasks: Any, target: Any, app: Celery, where: str, problems: list[str]) -> dict[str, Any] | None:
    if isinstance(tasks, re.Pattern):
        problems.append(
            f"{where} has the regular expression {tasks.pattern!r}, but the relay's patterns support only *; use *,"
            " or print the configuration --without-routes if all tasks are sent with pillarbox.celery.OutboxCelery"
        )
        return None
    if "*" in tasks and re.search(r"[?\[]", tasks):
        problems.append(f"{where} has the pattern {tasks!r}, but the relay's patterns support only *; remove ? and [")
        return None
    if not isinstance(target, Mapping):
        return {"tasks": tasks, "queue": target}
    if unknown := [key for key in target if key not in _ROUTE_KEYS and target[key] is not None]:
        problems.append(
            f"{where}[{tasks!r}] sets {', '.join(unknown)}, but a route of the relay has only {', '.join(_ROUTE_KEYS)};"
            " set it where the task is defined"
        )
        return None
    table = {"tasks": tasks, **{key: target[key] for key in _ROUTE_KEYS if target.get(key) is not None}}
    if isinstance(table.get("exchange"), Exchange):
        table["exchange"] = table["exchange"].name
    if "queue" not in table and not ("exchange" in table and "routing_key" in table):
        if "exchange" in table:
            problems.append(f"{where}[{tasks!r}] has an exchange without a routing_key; set it, or a queue")
            return None
        table["queue"] = app.conf.task_default_queue
    return table


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _toml(name)


def _toml(value: Any) -> str:
    """JSON's text and numbers are TOML's; its objects are not."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(str(key))} = {_toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, (bool, int, float)):
        return json.dumps(value)
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
