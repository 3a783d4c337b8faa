"""What a worker is told of its caller, besides the task: the log context of structlog and the trace of Sentry.

Both are used only when they are installed, and travel as headers of the message. What the caller gave is kept.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from django.conf import settings

from pillarbox.celery.message import storable

try:
    import structlog
except ImportError:  # pragma: no cover
    structlog = None

try:
    import sentry_sdk
except ImportError:  # pragma: no cover
    sentry_sdk = None

#: Where django-structlog's workers look.
STRUCTLOG_HEADER = "__django_structlog__"

#: Headers by which an event, too, says what it belongs to.
_TRACE_HEADERS = ("traceparent", "tracestate", "sentry-trace", "baggage")


def add_context(headers: Mapping[str, Any] | None) -> dict[str, Any]:
    """The caller's headers and what is known of the moment."""
    headers = dict(headers or {})
    if context := _log_context():
        headers.setdefault(STRUCTLOG_HEADER, context)
    if "sentry-trace" not in headers and (trace := _sentry_trace()):
        headers.update(trace)
        # Sentry's workers look into this one, and Celery gives it to the task as request.headers.
        headers["headers"] = {**(headers.get("headers") or {}), **trace}
    return headers


def trace_of(headers: Mapping[str, Any]) -> dict[str, str] | None:
    """Those headers that say which trace a message belongs to."""
    return {name: headers[name] for name in _TRACE_HEADERS if isinstance(headers.get(name), str)} or None


def _log_context() -> dict[str, Any]:
    if structlog is None or not getattr(settings, "CELERY_OUTBOX_STRUCTLOG_ENABLED", True):
        return {}
    context = structlog.contextvars.get_contextvars()
    if not context:
        return {}
    if keys := getattr(settings, "CELERY_OUTBOX_STRUCTLOG_CONTEXT_KEYS", None):
        context = {key: context[key] for key in keys if key in context}
    try:
        text = json.dumps(context, default=str, allow_nan=False)
    except (TypeError, ValueError):  # a key that is no text, a number that is none, or it contains itself
        text = json.dumps({key: str(value) for key, value in context.items()})
    return storable(json.loads(text)) if "\\u0000" in text or "\\ud" in text else json.loads(text)


def _sentry_trace() -> dict[str, str]:
    """Nothing when Sentry's own integration for Celery is on: it adds the trace itself, or was told not to."""
    if sentry_sdk is None:
        return {}
    client = sentry_sdk.get_client()
    if not client.is_active() or client.get_integration("celery") is not None:
        return {}
    trace = {"sentry-trace": sentry_sdk.get_traceparent(), "baggage": sentry_sdk.get_baggage()}
    return {name: value for name, value in trace.items() if value}
