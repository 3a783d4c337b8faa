"""A broker that is killed and comes back: nothing is lost, nothing is given up, and the relay goes on by itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.servers import PrivateBroker, PrivateRabbitMq, PrivateRedis

from .shop import Shop

TASKS = 2000
BEFORE = 300
"""How many are delivered before the broker is killed, at least; the producer goes on meanwhile."""


@pytest.mark.parametrize("kind", ["outbox", "adopted"])
@pytest.mark.parametrize("private", [PrivateRabbitMq, PrivateRedis], ids=["rabbitmq", "redis"])
def test_a_broker_is_killed(
    open_shop: Callable[[str, str], Shop], tmp_path: Path, private: type[PrivateBroker], kind: str
) -> None:
    broker = private(tmp_path / "broker")
    broker.start()
    try:
        shop = open_shop(kind, broker.url)
        relay = shop.relay()
        producer = shop.producer("send", str(TASKS))
        shop.wait_until("some tasks are delivered", lambda: len(shop.sent()) - shop.waiting() >= BEFORE)
        broker.kill()
        assert producer.poll() is None, "the broker was killed while tasks were sent"
        shop.wait_until("the relay has noticed", lambda: "destination is down" in shop.processes.log("relay"))
        broker.start()
        shop.wait_until("the producer is done", lambda: producer.poll() is not None)
        shop.wait_until("all tasks are delivered", lambda: shop.waiting() == 0)

        assert relay.poll() is None, "the relay went on"
        assert shop.given_up() == []
        arrived = shop.arrived()
        assert set(arrived) == shop.sent()
        assert len(shop.sent()) == TASKS
        print(f"{TASKS} tasks, {len(arrived) - TASKS} of them arrived twice")
    finally:
        broker.kill()
