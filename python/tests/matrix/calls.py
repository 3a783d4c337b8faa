"""The calls of the matrix: every way of asking for a task.

Each gets the application's module, as `w`, and a tag for its tasks, and says how many times tasks run because of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from types import ModuleType
from typing import Any

from celery import chain, chord, group, signature
from celery.canvas import Signature, StampingVisitor

Function = Callable[[ModuleType, str], Any]

COUNTDOWN = 1
EXPIRES = 1000


@dataclass(frozen=True)
class Call:
    """One call, and what must come of it."""

    send: Function
    runs: int
    """How many times tasks run."""
    result: bool
    """Whether the call answers a result that can be waited for."""
    adopted: bool
    """Whether django-celery-outbox's producer keeps all of it; it drops headers, serializers and the like."""

    @property
    def name(self) -> str:
        return self.send.__name__.strip("_")


CALLS: dict[str, Call] = {}


def call(runs: int = 1, *, result: bool = True, adopted: bool = True) -> Callable[[Function], Function]:
    def register(send: Function) -> Function:
        added = Call(send, runs, result, adopted)
        CALLS[added.name] = added
        return send

    return register


def moment(w: ModuleType) -> datetime:
    """One moment that is the same for all producers, some seconds ahead."""
    return datetime.fromtimestamp(w.MOMENT, timezone.utc)


# -- One task ----------------------------------------------------------------------------------------------------------


@call()
def delay(w: ModuleType, tag: str) -> Any:
    return w.echo.delay(1, "two", tag=tag, three=[3.0, None, True])


@call()
def no_arguments(w: ModuleType, tag: str) -> Any:
    return w.routed.apply_async(kwargs={"tag": tag})


@call()
def by_name(w: ModuleType, tag: str) -> Any:
    return w.app.send_task("matrix.echo", (1, 2), {"tag": tag})


@call()
def by_name_unregistered(w: ModuleType, tag: str) -> Any:
    return signature("matrix.echo", args=(1,), kwargs={"tag": tag}, app=w.app).apply_async()


@call()
def task_id(w: ModuleType, tag: str) -> Any:
    return w.echo.apply_async((1,), {"tag": tag}, task_id=f"{tag}-is-my-id")


@call()
def countdown(w: ModuleType, tag: str) -> Any:
    return w.echo.apply_async((1,), {"tag": tag}, countdown=COUNTDOWN)


@call()
def eta(w: ModuleType, tag: str) -> Any:
    return w.echo.apply_async((1,), {"tag": tag}, eta=moment(w))


@call()
def eta_with_zone(w: ModuleType, tag: str) -> Any:
    zone = timezone(timedelta(hours=5, minutes=30))
    return w.echo.apply_async((1,), {"tag": tag}, eta=moment(w).astimezone(zone))


@call()
def expires(w: ModuleType, tag: str) -> Any:
    return w.echo.apply_async((1,), {"tag": tag}, expires=EXPIRES)


@call()
def expires_at(w: ModuleType, tag: str) -> Any:
    return w.echo.apply_async((1,), {"tag": tag}, expires=moment(w) + timedelta(hours=1))


@call()
def eta_and_expires(w: ModuleType, tag: str) -> Any:
    return w.echo.apply_async((1,), {"tag": tag}, countdown=COUNTDOWN, expires=EXPIRES)


@call()
def priority(w: ModuleType, tag: str) -> Any:
    return w.echo.apply_async((1,), {"tag": tag}, priority=7)


@call()
def priority_zero(w: ModuleType, tag: str) -> Any:
    return w.echo.apply_async((1,), {"tag": tag}, priority=0)


@call()
def time_limits(w: ModuleType, tag: str) -> Any:
    return w.echo.apply_async((1,), {"tag": tag}, time_limit=30, soft_time_limit=20.5)


@call(result=False)
def options_of_the_task(w: ModuleType, tag: str) -> Any:
    return w.limited.delay(tag=tag)


@call()
def shadow(w: ModuleType, tag: str) -> Any:
    return w.echo.apply_async((1,), {"tag": tag}, shadow="in the logs")


@call(result=False)
def ignore_result(w: ModuleType, tag: str) -> Any:
    return w.echo.apply_async((1,), {"tag": tag}, ignore_result=True)


@call()
def own_reprs(w: ModuleType, tag: str) -> Any:
    return w.echo.apply_async((1,), {"tag": tag}, argsrepr="(<secret>,)", kwargsrepr="{}")


@call(adopted=False)
def headers(w: ModuleType, tag: str) -> Any:
    mine = {"tenant": "blue", "number": 7, "nested": {"list": [1, None, 2.5, "x"]}, "no": False, "text": "Grüße"}
    return w.echo.apply_async((1,), {"tag": tag}, headers=mine)


@call(adopted=False)
def before_task_publish(w: ModuleType, tag: str) -> Any:
    return w.echo.apply_async((1,), {"tag": tag})


