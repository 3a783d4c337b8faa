"""`manage.py pillarbox_stats`, the system checks, the Celery tasks and their schedule."""

from __future__ import annotations

import datetime
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import celery
import pytest
from django.core.checks import run_checks
from django.core.management import CommandError, call_command
from django.db import connections
from django.utils import timezone

import pillarbox
from pillarbox import handlers
from pillarbox.beat import beat_schedule
from pillarbox.models import OutboxEvent
from pillarbox.tasks import cleanup_delivered_outbox_events_task, deliver_outbox_events_task


def stats(*arguments: str) -> str:
    out = io.StringIO()
    call_command("pillarbox_stats", *arguments, stdout=out)
    return out.getvalue()


def test_stats(alias):
    assert json.loads(stats("--json", "--database", alias))["oldest_pending_seconds"] is None
    now = timezone.now()
    for name, fields in {
        "due": {"created_at": now - datetime.timedelta(hours=3)},
        "retried": {"attempts": 2, "next_attempt_at": now + datetime.timedelta(hours=1)},
        "parked": {"parked_on": "runner"},
        "failed": {"status": "failed", "next_attempt_at": None, "attempts": 5},
        "delivered": {"status": "delivered", "next_attempt_at": None, "delivered_at": now},
    }.items():
        event = pillarbox.emit_event("Order", name, "order.placed", {}, using=alias)
        OutboxEvent.objects.using(alias).filter(pk=event.pk).update(**fields)
    answer = json.loads(stats("--format", "json", "--top", "3", "--database", alias))
    assert 10800 <= answer.pop("oldest_pending_seconds") < 10860
    assert answer == {
        "pending": 3,
        "due": 1,
        "sending": 0,
        "parked": 1,
        "failed": 1,
        "delivered": 1,
        "total": 5,
        "top_failing": [{"event_type": "order.placed", "events": 2, "attempts": 7}],
    }
    text = stats("--top", "1", "--database", alias)
    assert "pending         3\n" in text
    assert "oldest pending  3:00:0" in text
    assert "order.placed: 2 events, 7 failed attempts" in text


@pytest.mark.django_db(transaction=True, databases="__all__")
def test_stats_say_what_to_do_without_tables(alias):
    with connections[alias].cursor() as cursor:
        cursor.execute("ALTER TABLE outbox_event RENAME TO away")
        try:
            with pytest.raises(CommandError, match="run migrate"):
                stats("--database", alias)
        finally:
            cursor.execute("ALTER TABLE away RENAME TO outbox_event")


# Newer checks of Django ask the databases.
@pytest.mark.django_db(databases="__all__")
@pytest.mark.parametrize(
    ("setting", "value", "id"),
    [
        ("OUTBOX_RETENTION_HOURS", "168", "pillarbox.E003"),
        ("OUTBOX_SWEEP_INTERVAL_MINUTES", 0, "pillarbox.E003"),
        ("PILLARBOX_UNHANDLED", "drop", "pillarbox.E004"),
        ("PILLARBOX_HANDLERS", ["shop.handlers"], "pillarbox.E005"),
        ("PILLARBOX_HANDLERS", {"*": "shop.nothing.here"}, "pillarbox.E006"),
        ("PILLARBOX_HANDLERS", {"*": "django.VERSION"}, "pillarbox.E006"),
        ("CELERY_OUTBOX_EXCLUDE_TASKS", "a.task", "pillarbox.E007"),
        ("CELERY_OUTBOX_APP", "shop.celery.app", "pillarbox.E008"),
        ("CELERY_OUTBOX_STRUCTLOG_CONTEXT_KEYS", "request_id", "pillarbox.E009"),
        ("MONITORING_STATSD_PORT", "statsd", "pillarbox.E010"),
        ("MONITORING_STATSD_TAGS", ["service:shop"], "pillarbox.E010"),
        ("PILLARBOX_HOLD_ETA_SECONDS", "60", "pillarbox.E003"),
        ("CELERY_OUTBOX_DLQ_RETENTION", "30d", "pillarbox.E014"),
        ("CELERY_OUTBOX_DLQ_RETENTION", {}, "pillarbox.E014"),
        ("CELERY_OUTBOX_DLQ_RETENTION", {"older_than_dead": "a month"}, "pillarbox.E014"),
        ("CELERY_OUTBOX_DLQ_RETENTION", {"older_than_dead": "30d", "task_name": "a.*"}, "pillarbox.W004"),
        ("PILLARBOX_HANDLER", {}, "pillarbox.W001"),
    ],
)
def test_mistakes_in_the_settings_are_found(settings, setting, value, id):
    assert [message.id for message in run_checks()] == []
    setattr(settings, setting, value)
    assert [message.id for message in run_checks()] == [id]


@pytest.mark.django_db(databases="__all__")
def test_an_app_that_the_commands_would_not_find_is_told():
    from pillarbox.celery import OutboxCelery

    app_before = celery.current_app._get_current_object()
    app = OutboxCelery("shop", broker="memory://", set_as_current=True)
    try:
        assert [message.id for message in run_checks()] == ["pillarbox.W002"]
    finally:
        app.close()
        app_before.set_current()


