"""Emit, for Celery: an app whose tasks go into the outbox, in the transaction of whoever sends them.

Celery builds the whole message and resolves its route when the task is sent, so that a relay needs to know neither the
project's code nor its settings. Celery's ``after_task_publish`` is sent then as well: it means that the message was
handed over, not that it has left. The event ``task-sent`` (``task_send_sent_event``) is not: it would need the broker.
"""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING, Any

from celery import Celery
from celery.utils.saferepr import saferepr
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from pillarbox import redact
from pillarbox.celery import context, leaving
from pillarbox.celery.default import become_default
from pillarbox.celery.producer import QuietBackend, RecordingProducer, RememberedRoute, recording
from pillarbox.celery.record import batch, record, record_together

if TYPE_CHECKING:
    from celery.result import AsyncResult


class OutboxCelery(Celery):
    """A :class:`celery.Celery` whose ``delay``, ``apply_async``, ``retry``, ``send_task`` and canvas go to an outbox.

        app = OutboxCelery("shop")
        app.config_from_object("django.conf:settings", namespace="CELERY")

    The task is sent if the transaction commits, by a relay, and never was if it does not. Tasks named in the setting
    ``CELERY_OUTBOX_EXCLUDE_TASKS`` go to the broker at once.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if self.set_as_current:
            # Celery makes it current in this thread, and the default of others only with DJANGO_SETTINGS_MODULE.
            become_default(self)

    def send_task(
        self,
        name: str,
        args: Any = None,
        kwargs: Any = None,
        countdown: float | None = None,
        eta: Any = None,
        task_id: str | None = None,
        producer: Any = None,
        connection: Any = None,
        router: Any = None,
        **options: Any,
    ) -> AsyncResult:
        """As Celery's, with its options. A ``producer`` or ``connection`` is only used for excluded tasks."""
        # An id may be given as a UUID. Redis would have it as text, and RabbitMQ not at all.
        call = {"countdown": countdown, "eta": eta, "task_id": str(task_id) if task_id else None}
        if name in excluded_tasks():
            call |= {"producer": producer, "connection": connection, "router": router}
            return super().send_task(name, args, kwargs, **call, **options)
        options.pop("publisher", None)
        if redact.is_wanted():
            options = {**self._shown_arguments(name, args, kwargs), **options}
        if headers := context.add_context(options.get("headers")):
            options["headers"] = headers
        route = RememberedRoute(router or self.amqp.router)
        producer = RecordingProducer(self, route, partial(record, OutboxCelery, name))
        return super().send_task(name, args, kwargs, **call, producer=producer, router=route, **options)

    def _shown_arguments(self, name: str, args: Any, kwargs: Any) -> dict[str, str]:
        """What workers, monitors and pages show of the arguments, with ``CELERY_OUTBOX_PII_REDACTOR``."""
        shown = redact.redacted(name, args, kwargs)
        if shown is None:
            return {"argsrepr": redact.MASKED, "kwargsrepr": redact.MASKED}
        limits = self.amqp.argsrepr_maxsize, self.amqp.kwargsrepr_maxsize
        texts = [saferepr(value, limit) for value, limit in zip(shown, limits, strict=True)]
        return dict(zip(("argsrepr", "kwargsrepr"), texts, strict=True))

    def batch(self) -> contextlib.AbstractContextManager[None]:
        """Tasks that are sent inside are written with one statement, at the end of the block; none if it fails.

        The block belongs inside of the transaction. A task that is sent in a transaction or savepoint that began in the
        block is written at once, so that it is undone with it.

        with transaction.atomic(), app.batch():
            for order in orders:
                process.delay(order.pk)
        """
        return batch(OutboxCelery)

    def producer_or_acquire(self, producer: Any = None) -> Any:
        """Celery opens this around the members of a group, which are one batch then."""
        acquired = super().producer_or_acquire(producer)
        return acquired if isinstance(producer, RecordingProducer) else self._batching(acquired)

    @contextlib.contextmanager
    def _batching(self, acquired: Any) -> Any:
        with acquired as producer, self.batch():
            yield producer

    def register_task(self, task: Any, **options: Any) -> Any:
        """As Celery's. The successor of the task (retry, replace) is recorded when its code has ended."""
        return leaving.prepare(super().register_task(task, **options), record_together)

    def _task_from_fun(self, *args: Any, **options: Any) -> Any:
        """Called by Celery for every task that is a function, those of ``shared_task`` included."""
        return leaving.prepare(super()._task_from_fun(*args, **options), record_together)

    @property
    def backend(self) -> Any:
        """The result backend; it does not hear of tasks that are only recorded."""
        backend = super().backend
        return QuietBackend(backend) if recording.get() else backend


def excluded_tasks() -> Any:
    """``CELERY_OUTBOX_EXCLUDE_TASKS``."""
    excluded = getattr(settings, "CELERY_OUTBOX_EXCLUDE_TASKS", ())
    if isinstance(excluded, (set, frozenset, list, tuple)):
        return excluded
    raise ImproperlyConfigured("CELERY_OUTBOX_EXCLUDE_TASKS must be a set, list or tuple of task names")