@call(adopted=False)
def properties(w: ModuleType, tag: str) -> Any:
    return w.echo.apply_async((1,), {"tag": tag}, delivery_mode=1, reply_to="somebody", app_id="matrix", type="t")


# -- Where to ----------------------------------------------------------------------------------------------------------


@call()
def queue(w: ModuleType, tag: str) -> Any:
    return w.echo.apply_async((1,), {"tag": tag}, queue=w.OTHER)


@call()
def queue_topic(w: ModuleType, tag: str) -> Any:
    return w.echo.apply_async((1,), {"tag": tag}, queue=w.TOPIC)


@call()
def routing_key(w: ModuleType, tag: str) -> Any:
    return w.echo.apply_async((1,), {"tag": tag}, queue=w.TOPIC, routing_key="orders.paid")


@call()
def routing_key_alone(w: ModuleType, tag: str) -> Any:
    return w.echo.apply_async((1,), {"tag": tag}, routing_key="nowhere")


@call()
def exchange_and_routing_key(w: ModuleType, tag: str) -> Any:
    return w.echo.apply_async((1,), {"tag": tag}, exchange=w.OTHER, routing_key=w.OTHER)


@call()
def route_by_name(w: ModuleType, tag: str) -> Any:
    return w.routed.delay(tag=tag)


@call(adopted=False)
def route_by_code(w: ModuleType, tag: str) -> Any:
    return w.sharded.delay(tag=tag, shard=3)


# -- Arguments ---------------------------------------------------------------------------------------------------------


@call()
def unicode(w: ModuleType, tag: str) -> Any:
    return w.echo.delay("Grüße, 世界 🎉 \u202e‏", "\u0007\u001b\t\n\"'\\ \ud7ff", tag=tag, größe="ß", **{"two words": 1})


@call()
def big_numbers(w: ModuleType, tag: str) -> Any:
    return w.echo.delay(2**53 + 1, -(2**63), 2**64, 10**60, 0.1, 1.0, 5e-324, tag=tag)


@call(adopted=False)
def floats(w: ModuleType, tag: str) -> Any:
    return w.echo.delay(1e22, -0.0, 1.7976931348623157e308, 123456789.123456789, tag=tag)


@call()
def deep(w: ModuleType, tag: str) -> Any:
    tree: Any = "leaf"
    for level in range(60):
        tree = {"level": level, "children": [tree]} if level % 2 else [tree, level]
    return w.echo.delay(tree, {"": {}, "empty": [[], {}]}, tag=tag)


@call()
def long(w: ModuleType, tag: str) -> Any:
    return w.echo.delay("x" * 200_000, list(range(5000)), tag=tag)


@call()
def repr_quotes(w: ModuleType, tag: str) -> Any:
    return w.echo.delay("it's", 'say "it\'s"', ["a" * 300] * 5, {"k'": ("t", 1)}, tag=tag)


@call(adopted=False)
def rich_json(w: ModuleType, tag: str) -> Any:
    value = datetime(2026, 2, 3, 4, 5, 6, 789, timezone.utc)
    return w.echo.delay(value, value.date(), Decimal("1.10"), tag=tag)


@call(adopted=False)
def pickle(w: ModuleType, tag: str) -> Any:
    value = (b"\x00\xff", 3 + 4j, Decimal("1.10"), (1, (2,)), timedelta(days=2))
    return w.echo.apply_async((value, "text"), {"tag": tag}, serializer="pickle")


@call(adopted=False)
def msgpack(w: ModuleType, tag: str) -> Any:
    return w.echo.apply_async((b"\x00\xff", [1, "two"]), {"tag": tag, "n": None}, serializer="msgpack")


@call(adopted=False)
def compression(w: ModuleType, tag: str) -> Any:
    return w.echo.apply_async(("again " * 500,), {"tag": tag}, compression="gzip")


# -- Afterwards --------------------------------------------------------------------------------------------------------


@call(2)
def link(w: ModuleType, tag: str) -> Any:
    return w.add.apply_async((1, 2), {"tag": tag}, link=w.add.s(10, tag=tag))


@call(4)
def links(w: ModuleType, tag: str) -> Any:
    last = w.echo.s("last", tag=tag).set(queue=w.OTHER, priority=3)
    second = w.add.s(20, tag=tag)
    second.link(last)
    return w.add.apply_async((1, 2), {"tag": tag}, link=[w.echo.si("immutable", tag=tag), second])


@call(2)
def link_error(w: ModuleType, tag: str) -> Any:
    return w.fail.apply_async((1,), {"tag": tag}, link_error=w.on_error.s(tag=tag))


@call(2)
def link_error_by_id(w: ModuleType, tag: str) -> Any:
    return w.fail.apply_async((1,), {"tag": tag}, link_error=[w.on_error_by_id.s(tag=tag)])


@call(3)
def retry(w: ModuleType, tag: str) -> Any:
    return w.again.delay(1, "two", tag=tag, times=2)


