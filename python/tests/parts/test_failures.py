"""What cannot be delivered is kept, with an error that says why, and everything else goes on."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests import servers

from .shop import Shop

GOOD = 50
NOWHERE = "a-queue-that-nobody-made"


@pytest.fixture
def shop(request: pytest.FixtureRequest, open_shop: Callable[[str, str], Shop]) -> Shop:
    """With a queue, and a few tasks that are to be spoiled before the good ones come."""
    shop = open_shop(request.param, servers.broker("rabbitmq"))
    assert shop.arrived() == []
    shop.produce("send", "3")
    return shop


def deliver(shop: Shop, spoiled: set[str], left: int) -> None:
    """Sends good tasks after the spoiled ones, and waits until all of them, and only they, are in the queue."""
    shop.produce("send", str(GOOD))
    shop.relay(declare=False)
    shop.wait_until("only the spoiled tasks are left", lambda: shop.waiting() == left)
    arrived = shop.arrived()
    assert len(arrived) == GOOD
    assert set(arrived) == shop.sent() - spoiled


@pytest.mark.parametrize("shop", ["adopted"], indirect=True)
def test_adopted_tasks_that_cannot_be_delivered(shop: Shop) -> None:
    lost, invalid, foreign = (task for (task,) in shop.query("SELECT task_id FROM celery_outbox ORDER BY id"))
    spoil = "UPDATE celery_outbox SET {} WHERE task_id = %s"
    shop.query(spoil.format(f"""options = options || '{{"queue": "{NOWHERE}"}}'"""), lost)
    shop.query(spoil.format("""args = '{"not": "a list"}'"""), invalid)
    shop.query(spoil.format("schema_version = 2"), foreign)
    deliver(shop, {lost, invalid, foreign}, left=2)

    look = "SELECT retries, updated_at IS NULL, retry_after IS NULL FROM celery_outbox WHERE task_id = %s"
    shop.wait_until("the failure is written", lambda: shop.query(look, lost) == [(1, False, False)])
    assert shop.query(look, foreign) == [(0, True, True)], "nobody touched it"
    [(dead, reason)] = shop.given_up()
    assert dead == invalid
    assert "args" in reason, reason
    log = shop.processes.log("relay")
    assert NOWHERE in log
    assert "does not exist" in log
    assert "schema_version" in log


@pytest.mark.parametrize("shop", ["outbox"], indirect=True)
def test_recorded_tasks_that_cannot_be_delivered(shop: Shop) -> None:
    lost, invalid, foreign = (task for (task,) in shop.query("SELECT aggregate_id FROM outbox_event ORDER BY seq"))
    spoil = "UPDATE outbox_event SET payload = {} WHERE aggregate_id = %s"
    where = f"""payload || '{{"queue": "{NOWHERE}", "routing_key": "{NOWHERE}"}}'"""
    shop.query(spoil.format(where), lost)
    shop.query(spoil.format("payload - 'body'"), invalid)
    shop.query(spoil.format("""payload || '{"celery": 2}'"""), foreign)
    deliver(shop, {lost, invalid, foreign}, left=1)

    look = "SELECT status, attempts, error_message FROM outbox_event WHERE aggregate_id = %s"
    shop.wait_until("the failure is written", lambda: shop.query(look, lost)[0][1] == 1)
    [(status, _, error)] = shop.query(look, lost)
    assert status == "pending"
    assert NOWHERE in error
    assert "does not exist" in error
    given_up = dict(shop.given_up())
    assert given_up.keys() == {invalid, foreign}
    assert "body" in given_up[invalid]
    assert "version 2" in given_up[foreign]
