"""What is recorded equals what plain Celery would have published, for all kinds of calls."""

from __future__ import annotations

import datetime
import decimal
import uuid

import celery
import pytest
from celery import chain, chord, group
from kombu import Exchange, Queue, binding

from tests.celery import plain
from tests.celery.conftest import NOW

pytestmark = pytest.mark.django_db(databases="__all__")

LATER = NOW + datetime.timedelta(hours=2)
DEEP = {"a": [{"b": [{"c": {"d": ["ü", "😀", "\0", "\ud800", 2**70, -0.1, None, True]}}]}]}


def task(app, name):
    return app.tasks[f"shop.{name}"]


def add(app, **options):
    return task(app, "add").apply_async((1, 2), task_id="t1", **options)


CALLS = {
    "options": lambda app: add(app, priority=7, time_limit=9, soft_time_limit=5, shadow="other", ignore_result=True),
    "kwargs": lambda app: task(app, "total").apply_async(kwargs={"numbers": [1, 2], "k": DEEP}, task_id="t1"),
    "countdown": lambda app: add(app, countdown=60),
    "eta": lambda app: add(app, eta=LATER),
    "expires": lambda app: add(app, expires=60),
    "expires at": lambda app: add(app, expires=LATER),
    "expired": lambda app: add(app, expires=NOW - datetime.timedelta(hours=1)),
    "expiration alone": lambda app: add(app, expiration=1.5),
    "queue": lambda app: add(app, queue="orders"),
    "queue object": lambda app: add(app, queue=Queue("x", Exchange("y", "topic", delivery_mode=1), "z.#")),
    "exchange": lambda app: add(app, exchange="elsewhere", routing_key="there"),
    "exchange object": lambda app: add(app, exchange=Exchange("e", "topic", delivery_mode=1), routing_key="r.k"),
    "lone routing key": lambda app: add(app, routing_key="there"),
    "default exchange": lambda app: add(app, exchange="", routing_key="there"),
    "transient": lambda app: add(app, delivery_mode="transient"),
    "headers": lambda app: add(app, headers={"tenant": "ü", "bytes": b"\xff\0", "at": LATER, "n": [1, {"a": 0.5}]}),
    "properties": lambda app: add(app, reply_to="me", correlation_id="c", user_id="guest", message_id="m"),
    "stamps": lambda app: task(app, "add").s(1, 2).set(task_id="t1").apply_async(stamped_headers=["my"], my="stamp"),
    "task's own": lambda app: task(app, "limited").apply_async((1,), task_id="t1"),
    "by name": lambda app: app.send_task("not.here", [1], {"a": 2}, task_id="t1", ignore_result=False),
    "by name, no args": lambda app: app.send_task("not.here", task_id="t1"),
    "by name, positional": lambda app: app.send_task("not.here", [1], {}, 10, None, "t1"),
    "known by name": lambda app: app.send_task("shop.limited", task_id="t1"),
    "link": lambda app: add(
        app, link=task(app, "total").s().set(task_id="t2"), link_error=task(app, "failed").s(1).set(task_id="t3")
    ),
    "pickle": lambda app: task(app, "add").apply_async(
        ({1, 2}, decimal.Decimal("1.5")), task_id="t1", serializer="pickle"
    ),
    "msgpack": lambda app: add(app, serializer="msgpack"),
    "compressed": lambda app: add(app, compression="zlib"),
    "compressed pickle": lambda app: add(app, compression="bzip2", serializer="pickle"),
    "rich json": lambda app: task(app, "add").apply_async(
        (uuid.UUID(int=7), LATER), {}, task_id="t1", argsrepr="secret", kwargsrepr="{}"
    ),
    "deep json": lambda app: task(app, "add").apply_async((DEEP, "x" * 5000), task_id="t1"),
    "retry policy": lambda app: add(app, retry=True, retry_policy={"max_retries": 9}),
    "no retry": lambda app: add(app, retry=False),
    "chain": lambda app: chain(
        task(app, "add").s(1, 2).set(task_id="t1"), task(app, "add").s(3).set(task_id="t2", queue="orders")
    ).apply_async(),
    "group": lambda app: group(
        [task(app, "add").s(1, n).set(task_id=f"t{n}") for n in range(3)], task_id="g"
    ).apply_async(task_id="g"),
    "chord": lambda app: chord(
        [task(app, "add").s(1, n).set(task_id=f"t{n}") for n in range(3)],
        task(app, "total").s().set(task_id="b"),
        app=app,
    ).apply_async(task_id="g"),
    "nested": lambda app: chain(
        task(app, "add").s(1, 2).set(task_id="t1"),
        group([task(app, "add").s(n).set(task_id=f"g{n}") for n in range(2)]),
        task(app, "total").s().set(task_id="t3"),
    ).apply_async(),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_recorded_is_what_kombu_would_publish(equal, call):
    assert equal(call)


QUEUES = (
    Queue("media", Exchange("media", "topic"), "media.#", max_priority=10, queue_arguments={"x-queue-type": "classic"}),
    Queue("feed", Exchange("media", "topic"), "feed.*", message_ttl=3.5),
    Queue("celery", Exchange("celery"), "celery"),
    Queue("temporary", Exchange("celery"), "temporary", auto_delete=True),
    Queue("many", [binding(Exchange("one", "topic"), "a.#"), binding(Exchange("two", "fanout"), "")]),
    Queue("all", Exchange("everybody", "fanout"), "ignored"),
)


class Callable:
    def __call__(self, name, args, kwargs, options, task=None, **more):
        return {"queue": "media", "routing_key": f"media.{name}", "priority": 3} if name == "shop.add" else None


ROUTED = {
    "topic queue": (lambda app: add(app, queue="feed"), "feed"),
    "topic queue with a key": (lambda app: add(app, queue="media", routing_key="media.video"), "media"),
    "another queue's key": (lambda app: add(app, exchange="media", routing_key="feed.news"), "feed"),
    "nobody's key": (lambda app: add(app, exchange="media", routing_key="else"), None),
    "fanout": (lambda app: add(app, queue="all"), "all"),
    "default": (lambda app: add(app), "celery"),
}


@pytest.mark.parametrize(("call", "queue"), ROUTED.values(), ids=ROUTED.keys())
def test_queues_of_the_settings(equal, call, queue):
    (recorded,) = equal(call, task_queues=QUEUES)
    assert recorded.get("queue") == queue
    key = lambda call: (call[0], sorted(map(str, call[1].items())))  # noqa: E731
    assert sorted(plain.declared_by_recorded(recorded), key=key) == sorted(plain.declared, key=key)


def test_a_queue_with_many_bindings(equal):
    (recorded,) = equal(lambda app: add(app, queue="many", exchange="one", routing_key="a.b"), task_queues=QUEUES)
    assert sorted((entry["exchange"], entry["routing_key"]) for entry in recorded["declare"]) == [
        ("one", "a.#"),
        ("two", ""),
    ]


def test_a_queue_that_goes_with_its_consumer_is_not_declared(equal):
    (recorded,) = equal(lambda app: add(app, queue="temporary"), task_queues=QUEUES)
    assert recorded["queue"] == "temporary"
    assert "declare" not in recorded


@pytest.mark.parametrize(
    "routes",
    [
        {"shop.*": "orders"},
        {"shop.add": {"queue": "feed", "routing_key": "feed.add", "priority": 2}},
        [{"other.*": "orders"}, Callable()],
    ],
    ids=["glob", "dict", "callable"],
)
def test_routes_of_the_settings(equal, routes):
    (recorded,) = equal(add, task_queues=QUEUES, task_routes=routes)
    assert recorded["queue"] in ("orders", "feed", "media")


def test_settings_of_the_app(equal):
    conf = {
        "task_serializer": "msgpack",
        "task_compression": "zlib",
        "task_default_queue": "mine",
        "task_default_exchange": "ours",
        "task_default_exchange_type": "topic",
        "task_default_routing_key": "mine.key",
        "task_default_delivery_mode": "transient",
        "task_queue_max_priority": 5,
        "task_ignore_result": True,
        "timezone": "America/New_York",
    }
    (recorded,) = equal(lambda app: add(app, countdown=5), **conf)
    assert (recorded["exchange"], recorded["routing_key"], recorded["queue"]) == ("ours", "mine.key", "mine")
    assert recorded["declare"][0]["arguments"] == {"x-max-priority": 5}


def quorum(**conf):
    queue = Queue("q", Exchange("orders", "topic"), "orders.new", queue_arguments={"x-queue-type": "quorum"})
    return {"task_queues": (queue,), "task_default_queue": "q", **conf}


@pytest.mark.parametrize(
    "when", [{"countdown": 60}, {"eta": NOW + datetime.timedelta(seconds=60)}], ids=["countdown", "eta"]
)
def test_native_delayed_delivery_keeps_the_real_target(equal, when):
    (recorded,) = equal(lambda app: add(app, **when), **quorum())
    assert recorded.get("delayed", False) is (celery.VERSION >= (5, 5))
    assert (recorded["exchange"], recorded["routing_key"], recorded["queue"]) == ("orders", "orders.new", "q")
    assert recorded["declare"][0]["arguments"] == {"x-queue-type": "quorum"}


def test_what_is_due_is_not_delayed(equal):
    (recorded,) = equal(lambda app: add(app, eta=NOW - datetime.timedelta(seconds=60)), **quorum())
    assert "delayed" not in recorded
    assert recorded["exchange"] == "orders"
