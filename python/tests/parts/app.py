"""A Celery application whose tasks leave marks in Redis; with `PARTS_SENTRY`, its processes report to Sentry's SDK.

What Sentry would be sent goes to a list in Redis instead, where the test waits for it.
"""

from __future__ import annotations

import json
import os
import time
from functools import cache

import redis
from celery import Task
from kombu import Exchange, Queue

from tests.processes import outbox_class

KIND = os.environ["PARTS_KIND"]
RUN = os.environ["PARTS_RUN"]
"""The name of the queue, and the start of the keys in Redis."""


@cache
def marks() -> redis.Redis:
    return redis.Redis.from_url(os.environ["PARTS_MARKS"])


if process := os.environ.get("PARTS_SENTRY"):
    import sentry_sdk
    from sentry_sdk.envelope import Envelope
    from sentry_sdk.integrations.celery import CeleryIntegration
    from sentry_sdk.transport import Transport

    class ToRedis(Transport):
        """Each transaction as it would be sent, with the name of the process."""

        def capture_envelope(self, envelope: Envelope) -> None:
            if transaction := envelope.get_transaction_event():
                told = {"process": process, **transaction["contexts"]["trace"]}
                told["spans"] = [span["span_id"] for span in transaction["spans"]]
                marks().rpush(f"{RUN}-sentry", json.dumps(told))

    sentry_sdk.init(
        "http://key@127.0.0.1:9/1", traces_sample_rate=1.0, transport=ToRedis, integrations=[CeleryIntegration()]
    )

app = outbox_class(KIND)("parts")
# Celery delays tasks on the broker itself if its queues are quorum queues, and their exchanges not direct ones.
QUORUM = "PARTS_QUORUM" in os.environ
arguments = {"x-queue-type": "quorum"} if QUORUM else None
app.conf.update(
    broker_url=os.environ["PARTS_BROKER"],
    task_default_queue=RUN,
    task_queues=[
        Queue(RUN, Exchange(RUN, "topic" if QUORUM else "direct"), routing_key=RUN, queue_arguments=arguments)
    ],
    task_ignore_result=True,
    broker_connection_retry_on_startup=True,
)


@app.task(bind=True, name="parts.count")
def count(self: Task, number: int) -> None:
    """Counts how many times each task ran, by its id."""
    marks().hincrby(f"{RUN}-ran", self.request.id, 1)


@app.task(bind=True, name="parts.when")
def when(self: Task) -> None:
    """Tells when it ran, and by which way its message came."""
    told = {"ran": time.time(), "eta": self.request.eta, **self.request.delivery_info}
    marks().rpush(f"{RUN}-when", json.dumps(told))
