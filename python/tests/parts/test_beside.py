"""django-celery-outbox's producer, its relay and ours on the same tables at once."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

import pytest

from tests import servers

from .shop import Shop

TASKS = 10_000


@pytest.mark.parametrize("server", ["postgres", "mariadb"])
def test_both_relays_together_run_each_task_once(open_shop: Callable[..., Shop], server: str) -> None:
    shop = open_shop("adopted", servers.broker("rabbitmq"), server)
    shop.worker()
    shop.python_relay()
    shop.relay()
    shop.produce("send", str(TASKS))
    shop.wait_until("all tasks are gone from the outbox", lambda: shop.waiting() == 0)
    shop.wait_until("all tasks ran", lambda: shop.marks.hlen(f"{shop.run}-ran") == TASKS)

    times = Counter(shop.ran().values())
    print(f"{TASKS} tasks, by how many times they ran: {dict(times)}")
    assert times == {1: TASKS}, "nothing failed, so nothing ran twice"
    assert shop.given_up() == []
    shares = re.findall(r"published=(\d+)", shop.processes.log("python-relay"))
    share = sum(map(int, shares))
    print(f"{share} of them sent by its own relay")
    assert 0 < share < TASKS, "both relays had a share"