@pytest.mark.django_db(databases="__all__")
def test_a_near_miss_is_suggested(settings):
    settings.PILLARBOX_HANDLER = {}
    assert run_checks()[0].hint == "Did you mean PILLARBOX_HANDLERS?"


def test_the_tasks_deliver_and_clean_up(db, settings, monkeypatch):
    settings.PILLARBOX_UNHANDLED = "deliver"
    monkeypatch.setattr(handlers, "_registered", [])
    assert deliver_outbox_events_task.name == "pillarbox.tasks.deliver_outbox_events_task"
    assert cleanup_delivered_outbox_events_task.name == "pillarbox.tasks.cleanup_delivered_outbox_events_task"
    event = pillarbox.emit_event("Order", "1", "order.placed", {})
    assert deliver_outbox_events_task() == {"processed": 1, "remaining": 0}
    OutboxEvent.objects.filter(pk=event.pk).update(delivered_at=timezone.now() - datetime.timedelta(hours=2))
    assert cleanup_delivered_outbox_events_task() == {"deleted": 0, "remaining": 0}
    settings.OUTBOX_RETENTION_HOURS = 1
    assert cleanup_delivered_outbox_events_task() == {"deleted": 1, "remaining": 0}


def test_failed_events_have_a_retention_of_their_own(db, settings):
    settings.OUTBOX_RETENTION_HOURS = 1

    def dead(hours: float) -> None:
        event = pillarbox.emit_event("Order", hours, "order.placed", {})
        moment = timezone.now() - datetime.timedelta(hours=hours)
        OutboxEvent.objects.filter(pk=event.pk).update(status="failed", next_attempt_at=None, updated_at=moment)

    dead(2)
    dead(47)
    dead(49)
    settings.CELERY_OUTBOX_DLQ_RETENTION = {"older_than_dead": "2d", "older_than_created": datetime.timedelta(hours=40)}
    assert cleanup_delivered_outbox_events_task() == {"deleted": 1, "remaining": 0}
    settings.CELERY_OUTBOX_DLQ_RETENTION = {"older_than_created": "40h"}
    assert cleanup_delivered_outbox_events_task() == {"deleted": 1, "remaining": 0}
    del settings.CELERY_OUTBOX_DLQ_RETENTION
    assert cleanup_delivered_outbox_events_task() == {"deleted": 1, "remaining": 0}


def test_the_beat_entries(settings):
    settings.OUTBOX_SWEEP_INTERVAL_MINUTES = 7
    entries = beat_schedule(queue="default")
    assert entries["deliver-outbox-events-sweep"] == {
        "task": "pillarbox.tasks.deliver_outbox_events_task",
        "schedule": datetime.timedelta(minutes=7),
        "options": {"queue": "default"},
    }
    assert set(entries) == {"deliver-outbox-events-sweep", "cleanup-delivered-outbox-events"}
    assert entries["cleanup-delivered-outbox-events"]["task"] == cleanup_delivered_outbox_events_task.name
    assert beat_schedule(sweep_minutes=1)["deliver-outbox-events-sweep"]["schedule"] == datetime.timedelta(minutes=1)


@pytest.mark.django_db(transaction=True)
def test_the_delivery_task_is_sent_on_commit_where_that_is_wanted(settings, monkeypatch):
    sent = []
    monkeypatch.setattr(deliver_outbox_events_task, "apply_async", lambda **options: sent.append(options))
    monkeypatch.setattr(handlers, "_registered", [("order.*", print)])
    pillarbox.emit_event("Order", "1", "order.placed", {})
    assert sent == []
    settings.PILLARBOX_DELIVER_ON_COMMIT = True
    pillarbox.emit_event("Order", "2", "order.placed", {})
    pillarbox.emit_event("User", "2", "user.created", {})
    assert sent == [{"retry": False}]

    def refuse(**options):
        raise ConnectionError("no broker")

    monkeypatch.setattr(deliver_outbox_events_task, "apply_async", refuse)
    assert pillarbox.emit_event("Order", "3", "order.placed", {}).status == "pending"


NO_CELERY = """
import sys
sys.modules["celery"] = sys.modules["kombu"] = None
import django
from django.conf import settings
settings.configure(
    INSTALLED_APPS=["pillarbox"], USE_TZ=True, PILLARBOX_PROGRAM="echo",
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "shop.db"}},
)
from django.core.management import execute_from_command_line
execute_from_command_line(["manage.py", *sys.argv[1:]])
"""


def test_who_only_emits_events_needs_no_celery(tmp_path):
    def manage(*arguments):
        command = [sys.executable, "-c", NO_CELERY, *arguments]
        ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        return ended.stdout.strip() or ended.stderr.strip()

    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    assert "no issues" in manage("check")
    assert "write ./pillarbox.toml or give --config" in manage("pillarbox_relay")
    assert manage("pillarbox_relay", "--config", "own.toml", "--log-format", "json") == (
        "relay --log-format json --config own.toml"
    )
    assert "pip install 'pillarbox[celery]'" in manage("pillarbox_config")
