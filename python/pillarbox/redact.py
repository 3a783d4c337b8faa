"""Redact: people read a Celery task's arguments without secrets. The worker gets them as they are.

The setting `CELERY_OUTBOX_PII_REDACTOR`, a function or its dotted path, is called with the task's name and copies of
its arguments, and returns what may be read of them, as in django-celery-outbox. When it fails, nothing may be read.
"""

from __future__ import annotations

import copy
import json
import logging
from collections.abc import Callable
from functools import cache
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string

from pillarbox.log import warn

_logger = logging.getLogger(__name__)

MASKED = "•••"

Redactor = Callable[[str, list[Any], dict[str, Any]], tuple[list[Any], dict[str, Any]]]


def is_wanted() -> bool:
    return getattr(settings, "CELERY_OUTBOX_PII_REDACTOR", None) is not None


def load_redactor() -> Redactor:
    """The function of the setting. Raises ImproperlyConfigured."""
    given = settings.CELERY_OUTBOX_PII_REDACTOR
    return _imported(given) if isinstance(given, str) else _callable(given)


@cache
def _imported(path: str) -> Redactor:
    try:
        return _callable(import_string(path))
    except ImportError as error:
        raise ImproperlyConfigured(f'CELERY_OUTBOX_PII_REDACTOR "{path}" cannot be imported: {error}') from error


def _callable(given: Any) -> Redactor:
    if not callable(given):
        raise ImproperlyConfigured(
            "CELERY_OUTBOX_PII_REDACTOR is not a function of (task_name, args, kwargs), nor the dotted path of one"
        )
    return given


def redacted(task_name: str, args: Any, kwargs: Any) -> tuple[Any, Any] | None:
    """Returns the arguments as people may read them, or None if the redactor fails. A tuple stays a tuple."""
    try:
        given = copy.deepcopy((list(args or ()), dict(kwargs or {})))
        shown_args, shown_kwargs = load_redactor()(task_name, *given)
        return tuple(shown_args) if isinstance(args, tuple) else list(shown_args), dict(shown_kwargs)
    except Exception as error:
        # Its message may quote the arguments.
        warn(_logger, "celery_outbox_redaction_failed", task_name=task_name, error=type(error).__name__)
        return None


def redacted_message(task_name: str, payload: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    """Returns a recorded message as it may be shown, and the hidden values. Only JSON is read: no pickle is opened."""
    try:
        args, kwargs, embed = json.loads(payload["body"])
    except (KeyError, TypeError, ValueError):
        return without_reprs({**payload, "body": MASKED}), [payload.get("body")]
    signature = {"task": task_name, "args": args, "kwargs": kwargs, "options": embed}
    shown = _signature(signature)
    if shown is None:
        return without_reprs({**payload, "body": MASKED}), signature
    if shown == signature:
        return payload, []
    body = json.dumps([shown["args"], shown["kwargs"], shown["options"]], ensure_ascii=False, default=str)
    return without_reprs({**payload, "body": body}), _difference(signature, shown)


def without_reprs(payload: dict[str, Any]) -> dict[str, Any]:
    """Returns the message with its headers `argsrepr` and `kwargsrepr` masked."""
    headers = payload.get("headers")
    if not isinstance(headers, dict):
        return payload
    hidden = {name: MASKED for name in ("argsrepr", "kwargsrepr") if name in headers}
    return {**payload, "headers": {**headers, **hidden}}


def _signature(value: Any) -> Any:
    """Redacts a signature and those inside of it: callbacks, chains, chords. Returns None if the redactor fails."""
    if isinstance(value, list):
        items = [_signature(item) for item in value]
        return (
            None if any(shown is None and item is not None for shown, item in zip(items, value, strict=True)) else items
        )
    if not isinstance(value, dict):
        return value
    shown = dict(value)
    if isinstance(value.get("task"), str) and "args" in value:
        answer = redacted(value["task"], value["args"], value.get("kwargs"))
        if answer is None:
            return None
        shown["args"], shown["kwargs"] = answer
    for name, item in shown.items():
        if (inner := _signature(item)) is None and item is not None:
            return None
        shown[name] = inner
    return shown


def _difference(before: Any, after: Any) -> Any:
    """Returns the values of `before` that `after` does not have at the same place."""
    if before == after:
        return []
    if isinstance(before, dict) and isinstance(after, dict):
        return [_difference(item, after.get(name)) for name, item in before.items()]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        return [_difference(item, other) for item, other in zip(before, after, strict=True)]
    return before
