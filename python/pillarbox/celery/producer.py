"""A producer that records instead of sending.

Celery builds the message and resolves its route as ever; what it would then publish is handed to a function. No
connection is opened, whatever Celery asks of the producer.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from kombu import Exchange, Producer, Queue
from kombu.transport.virtual.exchange import TopicExchange

from pillarbox.celery import message

if TYPE_CHECKING:
    from celery import Celery

#: Set while Celery hands a message to a recording producer.
recording: ContextVar[bool] = ContextVar("pillarbox_recording", default=False)


class RecordingProducer(Producer):
    """Takes one message. ``record`` is called with the keywords of :func:`pillarbox.celery.message.encode`."""

    # Kombu's constructor sets these for each producer, and there is one for each task.
    exchange = Exchange("")
    auto_declare = False

    def __init__(self, app: Celery, route: RememberedRoute, record: Callable[..., None]) -> None:
        self._channel = None
        self.__connection__ = NoConnection(app)
        self._app = app
        self._route = route
        self._record = record

    def _publish(
        self,
        body: str | bytes,
        priority: int | None,
        content_type: str,
        content_encoding: str,
        headers: dict[str, Any],
        properties: dict[str, Any],
        routing_key: str,
        mandatory: bool,
        immediate: bool,
        exchange: str,
        declare: list[Any],
        *timeouts: Any,
        **more: Any,
    ) -> None:
        if "task" not in headers and exchange == self._app.conf.event_exchange:
            return  # "task-sent", which Celery tells monitors after the task
        message.require_protocol_2(headers)
        message.absolute(headers)
        if headers.get("expires") is not None:
            properties.pop("expiration", None)  # counted from now; the relay counts from when it sends
        if priority is not None:
            properties["priority"] = priority
        if delayed := exchange == message.DELAYED_EXCHANGE:
            exchange, routing_key, declare = self._route.before_delay(routing_key)
        self._record(
            body=body,
            content_type=content_type,
            content_encoding=content_encoding,
            headers=headers,
            properties=properties,
            exchange=exchange,
            routing_key=routing_key,
            queue=self._route.queue_of(exchange, routing_key, self._app),
            declare=message.declarations(declare),
            delayed=delayed,
        )


class NoConnection:
    """What Celery and kombu ask of a producer's connection. Nothing here can fail for a broker's sake."""

    recoverable_connection_errors: tuple[type[Exception], ...] = ()

    def __init__(self, app: Celery) -> None:
        self._app = app
        self.transport_options: dict[str, Any] = {}

    def _reraise_as_library_errors(self) -> Recording:
        return Recording()

    def ensure(self, _obj: object, publish: Callable[..., None], **_policy: Any) -> Callable[..., None]:
        """There is nothing to connect to again: what the database refuses, the caller must see."""
        return publish

    @property
    def transport(self) -> Any:
        """For those who ask for the kind of broker. Making one does not connect it."""
        return self._app.amqp.producer_pool.connections.connection.transport


class Recording:
    """While Celery hands a message over."""

    def __enter__(self) -> None:
        self._token = recording.set(True)

    def __exit__(self, *error: object) -> None:
        recording.reset(self._token)


class RememberedRoute:
    """A router that remembers what it answered: delayed delivery overwrites the queue before it is published."""

    def __init__(self, router: Any) -> None:
        self._router = router
        self._queue: Queue | None = None
        self._exchange = ""

    def route(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        options = self._router.route(*args, **kwargs)
        queue = options.get("queue")
        self._queue = queue if isinstance(queue, Queue) else None
        exchange = options.get("exchange") or ""
        self._exchange = getattr(exchange, "name", exchange)
        return options

    def __getattr__(self, name: str) -> Any:
        return getattr(self._router, name)

    def before_delay(self, routing_key: str) -> tuple[str, str, list[Queue]]:
        """Exchange and routing key of the real target, and what to declare for it."""
        queue = self._queue
        exchange = queue.exchange.name if queue is not None else self._exchange
        return exchange, message.without_delay(routing_key), [queue] if queue is not None else []

    def queue_of(self, exchange: str, routing_key: str, app: Celery) -> str | None:
        """The one queue that a message to there ends in, as far as it is known here."""
        if not exchange:
            return routing_key
        if self._queue is not None and _reaches(self._queue, exchange, routing_key):
            return self._queue.name
        reached = [name for name, queue in app.amqp.queues.items() if _reaches(queue, exchange, routing_key)]
        return reached[0] if len(reached) == 1 else None


def _reaches(queue: Queue, exchange: str, routing_key: str) -> bool:
    bound = queue.exchange
    if not bound or bound.name != exchange:
        return False
    if bound.type == "topic" and queue.routing_key != routing_key:
        return _TOPICS.matches(queue.routing_key, routing_key)
    return bound.type == "fanout" or queue.routing_key == routing_key


class _Topics(TopicExchange):
    """Kombu's own matching of topics, without a channel."""

    def matches(self, pattern: str, routing_key: str) -> bool:
        return bool(self._match(self.key_to_pattern(pattern), routing_key))


_TOPICS = _Topics(None)


class QuietBackend:
    """A result backend that is not told of the call: some connect then, and nothing has been sent yet.

    Who waits for a result subscribes to it when they begin to wait.
    """

    def __init__(self, backend: Any) -> None:
        self._backend = backend

    def on_task_call(self, _producer: Producer, _task_id: str) -> dict[str, Any]:
        return {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)
