"""What the tests of OutboxCelery share: pairs of apps, plain and with an outbox, that differ in nothing else."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from celery import Celery

from pillarbox.celery import OutboxCelery
from tests.celery import plain
from tests.outboxes import SERVERS, routers

#: Nobody listens there: whoever connects fails.
CLOSED = "amqp://guest:guest@127.0.0.1:1//"
NOW = datetime.datetime(2026, 2, 25, 12, 0, 0, 123456, tzinfo=datetime.timezone.utc)


def add_tasks(app: Celery) -> None:
    """The tasks of both apps."""

    @app.task(name="shop.add", shared=False)
    def add(x, y):
        return x + y

    @app.task(name="shop.total", shared=False, ignore_result=True)
    def total(numbers=(), **more):
        return sum(numbers)

    @app.task(name="shop.limited", shared=False, time_limit=30, soft_time_limit=20, priority=4, serializer="msgpack")
    def limited(*args, **kwargs):
        return None

    @app.task(name="shop.failed", shared=False)
    def failed(*args, **kwargs):
        return None


def make(cls: type[Celery], **conf: Any) -> Celery:
    broker = {"broker_url": CLOSED} if cls is OutboxCelery else {"broker_transport": "tests.celery.plain:Transport"}
    app = cls("shop", set_as_current=False)
    app.conf.update(result_backend="cache+memory://", **broker, **conf)
    app.now = lambda: NOW
    add_tasks(app)
    app.finalize()
    return app


@pytest.fixture
def outbox(db: None) -> OutboxCelery:
    """An app whose broker nobody listens at."""
    return make(OutboxCelery)


@pytest.fixture
def recorded() -> Callable[..., list[dict[str, Any]]]:
    from pillarbox.models import OutboxEvent

    def payloads(using: str = "default") -> list[dict[str, Any]]:
        return [event.payload for event in OutboxEvent.objects.using(using).order_by("seq")]

    return payloads


@pytest.fixture(params=SERVERS, ids=SERVERS.values())
def equal(request: pytest.FixtureRequest, db: None, settings: Any) -> Iterator[Callable[..., list[dict[str, Any]]]]:
    """Makes one call through both apps, and answers what was recorded when it equals what was published."""
    from pillarbox.models import OutboxEvent

    settings.DATABASE_ROUTERS = routers(request.param)

    def compare(call: Callable[[Celery], Any], **conf: Any) -> list[dict[str, Any]]:
        call(make(Celery, **conf))
        call(make(OutboxCelery, **conf))
        rows = OutboxEvent.objects.order_by("seq")
        for row, wanted in zip(rows, plain.published, strict=True):
            assert plain.as_published(row.payload) == plain.comparable(wanted)
            headers = row.payload["headers"]
            assert (row.aggregate_type, row.aggregate_id) == ("celery", headers["id"][:100])
            assert (row.event_type, row.idempotency_key) == (headers["task"], str(row.id))
        return [row.payload for row in rows]

    plain.forget()
    yield compare
    plain.forget()
