"""`once` in consumers of brokers: a message that comes twice, because it was not acknowledged, is handled once."""

from __future__ import annotations

import subprocess
import uuid
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
import redis
from celery import Celery
from kombu import Connection, Message, Queue

from pillarbox.inbox import create_table, once
from tests.inbox.test_receive import PATIENCE, wait_until
from tests.processes import NEWEST, Processes, environment, pillarbox, worker
from tests.servers import broker, create_database

RELAY = """
[database]
url = "{outbox}"
[destinations.broker]
{destination}
[[routes]]
to = ["broker"]
"""
REDIS = """kind = "redis"
url = "{url}"
stream = "{name}"
"""
RABBITMQ = """kind = "amqp"
url = "{url}"
routing_key = "{name}"
declare = {{ queue = "{name}" }}
"""


@pytest.fixture
def database() -> str:
    """The consumer's database."""
    address = create_database()
    with psycopg.connect(address) as connection:
        create_table(connection)
        connection.execute("CREATE TABLE invoice (order_id text)")
    return address


def deliver(destination: str, directory: Path) -> None:
    """Emits two events, and delivers them by the real relay."""
    (directory / "pillarbox.toml").write_text(RELAY.format(outbox=create_database(), destination=destination))
    commands = [["migrate"], *(["emit", "Order", order, "order.placed", "{}"] for order in "12"), ["sweep"]]
    for arguments in commands:
        subprocess.run([pillarbox(), *arguments], cwd=directory, check=True, capture_output=True)


def bill(address: str, id: str, order: str) -> bool:
    """Handles a message in a transaction of its own. Returns whether it was new."""
    with closing(psycopg.connect(address)) as connection, connection:
        insert = "INSERT INTO invoice VALUES (%s)"
        return once(connection, id, lambda: connection.execute(insert, [order]), consumer="billing")


def billed(address: str) -> list[str]:
    with psycopg.connect(address) as connection:
        return [row[0] for row in connection.execute("SELECT order_id FROM invoice ORDER BY order_id")]


def test_a_consumer_of_redis_handles_an_entry_once(database: str, tmp_path: Path) -> None:
    stream = f"orders-{uuid.uuid4().hex}"
    deliver(REDIS.format(url=broker("redis"), name=stream), tmp_path)
    with closing(redis.Redis.from_url(broker("redis"), decode_responses=True)) as client:
        client.xgroup_create(stream, "billing", id="0")

        def consume(entries: list) -> list[bool]:
            fields = [fields for _, fields in entries]
            return [bill(database, one["pillarbox-event-id"], one["pillarbox-aggregate-id"]) for one in fields]

        [[_, entries]] = client.xreadgroup("billing", "first", {stream: ">"})
        assert consume(entries) == [True, True]
        # It dies before its ack, and another takes its entries.
        _, again, _ = client.xautoclaim(stream, "billing", "second", min_idle_time=0)
        assert [entry for entry, _ in again] == [entry for entry, _ in entries]
        assert consume(again) == [False, False]
        assert client.xack(stream, "billing", *(entry for entry, _ in again)) == 2
        client.delete(stream)
    assert billed(database) == ["1", "2"]


def test_a_consumer_of_rabbitmq_handles_a_message_once(database: str, tmp_path: Path) -> None:
    name = f"orders-{uuid.uuid4().hex}"
    deliver(RABBITMQ.format(url=broker("rabbitmq"), name=name), tmp_path)
    queue = Queue(name)

    def receive(connection: Connection) -> list[Message]:
        bound = queue(connection.default_channel)
        return [message for _ in range(2) if (message := bound.get())]

    def consume(messages: list[Message]) -> list[bool]:
        aggregates = [message.headers["pillarbox-aggregate-id"] for message in messages]
        ids = [message.properties["message_id"] for message in messages]
        return [bill(database, id, order) for id, order in zip(ids, aggregates, strict=True)]

    with Connection(broker("rabbitmq")) as connection:
        assert consume(receive(connection)) == [True, True]
    # Its connection ends before the ack, so the broker delivers the messages again.
    with Connection(broker("rabbitmq")) as connection:
        again = receive(connection)
        assert [message.delivery_info["redelivered"] for message in again] == [True, True]
        assert consume(again) == [False, False]
        for message in again:
            message.ack()
        queue(connection.default_channel).delete()
    assert billed(database) == ["1", "2"]


def test_a_celery_task_that_is_delivered_twice_is_handled_once(database: str, processes: Processes) -> None:
    queue = f"billing-{uuid.uuid4().hex}"
    with psycopg.connect(database) as connection:
        connection.execute("CREATE TABLE delivery (n serial, is_new boolean)")
    variables = environment(BROKER=broker("rabbitmq"), QUEUE=queue, DATABASE_URL=database)

    def start(name: str) -> subprocess.Popen[bytes]:
        return processes.start(name, worker(NEWEST, "tests.inbox.consume_celery", f"{name}-{queue}"), variables)

    def deliveries() -> list[bool]:
        with psycopg.connect(database) as connection:
            return [row[0] for row in connection.execute("SELECT is_new FROM delivery ORDER BY n")]

    with Celery(broker=broker("rabbitmq")) as app:
        app.send_task("bill", ["1"], queue=queue)
    # It dies before its ack, so the broker delivers the task again.
    assert start("first").wait(PATIENCE) != 0
    assert deliveries() == [True]
    start("second")
    wait_until(lambda: len(deliveries()) == 2)
    assert deliveries() == [True, False]
    assert billed(database) == ["1"]
    with Connection(broker("rabbitmq")) as connection:
        Queue(queue)(connection.default_channel).delete()
