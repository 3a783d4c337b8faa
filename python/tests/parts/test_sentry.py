"""With Sentry's SDK in producer and worker, the worker continues the producer's trace."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests import servers

from .shop import Shop


@pytest.mark.parametrize("broker", ["rabbitmq", "redis"])
@pytest.mark.parametrize("kind", ["outbox", "adopted"])
def test_the_worker_continues_the_trace(open_shop: Callable[[str, str], Shop], kind: str, broker: str) -> None:
    shop = open_shop(kind, servers.broker(broker))
    shop.worker(PARTS_SENTRY="worker")
    shop.produce("trace", PARTS_SENTRY="producer")
    shop.relay()

    told = {trace["process"]: trace for trace in (shop.told("sentry"), shop.told("sentry"))}
    producer, worker = told["producer"], told["worker"]
    assert worker["trace_id"] == producer["trace_id"]
    assert worker["parent_span_id"] in [producer["span_id"], *producer["spans"]]
