"""Handlers: functions of the project that take events of some types, for those who deliver in Python.

Registered with the decorator, in a module `handlers` of an installed app, or by the setting `PILLARBOX_HANDLERS`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache
from typing import TypeVar

from django.conf import settings
from django.core.signals import setting_changed
from django.utils.module_loading import autodiscover_modules, import_string

from pillarbox.models import CELERY, OutboxEvent

Handler = Callable[[OutboxEvent], object]
F = TypeVar("F", bound=Handler)

_registered: list[tuple[str, Handler]] = []


def handler(*patterns: str) -> Callable[[F], F]:
    """Registers a function for events whose type fits one of the patterns; `*` stands for any run of characters.

        @pillarbox.handler("order.*")
        def on_order(event): ...

    A handler that returns has delivered the event; one that raises is called again later. It may be called twice for
    one event (at least once): `event.id` tells them apart.
    """
    if not patterns or not all(isinstance(pattern, str) and pattern for pattern in patterns):
        raise TypeError('give the event types: @pillarbox.handler("order.*")')

    def register(function: F) -> F:
        _registered.extend((pattern, function) for pattern in patterns)
        return function

    return register


def patterns() -> list[str]:
    """The patterns that have a handler."""
    return list(dict.fromkeys(pattern for pattern, _ in _all()))


def handlers_of(event_type: str) -> list[Handler]:
    """The handlers of a type of event, in the order in which they were registered, each once."""
    return list(dict.fromkeys(function for pattern, function in _all() if matches(pattern, event_type)))


def wanted(event_type: str, aggregate_type: str) -> bool:
    """Whether `process_pending_events` takes such an event. Recorded Celery tasks are the relay's alone."""
    return aggregate_type != CELERY and (takes_unhandled() or bool(handlers_of(event_type)))


def takes_unhandled() -> bool:
    """`PILLARBOX_UNHANDLED = "deliver"`: what has no handler is taken as well, and counts as delivered."""
    return getattr(settings, "PILLARBOX_UNHANDLED", "leave") == "deliver"


def matches(pattern: str, name: str) -> bool:
    """Whether the whole name fits, as the relay's routes match."""
    return _expression(pattern).fullmatch(name) is not None


@cache
def _expression(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)


def _all() -> Iterable[tuple[str, Handler]]:
    _discover()
    return [*_registered, *_configured()]


@cache
def _discover() -> None:
    autodiscover_modules("handlers")


@cache
def _configured() -> list[tuple[str, Handler]]:
    found = []
    for pattern, paths in getattr(settings, "PILLARBOX_HANDLERS", {}).items():
        for path in [paths] if isinstance(paths, str) or callable(paths) else paths:
            found.append((pattern, path if callable(path) else import_string(path)))
    return found


def _forget_setting(*, setting: str, **kwargs: object) -> None:
    if setting == "PILLARBOX_HANDLERS":
        _configured.cache_clear()


setting_changed.connect(_forget_setting, dispatch_uid="pillarbox.handlers")
