"""What the comparison looks at on the broker's side: how many messages a queue has, and when each of them came."""

from __future__ import annotations

import json
import threading
import time
from base64 import b64decode
from collections.abc import Callable
from typing import Protocol
from urllib.parse import urlsplit

import amqp
import redis


class Broker(Protocol):
    """A queue on a real broker."""

    name: str

    def depth(self) -> int: ...

    def purge(self) -> None: ...

    def consume(self, on_task: Callable[[str, float], None], stop: threading.Event) -> None: ...


class RabbitMQ:
    """A durable classic queue, as Celery declares it."""

    name = "RabbitMQ"

    def __init__(self, url: str, queue: str) -> None:
        self.url, self.queue = url, queue
        self._channel = self._connect().channel()
        self._channel.queue_declare(queue, durable=True, auto_delete=False)

    def _connect(self) -> amqp.Connection:
        parts = urlsplit(self.url)
        connection = amqp.Connection(
            host=f"{parts.hostname}:{parts.port or 5672}",
            userid=parts.username or "guest",
            password=parts.password or "guest",
        )
        connection.connect()
        return connection

    def depth(self) -> int:
        return self._channel.queue_declare(self.queue, passive=True).message_count

    def purge(self) -> None:
        self._channel.queue_purge(self.queue)

    def consume(self, on_task: Callable[[str, float], None], stop: threading.Event) -> None:
        connection = self._connect()
        channel = connection.channel()
        channel.basic_consume(
            self.queue, no_ack=True, callback=lambda message: on_task(message.headers["id"], time.time())
        )
        while not stop.is_set():
            try:
                connection.drain_events(timeout=0.1)
            except TimeoutError:
                continue
        connection.close()


class Redis:
    """The list that kombu makes of a queue."""

    name = "Redis"

    def __init__(self, url: str, queue: str) -> None:
        self.url, self.queue = url, queue
        self._client = redis.Redis.from_url(url)

    def depth(self) -> int:
        return self._client.llen(self.queue)

    def purge(self) -> None:
        self._client.delete(self.queue)

    def consume(self, on_task: Callable[[str, float], None], stop: threading.Event) -> None:
        client = redis.Redis.from_url(self.url)
        while not stop.is_set():
            popped = client.brpop([self.queue], timeout=0.1)
            if popped:
                came = time.time()
                envelope = json.loads(popped[1])
                b64decode(envelope["body"])
                on_task(envelope["headers"]["id"], came)


def connect(url: str, queue: str) -> Broker:
    """By the address's scheme."""
    return RabbitMQ(url, queue) if url.startswith("amqp") else Redis(url, queue)
