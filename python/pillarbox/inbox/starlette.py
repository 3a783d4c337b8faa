"""Receives events in Starlette and FastAPI, with connections of DB-API. The handler runs in a thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response

from pillarbox.inbox.connections import Connect, transactions
from pillarbox.inbox.errors import Refused
from pillarbox.inbox.event import Event
from pillarbox.inbox.once import check_handler
from pillarbox.inbox.receive import MOST_DROPPED, Answer, Inbox

Handler = Callable[[Event, Any], object]


def receiver(consumer: str, keys: Any, connect: Connect, **options: Any) -> Callable[[Handler], Callable[..., Any]]:
    """Makes an endpoint of a handler, which is called with the event and the connection.

    For `Route(path, endpoint, methods=["POST"])` and FastAPI's `app.post(path)`. The options are those of `Inbox`.
    """
    inbox, transaction = Inbox(consumer, keys, **options), transactions(connect)

    def decorate(handler: Handler) -> Callable[..., Any]:
        check_handler(handler)

        async def endpoint(request: Request) -> Response:
            try:
                body = await _body(request, inbox)
            except Refused as refused:
                return _response(inbox.refuse(refused))
            headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in request.headers.raw]

            def handle(event: Event, session: Any) -> object:
                return handler(event, session.connection)

            return _response(await run_in_threadpool(inbox.receive, headers, body, transaction, handle))

        # Without `wraps`: FastAPI would take the handler's arguments for parameters of the request.
        endpoint.__name__, endpoint.__doc__ = getattr(handler, "__name__", "endpoint"), handler.__doc__
        return endpoint

    return decorate


async def _body(request: Request, inbox: Inbox) -> bytes:
    """Keeps no more than the limit."""
    body, length = bytearray(), 0
    try:
        async for chunk in request.stream():
            length += len(chunk)
            if length <= inbox.max_body:
                body += chunk
            elif length > MOST_DROPPED:
                break
    except ClientDisconnect:
        raise Refused(400, "the body is not complete") from None
    inbox.check_length(length)
    return bytes(body)


def _response(answer: Answer) -> Response:
    return PlainTextResponse(answer.text, answer.status, answer.headers)
