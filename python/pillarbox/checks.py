"""System checks: settings that would only fail when an event is on its way fail when the project starts."""

from __future__ import annotations

import difflib
import inspect
import sys
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning
from django.core.exceptions import ImproperlyConfigured
from django.db import connections, router
from django.utils.module_loading import import_string

from pillarbox import databases

KNOWN_SETTINGS = {
    "PILLARBOX_DELIVER_ON_COMMIT",
    "PILLARBOX_HANDLERS",
    "PILLARBOX_HOLD_ETA_SECONDS",
    "PILLARBOX_LEASE_SECONDS",
    "PILLARBOX_MASK",
    "PILLARBOX_PAYLOAD_LIMIT",
    "PILLARBOX_PROGRAM",
    "PILLARBOX_SCHEMAS",
    "PILLARBOX_UNHANDLED",
}
_POSITIVE_NUMBERS = (
    "OUTBOX_RETENTION_HOURS",
    "OUTBOX_SWEEP_INTERVAL_MINUTES",
    "PILLARBOX_LEASE_SECONDS",
    "PILLARBOX_PAYLOAD_LIMIT",
)


def check_settings(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """All of it, as Django calls it."""
    groups = (_database, _numbers, _words, _handlers, _celery, _metrics, _masks, _schemas, _retention, _unknown)
    return [message for group in groups for message in group()]


def _database() -> Iterator[CheckMessage]:
    from pillarbox.models import OutboxEvent

    connection = connections[router.db_for_write(OutboxEvent)]
    if connection.vendor in databases.KINDS:
        yield from databases.of(connection).check()
    else:
        yield Error(
            f'The outbox cannot be in the database "{connection.alias}" ({connection.vendor}).',
            hint=f"It needs {databases.NEEDED}: route the app pillarbox to such a database with a database router.",
            id="pillarbox.E001",
        )


def _numbers() -> Iterator[CheckMessage]:
    for name in _POSITIVE_NUMBERS:
        value = getattr(settings, name, 1)
        if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
            yield Error(f"{name} is {value!r}; it must be a number above 0.", id="pillarbox.E003")
    hold = getattr(settings, "PILLARBOX_HOLD_ETA_SECONDS", None)
    if hold is not None and (isinstance(hold, bool) or not isinstance(hold, int | float) or hold < 0):
        yield Error(
            f"PILLARBOX_HOLD_ETA_SECONDS is {hold!r}; it must be a number of seconds, or None.", id="pillarbox.E003"
        )


def _words() -> Iterator[CheckMessage]:
    unhandled = getattr(settings, "PILLARBOX_UNHANDLED", "leave")
    if unhandled not in ("leave", "deliver"):
        yield Error(
            f"PILLARBOX_UNHANDLED is {unhandled!r}.",
            hint='"leave" leaves events without a handler to the relay, "deliver" marks them delivered.',
            id="pillarbox.E004",
        )


def _handlers() -> Iterator[CheckMessage]:
    configured = getattr(settings, "PILLARBOX_HANDLERS", {})
    hint = 'For example {"order.*": "shop.handlers.on_order"}.'
    if not isinstance(configured, Mapping):
        yield Error("PILLARBOX_HANDLERS is not a dict of patterns and handlers.", hint=hint, id="pillarbox.E005")
        return
    for pattern, paths in configured.items():
        for path in [paths] if isinstance(paths, str) or callable(paths) else paths:
            try:
                found = path if callable(path) else import_string(path)
            except ImportError as error:
                yield Error(f'PILLARBOX_HANDLERS["{pattern}"]: {error}', hint=hint, id="pillarbox.E006")
                continue
            if not callable(found):
                yield Error(f'PILLARBOX_HANDLERS["{pattern}"]: {path} is not callable.', hint=hint, id="pillarbox.E006")


def _celery() -> Iterator[CheckMessage]:
    excluded = getattr(settings, "CELERY_OUTBOX_EXCLUDE_TASKS", ())
    if isinstance(excluded, str) or not isinstance(excluded, Collection):
        yield Error("CELERY_OUTBOX_EXCLUDE_TASKS must be a set, list or tuple of task names.", id="pillarbox.E007")
    if isinstance(getattr(settings, "CELERY_OUTBOX_STRUCTLOG_CONTEXT_KEYS", None), str):
        yield Error("CELERY_OUTBOX_STRUCTLOG_CONTEXT_KEYS must be a list of keys, or None.", id="pillarbox.E009")
    if getattr(settings, "CELERY_OUTBOX_APP", None):
        try:
            from pillarbox.celery.loading import load_app

            before = _current_app()
            app = load_app()
        except (ImportError, ImproperlyConfigured) as error:
            yield Error(str(error), id="pillarbox.E008")
        else:
            yield from _shared_tasks(app, before)
    elif _uses_outbox_celery():
        yield Warning(
            "OutboxCelery is used, but CELERY_OUTBOX_APP is not set: pillarbox_relay and pillarbox_config need it.",
            hint='The dotted path of your Celery app: "shop.celery.app".',
            id="pillarbox.W002",
        )


def _current_app() -> Any:
    """The app that tasks of ``@shared_task`` would be sent by."""
    from celery import current_app

    return current_app._get_current_object()


def _shared_tasks(app: Any, before: Any) -> Iterator[CheckMessage]:
    """``before`` was current before the check itself imported the app."""
    from pillarbox.celery import OutboxCelery
    from pillarbox.celery.default import HINT, is_nobodys

    current = _current_app()
    if not isinstance(app, OutboxCelery):
        return
    if is_nobodys(before):
        yield Warning(
            "The app of CELERY_OUTBOX_APP is not imported when Django starts: tasks of @shared_task would be sent by"
            " Celery's default app, past the outbox, and are refused.",
            hint=f"{HINT[0].upper()}{HINT[1:]}.",
            id="pillarbox.W003",
        )
    elif not isinstance(current, OutboxCelery):
        yield Error(
            f'Tasks of @shared_task are sent by the app "{current.main}", past the outbox.',
            hint="Create the app of CELERY_OUTBOX_APP last, or create the other one with set_as_current=False.",
            id="pillarbox.E011",
        )


def _metrics() -> Iterator[CheckMessage]:
    port = getattr(settings, "MONITORING_STATSD_PORT", 9125)
    if not str(port).isdecimal():
        yield Error(f"MONITORING_STATSD_PORT is {port!r}; it must be a number.", id="pillarbox.E010")
    tags = getattr(settings, "MONITORING_STATSD_TAGS", None) or {}
    if not isinstance(tags, Mapping):
        yield Error('MONITORING_STATSD_TAGS must be a dict, for example {"service": "shop"}.', id="pillarbox.E010")


def _masks() -> Iterator[CheckMessage]:
    from pillarbox import json_path, mask, redact

    try:
        mask.parsed(tuple(mask.configured()))
    except json_path.InvalidPath as error:
        hint = "Until it is valid, the admin masks all payloads."
        yield Error(f"PILLARBOX_MASK: {error}.", hint=hint, id="pillarbox.E012")
    else:
        yield from _masked_by_the_relay_only(mask.configured())
    if not redact.is_wanted():
        return
    try:
        inspect.signature(redact.load_redactor()).bind("", [], {})
    except ImproperlyConfigured as error:
        yield Error(f"{error}.", id="pillarbox.E013")
    except TypeError:
        yield Error("CELERY_OUTBOX_PII_REDACTOR does not take (task_name, args, kwargs).", id="pillarbox.E013")


def _masked_by_the_relay_only(paths: list[str]) -> Iterator[CheckMessage]:
    """The relay's configuration in the current directory may mask more than the setting does."""
    try:
        import tomllib  # Python 3.11

        written = tomllib.loads(Path("pillarbox.toml").read_text(encoding="utf-8"))["admin"]["mask"]
    except (ImportError, OSError, ValueError, KeyError, TypeError):
        return
    if missing := [path for path in written if path not in paths]:
        yield Warning(
            f"pillarbox.toml masks {', '.join(map(str, missing))}, and Django's admin does not.",
            hint="Add it to the setting PILLARBOX_MASK.",
            id="pillarbox.W005",
        )


def _schemas() -> Iterator[CheckMessage]:
    from pillarbox import schemas

    try:
        schemas.load_all()
    except ImproperlyConfigured as error:
        hint = "Until it is mended, events of these types cannot be emitted."
        yield Error(f"{error}.", hint=hint, id="pillarbox.E015")


def _retention() -> Iterator[CheckMessage]:
    from pillarbox import retention

    try:
        retention.failed_seconds()
    except ImproperlyConfigured as error:
        yield Error(f"{error}.", id="pillarbox.E014")
    if retention.has_task_name():
        yield Warning(
            "task_name of CELERY_OUTBOX_DLQ_RETENTION is ignored: failed events of all types are kept equally long.",
            hint="Remove it; to delete some types earlier, use a queryset of pillarbox.models.DeadLetter.",
            id="pillarbox.W004",
        )


def _uses_outbox_celery() -> bool:
    module = sys.modules.get("pillarbox.celery.app")
    return module is not None and isinstance(_current_app(), module.OutboxCelery)


def _unknown() -> Iterator[CheckMessage]:
    for name in dir(settings):
        if name.startswith("PILLARBOX_") and name not in KNOWN_SETTINGS:
            near = difflib.get_close_matches(name, KNOWN_SETTINGS, 1)
            yield Warning(
                f"There is no setting {name}.", hint=f"Did you mean {near[0]}?" if near else None, id="pillarbox.W001"
            )