@call(3)
def retry_with_options(w: ModuleType, tag: str) -> Any:
    how = {"countdown": COUNTDOWN, "queue": w.OTHER, "priority": 2}
    options = {"link": w.echo.s(tag=tag), "expires": EXPIRES, "time_limit": 60}
    return w.again.apply_async((1,), {"tag": tag, "times": 1, "how": how}, **options)


@call(2)
def replace(w: ModuleType, tag: str) -> Any:
    return w.replaced.delay(1, tag=tag)


@call(2)
def child(w: ModuleType, tag: str) -> Any:
    return w.spawning.delay(tag=tag)


# -- Canvas ------------------------------------------------------------------------------------------------------------


def adding(w: ModuleType, tag: str, *numbers: int) -> Signature:
    return w.add.s(*numbers, tag=tag)


@call(3)
def _chain(w: ModuleType, tag: str) -> Any:
    return chain(adding(w, tag, 1, 2), adding(w, tag, 4), adding(w, tag, 8)).apply_async()


@call(2)
def chain_with_options(w: ModuleType, tag: str) -> Any:
    second = adding(w, tag, 4).set(queue=w.OTHER, countdown=COUNTDOWN, priority=5, time_limit=9)
    return (adding(w, tag, 1, 2).set(expires=EXPIRES) | second).apply_async()


@call(2)
def chain_failing(w: ModuleType, tag: str) -> Any:
    steps = chain(w.fail.s(1, tag=tag), adding(w, tag, 4))
    return steps.apply_async(link_error=w.on_error.s(tag=tag))


@call(3)
def _group(w: ModuleType, tag: str) -> Any:
    return group(adding(w, tag, n, n) for n in range(3)).apply_async()


@call(4)
def _chord(w: ModuleType, tag: str) -> Any:
    return chord([adding(w, tag, n, n) for n in range(3)], w.total.s(tag=tag)).apply_async()


@call(4)
def chord_with_options(w: ModuleType, tag: str) -> Any:
    body = w.total.s(100, tag=tag).set(queue=w.OTHER, priority=6)
    body.link(w.echo.s(tag=tag))
    return chord([adding(w, tag, n, n).set(queue=w.OTHER) for n in range(2)])(body)


@call(2)
def chord_failing(w: ModuleType, tag: str) -> Any:
    body = w.total.s(tag=tag).on_error(w.on_error.s(tag=tag))
    return chord([w.fail.s(1, tag=tag)])(body)


@call(7)
def nested_chain_of_groups(w: ModuleType, tag: str) -> Any:
    steps = chain(
        adding(w, tag, 1),
        group(adding(w, tag, 10), adding(w, tag, 20)),
        w.total.s(tag=tag),
        group(adding(w, tag, 30), adding(w, tag, 40)),
        w.total.s(tag=tag),
    )
    return steps.apply_async()


@call(5)
def nested_group_of_chains(w: ModuleType, tag: str) -> Any:
    first = chain(adding(w, tag, 1), adding(w, tag, 2))
    second = chain(adding(w, tag, 3), adding(w, tag, 4), adding(w, tag, 5))
    return group(first, second).apply_async()


@call(7)
def nested_chord_of_chords(w: ModuleType, tag: str) -> Any:
    def inner(n: int) -> Signature:
        return chord([adding(w, tag, n), adding(w, tag, n + 1)], w.total.s(tag=tag))

    return chord([inner(10), inner(20)], w.total.s(tag=tag)).apply_async()


@call(3)
def chain_in_link(w: ModuleType, tag: str) -> Any:
    return w.add.apply_async((1,), {"tag": tag}, link=chain(adding(w, tag, 2), adding(w, tag, 3)))


# -- Stamps ------------------------------------------------------------------------------------------------------------


class Stamps(StampingVisitor):
    """Stamps each signature, and calls of it otherwise."""

    def on_signature(self, sig: Signature, **headers: Any) -> dict[str, Any]:
        return {"tenant": "blue", "visited": [1, "two"], "stamped_headers": ["tenant", "visited"]}

    def on_callback(self, callback: Signature, **headers: Any) -> dict[str, Any]:
        return {"called": "back"}


@call()
def stamps(w: ModuleType, tag: str) -> Any:
    stamped = w.echo.s(1, tag=tag)
    stamped.stamp(tenant="blue", level=3)
    return stamped.apply_async()


@call(2)
def stamps_by_visitor(w: ModuleType, tag: str) -> Any:
    stamped = adding(w, tag, 1)
    stamped.link(adding(w, tag, 2))
    stamped.stamp(visitor=Stamps())
    return stamped.apply_async()


@call(4)
def stamps_of_canvas(w: ModuleType, tag: str) -> Any:
    steps = chain(adding(w, tag, 1), group(adding(w, tag, 2), adding(w, tag, 3)), w.total.s(tag=tag))
    steps.stamp(visitor=Stamps())
    return steps.apply_async()
