"""Pillarbox for Django: what a transaction committed is delivered, at least once.

Names are looked up when they are first used, because Django's models cannot be imported before the apps are ready.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pillarbox.cleanup import cleanup_delivered_events
    from pillarbox.emit import InvalidEvent, SchemaViolation, emit_event, emit_events
    from pillarbox.handlers import handler
    from pillarbox.process import process_pending_events

_WHERE = {
    "InvalidEvent": "pillarbox.emit",
    "OutboxCelery": "pillarbox.celery",
    "SchemaViolation": "pillarbox.emit",
    "cleanup_delivered_events": "pillarbox.cleanup",
    "emit_event": "pillarbox.emit",
    "emit_events": "pillarbox.emit",
    "handler": "pillarbox.handlers",
    "process_pending_events": "pillarbox.process",
}

__all__ = [
    "InvalidEvent",
    "SchemaViolation",
    "cleanup_delivered_events",
    "emit_event",
    "emit_events",
    "handler",
    "process_pending_events",
]


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(import_module(_WHERE[name]), name)
    if name == "__version__":
        from importlib.metadata import version

        return version("pillarbox")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_WHERE, "__version__"])
