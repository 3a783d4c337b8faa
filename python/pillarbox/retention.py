"""How long failed events are kept, by the setting `CELERY_OUTBOX_DLQ_RETENTION` of django-celery-outbox.

    CELERY_OUTBOX_DLQ_RETENTION = {"older_than_dead": "30d"}

A failed event is never deleted earlier than the setting says. Cleanup counts from the moment when it failed, so
`older_than_created` counts from then, too.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

_DURATION = re.compile(r"(\d+)([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_HINT = 'write it like {"older_than_dead": "30d"}'


def failed_seconds() -> float | None:
    """The setting in seconds; None without it. Raises ImproperlyConfigured."""
    retention = getattr(settings, "CELERY_OUTBOX_DLQ_RETENTION", None)
    if retention is None:
        return None
    if not isinstance(retention, Mapping):
        raise ImproperlyConfigured(f"CELERY_OUTBOX_DLQ_RETENTION is not a dict; {_HINT}")
    given = [retention[name] for name in ("older_than_dead", "older_than_created") if retention.get(name)]
    if not given:
        raise ImproperlyConfigured(f"CELERY_OUTBOX_DLQ_RETENTION has no older_than_dead; {_HINT}")
    return max(map(_seconds, given))


def has_task_name() -> bool:
    """Whether the setting is only about some tasks, which cleanup cannot tell from others."""
    retention = getattr(settings, "CELERY_OUTBOX_DLQ_RETENTION", None)
    return isinstance(retention, Mapping) and retention.get("task_name") is not None


def _seconds(duration: Any) -> float:
    if isinstance(duration, datetime.timedelta):
        return duration.total_seconds()
    found = _DURATION.fullmatch(duration) if isinstance(duration, str) else None
    if found is None:
        raise ImproperlyConfigured(f"CELERY_OUTBOX_DLQ_RETENTION has the duration {duration!r}; {_HINT}")
    return float(found[1]) * _SECONDS[found[2]]
