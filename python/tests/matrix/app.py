"""The Celery application of the matrix, the same one for workers and for producers, and its tasks.

Each task tells what it received: everything in its request goes as one record to a list in Redis, where the test waits
for it. `tag` says which call by which producer a task belongs to, and follows it through links, chains and chords.
"""

from __future__ import annotations

import json
import os
from functools import cache
from typing import Any

import redis
from celery import Task
from celery.signals import before_task_publish
from kombu import Exchange, Queue

from tests.processes import outbox_class

APP = os.environ["MATRIX_APP"]
"""Who sends: `plain` Celery, the `outbox` of pillarbox, or `adopted`: the producer of django-celery-outbox."""
CELL = os.environ["MATRIX_CELL"]
QUEUE = os.environ["MATRIX_QUEUE"]
"""The start of the names of all queues, so that cells share servers."""
RECORDS = os.environ["MATRIX_RECORDS"]
RESULTS = os.environ["MATRIX_RESULTS"]
MOMENT = float(os.environ["MATRIX_MOMENT"])

DEFAULT, OTHER, TOPIC = QUEUE, f"{QUEUE}.other", f"{QUEUE}.topic"


def by_shard(name: str, args: Any, kwargs: Any, options: Any, task: Any = None, **rest: Any) -> dict[str, str] | None:
    """A router that is code: no configuration of a relay can say what it does."""
    return {"queue": OTHER} if name == "matrix.sharded" and kwargs["shard"] % 2 else None


app = outbox_class(APP)("matrix")
app.conf.update(
    broker_url=os.environ["MATRIX_BROKER"],
    result_backend=RESULTS,
    accept_content=["json", "pickle", "msgpack"],
    result_accept_content=["json"],
    task_default_queue=DEFAULT,
    task_queues=[
        Queue(DEFAULT, Exchange(DEFAULT, "direct"), routing_key=DEFAULT, queue_arguments={"x-max-priority": 10}),
        Queue(OTHER, Exchange(OTHER, "direct"), routing_key=OTHER),
        Queue(TOPIC, Exchange(TOPIC, "topic"), routing_key="orders.#"),
    ],
    task_routes=[by_shard, {"matrix.routed.*": {"queue": OTHER}}],
    worker_prefetch_multiplier=0,
    broker_connection_retry_on_startup=True,
)


@cache
def records() -> redis.Redis:
    return redis.Redis.from_url(RESULTS)


def tell(tag: str, event: str, **content: Any) -> None:
    """Adds one record; what JSON has not is told by its `repr`."""
    record = {"cell": CELL, "tag": tag, "event": event, **content}
    records().rpush(RECORDS, json.dumps(record, default=repr))


def received(task: Task, tag: str, *args: Any, **kwargs: Any) -> None:
    request = {name: value for name, value in vars(task.request).items() if not name.startswith("_")}
    # The arguments by their `repr`: a tuple is not a list, and 1.0 is not 1.
    request.update(args=repr(args), kwargs=repr(sorted(kwargs.items())))
    tell(tag, "run", task=task.name, request=request)


@app.task(bind=True, name="matrix.echo")
def echo(self: Task, *args: Any, tag: str, **kwargs: Any) -> Any:
    received(self, tag, *args, **kwargs)
    return args[-1] if args else None


@app.task(bind=True, name="matrix.add")
def add(self: Task, *numbers: int, tag: str) -> int:
    received(self, tag, *numbers)
    return sum(numbers)


@app.task(bind=True, name="matrix.total")
def total(self: Task, numbers: list[int], *more: int, tag: str) -> int:
    received(self, tag, numbers, *more)
    return sum(numbers) + sum(more)


@app.task(bind=True, name="matrix.fail")
def fail(self: Task, *args: Any, tag: str) -> None:
    received(self, tag, *args)
    raise ValueError("as it should")


@app.task(bind=True, name="matrix.again", max_retries=3)
def again(self: Task, *args: Any, tag: str, times: int, how: dict[str, Any] | None = None) -> str:
    received(self, tag, *args, times=times)
    if self.request.retries < times:
        raise self.retry(**{"countdown": 0, **(how or {})})
    return f"after {times}"


@app.task(bind=True, name="matrix.replaced")
def replaced(self: Task, *args: Any, tag: str) -> None:
    received(self, tag, *args)
    raise self.replace(echo.s(*args, "in its place", tag=tag))


@app.task(bind=True, name="matrix.spawning")
def spawning(self: Task, tag: str) -> None:
    received(self, tag)
    echo.delay("a child", tag=tag)


@app.task(bind=True, name="matrix.routed.by_name")
def routed(self: Task, tag: str) -> None:
    received(self, tag)


@app.task(bind=True, name="matrix.sharded")
def sharded(self: Task, tag: str, shard: int) -> None:
    received(self, tag, shard=shard)


@app.task(bind=True, name="matrix.limited", time_limit=50, soft_time_limit=40, priority=4, ignore_result=True)
def limited(self: Task, tag: str) -> None:
    received(self, tag)


# Not bound: Celery calls only such ones in place, with the request and the error.
@app.task(name="matrix.on_error")
def on_error(request: Any, error: Any, traceback: Any, tag: str) -> None:
    received(on_error, tag, request.id, repr(error))


@app.task(bind=True, name="matrix.on_error_by_id")
def on_error_by_id(self: Task, failed: str, tag: str) -> None:
    received(self, tag, failed)


@before_task_publish.connect
def add_a_header(headers: dict[str, Any], body: Any, **rest: Any) -> None:
    if str(body[1].get("tag", "")).startswith("before_task_publish"):
        headers["added"] = "by a receiver"
