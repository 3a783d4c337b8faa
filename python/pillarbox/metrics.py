"""Metrics in DogStatsD's text, by UDP: nobody waits for an answer, and nobody fails for the want of one.

Settings: ``MONITORING_METRICS_ENABLED`` (true), ``MONITORING_STATSD_HOST`` (localhost), ``MONITORING_STATSD_PORT``
(9125), ``MONITORING_STATSD_PREFIX`` (celery_outbox), ``MONITORING_STATSD_TAGS`` (a dict).
``CELERY_OUTBOX_DISABLE_TASK_NAME_TAGS`` and ``CELERY_OUTBOX_MONITORED_TASKS`` bound the number of different tags.
"""

from __future__ import annotations

import contextlib
import socket
import time
from typing import Any

from django.conf import settings
from django.core.signals import setting_changed
from django.dispatch import receiver


class Statsd:
    """Where metrics go: an address, resolved once, and what every line begins and ends with."""

    def __init__(self, host: str, port: int, prefix: str, tags: dict[str, Any]) -> None:
        family, kind, _, _, self._address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        self._socket = socket.socket(family, kind)
        self._socket.setblocking(False)
        self._prefix = f"{prefix}." if prefix else ""
        self._tags = [f"{key}:{value}" for key, value in tags.items()]

    def increment(self, name: str, value: int, tags: dict[str, str]) -> None:
        """One counter. What cannot be sent is dropped."""
        every_tag = ",".join([*self._tags, *(f"{key}:{text}" for key, text in tags.items())])
        line = f"{self._prefix}{name}:{value}|c" + (f"|#{every_tag}" if every_tag else "")
        self._socket.sendto(line.encode(), self._address)

    def close(self) -> None:
        self._socket.close()


_statsd: Statsd | None = None

#: When a host that was not found is looked for again: names may take seconds, and commits wait for this.
_look_again_at = 0.0
_LOOK_AGAIN_SECONDS = 30.0


def enabled() -> bool:
    return getattr(settings, "MONITORING_METRICS_ENABLED", True)


def address() -> tuple[str, int]:
    """Host and port of the settings."""
    return getattr(settings, "MONITORING_STATSD_HOST", "localhost"), int(
        getattr(settings, "MONITORING_STATSD_PORT", 9125)
    )


def address_text() -> str:
    """Both in one, as the program takes it."""
    host, port = address()
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def prefix() -> str:
    return getattr(settings, "MONITORING_STATSD_PREFIX", "celery_outbox")


def constant_tags() -> dict[str, Any]:
    return dict(getattr(settings, "MONITORING_STATSD_TAGS", None) or {})


def task_tag(task_name: str) -> dict[str, str]:
    """The tag of a task's name, within what the settings allow."""
    if getattr(settings, "CELERY_OUTBOX_DISABLE_TASK_NAME_TAGS", False):
        return {}
    monitored = getattr(settings, "CELERY_OUTBOX_MONITORED_TASKS", None)
    return {"task_name": task_name if monitored is None or task_name in monitored else "other"}


def increment(name: str, value: int = 1, tags: dict[str, str] | None = None) -> None:
    """Counts, if metrics are enabled; never raises: an agent that is gone must not fail what it would have counted."""
    global _statsd, _look_again_at
    if not enabled():
        return
    with contextlib.suppress(OSError, ValueError):
        if _statsd is None:
            if time.monotonic() < _look_again_at:
                return
            _look_again_at = time.monotonic() + _LOOK_AGAIN_SECONDS
            _statsd = Statsd(*address(), prefix(), constant_tags())
        _statsd.increment(name, value, tags or {})


@receiver(setting_changed)
def _forget_address(*, setting: str, **_: Any) -> None:
    """Tests change settings; the next metric then goes where they say."""
    global _statsd, _look_again_at
    if setting.startswith("MONITORING_STATSD_"):
        _look_again_at = 0.0
        if _statsd is not None:
            _statsd.close()
            _statsd = None
