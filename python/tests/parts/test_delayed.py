"""On quorum queues Celery lets RabbitMQ itself hold tasks back until their time; so does Pillarbox."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime

import pytest

from tests import servers

from .shop import Shop

SECONDS = 8
"""Long enough for a busy machine to hand the task over before its time has come."""
TOPIC = """
default_exchange_type = "topic"
queue_type = "quorum"
"""


@pytest.mark.parametrize("kind", ["plain", "outbox", "adopted"])
def test_the_broker_delays_a_task(open_shop: Callable[[str, str], Shop], kind: str) -> None:
    shop = open_shop(kind, servers.broker("rabbitmq"))
    shop.worker(PARTS_QUORUM="1")
    # The worker makes the exchanges and queues of the delay, and plain Celery loses what it sends before.
    shop.wait_until("the worker is ready", lambda: " ready." in shop.processes.log("worker"))
    if kind != "plain":
        shop.relay(more=TOPIC)
    shop.produce("delay", str(SECONDS), PARTS_QUORUM="1")

    told = shop.told("when")
    assert told["exchange"].startswith("celery_delayed_"), "it came from the queues that delay"
    assert re.fullmatch(rf"(?:[01]\.){{28}}{shop.run}", told["routing_key"])
    assert told["ran"] >= datetime.fromisoformat(told["eta"]).timestamp()
