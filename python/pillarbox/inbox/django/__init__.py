"""Receives events in Django: a decorator that makes a view, and `once` for Celery tasks and other consumers.

As an app (`INSTALLED_APPS = ["pillarbox.inbox.django"]`) it creates the table, on the databases that a router allows
for the app `pillarbox_inbox`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

from django.db import DEFAULT_DB_ALIAS, NotSupportedError, connections, transaction
from django.http import HttpRequest, HttpResponse, UnreadablePostError
from django.views.decorators.csrf import csrf_exempt

from pillarbox.inbox.databases import Session
from pillarbox.inbox.errors import InFlight, Never, Refused, RolledBack
from pillarbox.inbox.event import Event, check_consumer, check_id
from pillarbox.inbox.once import KEEP, WAIT, check_handler, forget, once_in
from pillarbox.inbox.receive import MOST_DROPPED, Answer, Inbox

__all__ = ["Event", "InFlight", "Never", "RolledBack", "cleanup", "once", "receiver"]

_FOLDERS = {"postgresql": "postgres", "mysql": "mysql", "sqlite": "sqlite"}


def receiver(
    consumer: str, keys: Any, *, using: str = DEFAULT_DB_ALIAS, **options: Any
) -> Callable[[Callable[[Event], object]], Callable[..., HttpResponse]]:
    """Makes a view of a handler, which is called with the event, in a transaction on the database `using`.

    The other options are those of `Inbox`.
    """
    inbox = Inbox(consumer, keys, **options)

    def begin() -> Any:
        return _transaction(using)

    def decorate(handler: Callable[[Event], object]) -> Callable[..., HttpResponse]:
        check_handler(handler)

        def view(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            if request.method != "POST":
                return HttpResponse(status=405, headers={"Allow": "POST"})
            try:
                body = _body(request, inbox)
            except Refused as refused:
                return _response(inbox.refuse(refused))
            answer = inbox.receive(request.headers.items(), body, begin, lambda event, session: handler(event))
            return _response(answer)

        view.__name__, view.__doc__ = getattr(handler, "__name__", "view"), handler.__doc__
        # The inbox commits before it answers, so its transaction is the outermost one, also with ATOMIC_REQUESTS.
        return transaction.non_atomic_requests(using)(csrf_exempt(view))

    return decorate


def once(
    id: str,
    handler: Callable[[], object],
    *,
    consumer: str,
    using: str = DEFAULT_DB_ALIAS,
    wait: float = WAIT,
) -> bool:
    """Records the event and runs the handler, in the current transaction; returns False for a duplicate.

    Let its errors end the `atomic` block. Raises InFlight, RolledBack, and what the handler raises.
    """
    connection = connections[using]
    if not connection.in_atomic_block:
        raise transaction.TransactionManagementError("call once() in a transaction.atomic() block")
    return once_in(session(using), check_consumer(consumer), check_id(id), handler, wait)


def cleanup(keep: timedelta = KEEP, *, using: str = DEFAULT_DB_ALIAS, batch: int = 1000) -> int:
    """Deletes records that are older than `keep`, in batches; returns their number."""
    deleted = 0
    while True:
        with transaction.atomic(using=using):
            rows = session(using).cleanup(keep.total_seconds(), batch)
        deleted += rows
        if rows < batch:
            return deleted


def session(using: str) -> Session:
    """Returns the inbox's statements on one of the project's databases."""
    connection = connections[using]
    try:
        return Session(connection, _FOLDERS[connection.vendor], "%s")
    except KeyError:
        raise NotSupportedError(
            f"the inbox cannot be in the database {using!r} ({connection.vendor}): it needs PostgreSQL, MariaDB, MySQL "
            "or SQLite"
        ) from None


@contextmanager
def _transaction(using: str) -> Iterator[Session]:
    opened = session(using)
    try:
        with transaction.atomic(using=using, durable=True):
            yield opened
    except BaseException:
        if opened.recorded is not None:
            with suppress(Exception), transaction.atomic(using=using):
                forget(opened)
        raise


def _body(request: HttpRequest, inbox: Inbox) -> bytes:
    """Keeps no more than the limit, whatever DATA_UPLOAD_MAX_MEMORY_SIZE is."""
    try:
        body = request.read(inbox.max_body + 1)
        dropped = 0
        while len(body) > inbox.max_body and dropped < MOST_DROPPED and (chunk := request.read(65536)):
            dropped += len(chunk)
    except UnreadablePostError:
        raise Refused(400, "the body is not complete") from None
    inbox.check_length(len(body))
    return body


def _response(answer: Answer) -> HttpResponse:
    return HttpResponse(answer.text, status=answer.status, content_type="text/plain", headers=answer.headers)
