"""A pytest plugin: the fixture `outbox` says what a test emitted, and delivers it on the spot.

    def test_order(outbox):
        place_order(42)
        outbox.assert_emitted("order.placed", aggregate_id="42")
        outbox.drain()

Loaded by every pytest that finds this package, so nothing of Django is imported before the fixture is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pillarbox.models import OutboxEvent

# A task that always retries itself would never come to an end.
_ROUNDS = 1000


@pytest.fixture
def outbox(pillarbox_outbox: Outbox) -> Outbox:
    """The outbox of the router's database; `outbox.using = "other"` looks at another one."""
    return pillarbox_outbox


@pytest.fixture
def pillarbox_outbox(db: None) -> Outbox:
    """The same by another name, for where django-celery-outbox, whose fixture is called `outbox` too, is installed."""
    return Outbox()


class Outbox:
    """What was emitted so far, in its order."""

    def __init__(self, using: str | None = None) -> None:
        self.using = using

    def emitted(self, event_type: str | None = None, **fields: Any) -> list[OutboxEvent]:
        """The events of this type (`*` stands for anything; without it all) whose fields are equal to these.

        For a recorded Celery task the type is its name, and `args` and `kwargs` are compared too.
        """
        from pillarbox.handlers import matches

        rows = self._rows().order_by("seq")
        return [row for row in rows if matches(event_type or "*", row.event_type) and _fits(row, fields)]

    def assert_emitted(self, event_type: str, *, count: int | None = None, **fields: Any) -> OutboxEvent:
        """Fails unless there is such an event, or exactly `count` of them; answers the last."""
        found = self.emitted(event_type, **fields)
        if not found or (count is not None and len(found) != count):
            wanted = ", ".join([event_type, *(f"{name}={value!r}" for name, value in fields.items())])
            number = "" if count is None else f" {count} times, but {len(found)} times"
            there = "\n".join(f"  {_told(row)}" for row in self._rows().order_by("seq")) or "  nothing"
            raise AssertionError(f"{wanted} was not emitted{number}; emitted:\n{there}")
        return found[-1]

    def assert_not_emitted(self, event_type: str = "*", **fields: Any) -> None:
        """Fails if there is such an event."""
        if found := self.emitted(event_type, **fields):
            there = "\n".join(f"  {_told(row)}" for row in found)
            raise AssertionError(f"{event_type} was emitted:\n{there}")

    def drain(self) -> int:
        """Delivers here until nothing is left: events to their handlers, recorded tasks to the tasks themselves.

        Whatever is due counts, and recorded tasks whatever their ETA. Raises what a handler or task raised. Answers
        how many were delivered. Events without a handler stay pending.
        """
        delivered = 0
        for _ in range(_ROUNDS):
            taken = list(self._due())
            if not taken:
                return delivered
            for event in taken:
                self._deliver(event)
                delivered += 1
        raise AssertionError(f"the outbox is not empty after {_ROUNDS} rounds; a task may retry itself endlessly")

    def _rows(self) -> Any:
        from django.db import router

        from pillarbox.models import OutboxEvent

        return OutboxEvent.objects.using(self.using or router.db_for_write(OutboxEvent))

    def _due(self) -> Iterator[OutboxEvent]:
        from django.db.models import Q

        from pillarbox.fields import Clock
        from pillarbox.handlers import wanted
        from pillarbox.models import CELERY

        due = Q(aggregate_type=CELERY) | Q(next_attempt_at__lte=Clock())
        for event in self._rows().filter(due, status="pending").order_by("seq"):
            if event.aggregate_type == CELERY or wanted(event.event_type, event.aggregate_type):
                yield event

    def _deliver(self, event: OutboxEvent) -> None:
        """Settled before it raises, as a relay or a worker would."""
        from pillarbox.fields import Clock
        from pillarbox.handlers import handlers_of
        from pillarbox.models import CELERY

        error = None
        try:
            if event.aggregate_type == CELERY:
                run_task(event)
            else:
                for handler in handlers_of(event.event_type):
                    handler(event)
        except Exception as raised:
            error = raised
        changes: dict[str, Any] = {"status": "delivered", "delivered_at": Clock()}
        # A task that was handed over has been delivered, whatever becomes of it in the worker.
        if error is not None and event.aggregate_type != CELERY:
            changes = {"status": "failed", "attempts": event.attempts + 1, "error_message": str(error)}
        self._rows().filter(pk=event.pk).update(
            **changes, next_attempt_at=None, claimed_by=None, parked_on=None, updated_at=Clock()
        )
        if error is not None:
            raise error


def run_task(event: OutboxEvent) -> Any:
    """Runs a recorded Celery task as a worker would, in this process, and answers what it returned.

    What it sends itself (the rest of a chain, its callbacks, a retry) is sent by its app, that is, recorded again.
    """
    from celery.app.trace import build_tracer

    app, (args, kwargs, embed) = _app(), decode(event.payload)
    headers = event.payload["headers"]
    name, id = headers.get("task", event.event_type), headers["id"]
    if name not in app.tasks:
        app.loader.import_default_modules()
    if name not in app.tasks:
        raise AssertionError(f'the recorded task "{name}" is not registered with {app!r}; import its module')
    task = app.tasks[name]
    properties = event.payload.get("properties") or {}
    delivery = {name: event.payload.get(name) for name in ("exchange", "routing_key")}
    request = {
        **headers,
        **(embed or {}),
        "reply_to": properties.get("reply_to"),
        "correlation_id": properties.get("correlation_id", id),
        "delivery_info": {**delivery, "priority": properties.get("priority"), "redelivered": False},
        "hostname": "outbox.drain",
        "is_eager": False,
    }
    outcome = build_tracer(name, task, app=app)(id, args, kwargs, request)
    if outcome.info is not None and outcome.info.state == "FAILURE":
        raise outcome.info.retval
    return outcome.retval


def decode(payload: dict[str, Any]) -> tuple[list[Any], dict[str, Any], dict[str, Any]]:
    """The arguments in a recorded task, and what goes with them (callbacks, chain, chord)."""
    import base64

    from kombu import serialization
    from kombu.compression import decompress

    body = payload["body"]
    data = base64.b64decode(body["base64"]) if isinstance(body, dict) else body
    compression = payload["headers"].get("compression")
    if compression:
        data = decompress(data if isinstance(data, bytes) else data.encode(), compression)
    content_type = payload.get("content_type", "application/json")
    args, kwargs, embed = serialization.loads(
        data, content_type, payload.get("content_encoding", "utf-8"), accept={content_type}
    )
    return args, kwargs, embed


def _app() -> Any:
    from celery import current_app
    from django.conf import settings

    from pillarbox.celery.loading import load_app

    return load_app() if getattr(settings, "CELERY_OUTBOX_APP", None) else current_app


def _fits(event: OutboxEvent, fields: dict[str, Any]) -> bool:
    rest = dict(fields)
    if event.aggregate_type == "celery" and rest.keys() & {"args", "kwargs"}:
        args, kwargs, _ = decode(event.payload)
        if list(rest.pop("args", args)) != list(args) or rest.pop("kwargs", kwargs) != kwargs:
            return False
    return all(getattr(event, name) == value for name, value in rest.items())


def _told(event: OutboxEvent) -> str:
    if event.aggregate_type == "celery":
        args, kwargs, _ = decode(event.payload)
        return f"task {event.event_type}, args={args!r}, kwargs={kwargs!r} ({event.status})"
    about = f"{event.aggregate_type} {event.aggregate_id}"
    return f"{event.event_type} about {about}, payload={event.payload!r} ({event.status})"
