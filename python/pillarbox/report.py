"""Report: what a relay in a child process tells on its standard output becomes Django's signals.

They are sent after the fact, at most once for each outcome, in the process of ``manage.py pillarbox_relay``. What could
not be told, because this process died or was too slow, is not told later.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterable
from typing import Any

from django.db import close_old_connections, connections
from django.dispatch import Signal

from pillarbox import signals
from pillarbox.connection import close_if_broken

_logger = logging.getLogger(__name__)

#: Of the events that carry a task.
_TASKS = "celery"

#: How often connections that receivers have opened are looked after.
_UPKEEP_SECONDS = 10


class Relay:
    """The sender of the signals."""


def is_wanted() -> bool:
    """Whether anybody receives what a relay would tell."""
    told = (signals.outbox_message_sent, signals.outbox_message_failed, signals.outbox_message_dead_lettered)
    return any(signal.has_listeners(Relay) for signal in told)


def listen(lines: Iterable[str | bytes]) -> None:
    """Sends the signals of each line, until there are no more."""
    looked_after = time.monotonic()
    for line in lines:
        if time.monotonic() - looked_after >= _UPKEEP_SECONDS:
            close_old_connections()
            for connection in connections.all(initialized_only=True):
                close_if_broken(connection)
            looked_after = time.monotonic()
        try:
            outcome = json.loads(line)
        except ValueError:
            _logger.warning("relay report is not JSON: %.200r", line)
            continue
        tell(outcome)


def tell(outcome: dict[str, Any]) -> None:
    """Sends the signal of one outcome; only tasks have some."""
    if outcome.get("outcome") == "dropped":
        _logger.warning("signal receivers are too slow: no signals for %s tasks", outcome.get("count"))
        return
    if outcome.get("aggregate_type") != _TASKS:
        return
    task = {"task_id": outcome["aggregate_id"], "task_name": outcome["event_type"]}
    if outcome["outcome"] == "sent":
        _send(signals.outbox_message_sent, "outbox_message_sent", task)
    elif outcome["outcome"] == "failed":
        # Attempts are counted with the one that failed just now, retries without.
        _send(signals.outbox_message_failed, "outbox_message_failed", task, retries=max(outcome["attempts"] - 1, 0))
    elif outcome["outcome"] == "dead_lettered":
        many = {"task_ids": [task["task_id"]], "task_names": [task["task_name"]]}
        _send(signals.outbox_message_dead_lettered, "outbox_message_dead_lettered", task, **many)


def _send(signal: Signal, name: str, task: dict[str, str], **more: Any) -> None:
    for receiver, answer in signal.send_robust(sender=Relay, **task, **more):
        if isinstance(answer, Exception):
            known_as = getattr(receiver, "__qualname__", repr(receiver))
            _logger.error("celery_outbox_signal_error %s %s: %s", name, known_as, answer, exc_info=answer, extra=task)
            # A connection that broke is not used again.
            close_old_connections()
