"""What django-celery-outbox's own relay publishes: the measure for the translation in adopted.rs.

A process of its own, with Django settings of its own. `rows` writes tasks with its producer and prints them as rows;
`messages` reads rows from its input and prints, for each, the message that its relay gave to the broker.
"""

import json
import sys
from datetime import datetime, timezone
from typing import Any
from unittest import mock

import django
import structlog
from django.conf import settings

settings.configure(
    INSTALLED_APPS=["django_celery_outbox"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    USE_TZ=True,
    MONITORING_METRICS_ENABLED=False,
    CELERY_OUTBOX_APP="tests.adopted.published.app",
)
django.setup()

from celery import chain, chord, group  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django_celery_outbox import OutboxCelery  # noqa: E402
from django_celery_outbox.models import CeleryOutbox  # noqa: E402
from django_celery_outbox.relay._publisher import RelayPublisher  # noqa: E402
from kombu import Exchange, Queue  # noqa: E402

NOW = datetime(2026, 3, 1, 12, 0, 0, 250000, tzinfo=timezone.utc)
COLUMNS = (
    "task_id",
    "task_name",
    "args",
    "kwargs",
    "options",
    "sentry_trace_id",
    "sentry_baggage",
    "structlog_context",
)
# What a message has from the process that sends it, and what our relay shows in another way.
NOT_COMPARED_HEADERS = ("origin", "argsrepr", "kwargsrepr")
NOT_COMPARED_PROPERTIES = ("reply_to", "delivery_tag", "body_encoding", "delivery_info")

app = OutboxCelery("adopted", broker="memory://", backend="cache+memory://")
structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
app.conf.task_queues = [
    Queue("celery", Exchange("celery"), routing_key="celery"),
    Queue("orders", Exchange("orders"), routing_key="orders"),
    Queue("topics", Exchange("topics", type="topic"), routing_key="topics.#"),
]


@app.task(name="t.add")
def add(*args: object, **kwargs: object) -> None:
    """Never runs here."""


@app.task(name="t.other")
def other(*args: object, **kwargs: object) -> None:
    """Never runs here."""


def produce() -> None:
    """A task for each way of calling one."""
    add.delay()
    add.delay(42)
    add.delay("žluťoučký 🐎", 12345678901234567890123, 1.5e300, None, True, deep={"a": [{"b": [[]]}], "z": -0.0})
    add.apply_async((1,), countdown=90)
    add.apply_async((1,), eta=datetime(2030, 1, 2, 3, 4, 5, 678, tzinfo=timezone.utc))
    add.apply_async((1,), eta=datetime(2030, 1, 2, 3, 4, 5))
    add.apply_async((1,), expires=120)
    add.apply_async((1,), expires=0.75)
    add.apply_async((1,), expires=datetime(2030, 1, 2, 3, 4, 5, tzinfo=timezone.utc))
    add.apply_async((1,), priority=7, queue="orders")
    add.apply_async((1,), exchange="topics", routing_key="topics.blue")
    add.apply_async((1,), queue="topics", routing_key="topics.red")
    add.apply_async((1,), routing_key="alone")
    add.apply_async((1,), time_limit=30, soft_time_limit=20.5)
    add.apply_async((1,), link=other.s(2), link_error=[other.s(3), other.si(4)])
    add.apply_async((1,), link=group(other.s(5), other.s(6)))
    add.apply_async((1,), shadow="shown", retries=3, root_id="root", parent_id="parent", task_id="mine")
    add.apply_async((1,), ignore_result=True, retry=False, retry_policy={"max_retries": 1}, message_id="m1", app_id="a")
    add.apply_async((1,), expiration=2.5)
    app.send_task("t.unknown", (1,), {"k": "v"})
    app.send_task("t.unknown", (1,), route_name="t.add")
    add.s(1).set(stamped_headers=["who", "why"], who="me", why=["a", {"b": 1}]).apply_async()
    chain(add.s(1), other.s(2), add.s(3)).apply_async()
    chain(add.s(1), group(other.s(2), other.s(3)), add.s(4)).apply_async()
    group(add.s(1), other.s(2)).apply_async()
    chord([add.s(1), other.s(2)], add.s(3))()


def rows() -> list[dict[str, Any]]:
    """What the producer writes."""
    call_command("migrate", verbosity=0)
    produce()
    written = [{name: getattr(row, name) for name in COLUMNS} for row in CeleryOutbox.objects.order_by("id")]
    written[0] |= {
        "sentry_trace_id": "0123456789abcdef0123456789abcdef-0123456789abcdef-1",
        "sentry_baggage": "sentry-trace_id=0123456789abcdef0123456789abcdef,sentry-environment=test",
    }
    return written


def message(row: dict[str, Any]) -> dict[str, Any]:
    """What the relay publishes for a row."""
    with mock.patch.object(type(app), "now", return_value=NOW):
        RelayPublisher(app, send_timeout=10).publish(CeleryOutbox(schema_version=1, **row))
    with app.connection_for_read() as connection:
        for queue in app.conf.task_queues:
            got = queue(connection.default_channel).get(no_ack=True)
            if got is not None:
                break
    headers = {name: value for name, value in got.headers.items() if name not in NOT_COMPARED_HEADERS}
    properties = {name: value for name, value in got.properties.items() if name not in NOT_COMPARED_PROPERTIES}
    return {
        "headers": headers,
        "properties": properties,
        "body": json.loads(got.body),
        "content_type": got.content_type,
        "content_encoding": got.content_encoding,
        "exchange": got.delivery_info["exchange"],
        "routing_key": got.delivery_info["routing_key"],
    }


def declare() -> None:
    """The queues, so that what is published is kept."""
    with app.connection_for_write() as connection:
        for queue in app.conf.task_queues:
            queue(connection.default_channel).declare()


if __name__ == "__main__":
    if sys.argv[1:] == ["rows"]:
        print(json.dumps(rows(), indent=1, ensure_ascii=False))
    else:
        declare()
        print(json.dumps([message(row) for row in json.load(sys.stdin)], indent=1, ensure_ascii=False))
