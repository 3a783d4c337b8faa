"""Writes expected.json: the messages that Celery itself makes of the calls that src/celery/messages/tests.rs makes.

Run it with a Python that has Celery: ``.venv/bin/python expected.py > expected.json``. Nothing is sent. Left out is what
another producer says differently: where it comes from and where results are answered to. Left out is also what Celery
writes into the members of a group in a chain, and works out again when a worker starts the group. Ids that Celery made
read "new".
"""

import json
import sys
from datetime import datetime, timezone

from celery import Celery, chain, chord, group
from kombu.messaging import Producer

app = Celery("expected", broker="memory://", backend="cache+memory://")
published = []


@app.task(name="add")
def add(x, y):
    return x + y


@app.task(name="tsum")
def tsum(numbers):
    return sum(numbers)


@app.task(name="cb")
def cb(*args, **kwargs):
    return args


def record(self, body, *, headers, exchange, routing_key, serializer=None, priority=None, **properties):
    text, content_type, content_encoding = self._prepare(body, serializer, None, None, None, headers)
    published.append(
        {
            "body": json.loads(text),
            "content_type": content_type,
            "content_encoding": content_encoding,
            "headers": {name: value for name, value in headers.items() if name != "origin"}
            | {"stamped_headers": sorted(headers["stamped_headers"]) if headers["stamped_headers"] else None},
            "correlation_id": properties["correlation_id"],
            "priority": priority or 0,
        }
    )


def plain(value, in_options=False):
    """The same without what is left out."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, str) and len(value) == 36:
        return "new"
    if not isinstance(value, dict):
        return value
    left_out = {"reply_to", "group_index"} if in_options and "group_id" not in value else {"reply_to"}
    return {
        name: plain(item, name == "options")
        for name, item in value.items()
        if not (in_options and (name in left_out or item is None))
    }


def a_task():
    link = cb.s(1).set(task_id="l", countdown=5, queue="z")
    options = {
        "task_id": "a",
        "eta": datetime(2030, 1, 1, tzinfo=timezone.utc),
        "expires": datetime(2030, 1, 1, 0, 0, 1, 5, tzinfo=timezone.utc),
        "priority": 3,
        "time_limit": 10,
        "soft_time_limit": 5,
        "shadow": "shown",
        "headers": {"tenant": "acme"},
        "ignore_result": True,
        "queue": "q",
        "link": link,
        "link_error": [cb.si(k=None).set(task_id="e")],
        "root_id": "r",
        "parent_id": "p",
    }
    add.apply_async((1,), {"y": [2.5, "é", None]}, **options)


def stamped():
    signature = add.s(1, 2).set(task_id="a")
    signature.stamp(my="v", n=[1, 2])
    signature.apply_async()


def task(name, *args):
    return {"a": add, "s": tsum}[name[0]].s(*args).set(task_id=name)


CALLS = {
    "delay": lambda: add.apply_async((1, 2), task_id="a"),
    "options": a_task,
    "stamps": stamped,
    "chain": lambda: chain(
        task("a1", 1, 2), task("a2", 3).set(countdown=3), add.si(3, 4).set(task_id="a3")
    ).apply_async(),
    "chain with an errback": lambda: chain(task("a1", 1, 2), task("a2", 3)).apply_async(
        link_error=cb.si().set(task_id="e")
    ),
    "group": lambda: group(task("a1", 1, 2), task("a2", 3, 3)).apply_async(),
    "chains in a group": lambda: group(chain(task("a1", 1, 2), task("a2", 3)), task("a3", 3, 3)).apply_async(),
    "group at the end of a chain": lambda: chain(task("a1", 1, 2), group(task("a2", 3), task("a3", 4))).apply_async(),
    "group in a chain": lambda: chain(
        task("a1", 1, 2), group(task("a2", 3), task("a3", 4)), task("s1"), task("a4", 1)
    ).apply_async(),
    "two groups in a chain": lambda: chain(
        task("a1", 1, 2), group(task("a2", 3), task("a3", 4)), group(task("s1"), task("s2")), task("s3")
    ).apply_async(),
    "chord in a chain": lambda: chain(
        task("a1", 1, 2), chord([task("a2", 3), task("a3", 4)], chain(task("s1"), task("a4", 1)))
    ).apply_async(),
    "group of one in a chain": lambda: chain(task("a1", 1, 2), group(task("a2", 3)), task("a3", 4)).apply_async(),
}


def main():
    Producer.publish = record
    expected = {}
    for name, call in CALLS.items():
        published.clear()
        call()
        expected[name] = [plain(message) for message in published]
    json.dump(expected, sys.stdout, indent=1, ensure_ascii=False, sort_keys=True)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
