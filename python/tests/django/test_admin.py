"""The admin, through Django's test client."""

from __future__ import annotations

import datetime
import uuid

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.utils import timezone

import pillarbox
from pillarbox import handlers
from pillarbox.models import OutboxEvent
from tests.outboxes import routers

EVENTS = "/admin/pillarbox/outboxevent/"
DEAD = "/admin/pillarbox/deadletter/"


@pytest.fixture(autouse=True)
def _routed(alias, settings):
    """The admin asks the router which database it is."""
    settings.DATABASE_ROUTERS = routers(alias)


@pytest.fixture
def admin(alias) -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("root", password="x"))
    return client


@pytest.fixture
def make(alias):
    def make(name: str = "1", **fields) -> OutboxEvent:
        event = pillarbox.emit_event("Order", name, "order.placed", {"total": "<19.90>"})
        if fields.get("status") in ("failed", "delivered"):
            fields.setdefault("next_attempt_at", None)
        OutboxEvent.objects.filter(pk=event.pk).update(**fields)
        return event

    return make


def failed(**fields):
    return {"status": "failed", "attempts": 5, "claims": 3, "error_message": "no route to host", **fields}


def act(client: Client, where: str, action: str, *events: OutboxEvent) -> str:
    answer = client.post(where, {"action": action, "_selected_action": [event.pk for event in events]}, follow=True)
    assert answer.status_code == 200
    return answer.content.decode()


def test_the_list_shows_filters_searches_and_sums_up(admin, make):
    make("one", created_at=timezone.now() - datetime.timedelta(hours=2))
    make("two", **failed())
    make("three", status="delivered", delivered_at=timezone.now())
    page = admin.get(EVENTS).content.decode()
    for text in ("Pending: <strong>1</strong>", "Failed: <strong>1</strong>", "Total: <strong>3</strong>"):
        assert text in page
    assert "Oldest pending: <strong>2:00:0" in page
    assert admin.get(EVENTS).context["cl"].result_count == 3
    now = timezone.localtime()
    for query, found in {
        "status__exact=failed": {"two"},
        "event_type=order.placed": {"one", "two", "three"},
        "aggregate_type=Invoice": set(),
        "q=thre": {"three"},
        "q=Order:one": {"one"},
        f"q={OutboxEvent.objects.get(aggregate_id='two').pk}": {"two"},
        f"created_at__year={now.year}&created_at__month={now.month}": {"one", "two", "three"},
        f"created_at__year={now.year - 1}": set(),
        f"created_at__gte={(now + datetime.timedelta(days=1)).date()} 00:00:00%2B00:00": set(),
    }.items():
        answer = admin.get(f"{EVENTS}?{query}")
        assert answer.status_code == 200, query
        assert {event.aggregate_id for event in answer.context["cl"].result_list} == found, query


def test_the_date_hierarchy_goes_down_to_the_day(admin, make):
    moment = datetime.datetime(2026, 2, 25, 12, tzinfo=datetime.timezone.utc)
    make("one", created_at=moment)
    make("two", created_at=moment - datetime.timedelta(days=40))
    page = admin.get(EVENTS).content.decode()
    assert "?created_at__month=2&amp;created_at__year=2026" in page or "?created_at__year=2026" in page
    page = admin.get(f"{EVENTS}?created_at__year=2026&created_at__month=2").content.decode()
    assert "created_at__day=25" in page


def test_an_event_is_shown_read_only_and_escaped(admin, make):
    event = make()

    @handlers.handler("order.*")
    def refuse(event):
        raise RuntimeError("<on fire>")

    try:
        pillarbox.process_pending_events()
    finally:
        handlers._registered.clear()
    answer = admin.get(f"{EVENTS}{event.pk}/change/")
    page = answer.content.decode()
    assert "&lt;19.90&gt;" in page
    assert "RuntimeError: &lt;on fire&gt;" in page
    assert "<on fire>" not in page
    assert 'name="_save"' not in page
    assert admin.post(f"{EVENTS}{event.pk}/change/", {"status": "delivered"}).status_code == 403
    assert admin.get(f"{EVENTS}add/").status_code == 403
    assert admin.post(f"{EVENTS}{event.pk}/delete/", {"post": "yes"}).status_code == 403
    assert "delete_selected" not in admin.get(EVENTS).content.decode()


def test_failed_events_are_retried_and_others_left(admin, make):
    dead, waiting = make("one", **failed()), make("two", attempts=2)
    page = act(admin, EVENTS, "retry_failed_events", dead, waiting)
    assert "1 event reset for retry." in page
    assert "1 event has not failed: skipped." in page
    row = OutboxEvent.objects.get(pk=dead.pk)
    assert (row.status, row.attempts, row.claims, row.error_message) == ("pending", 0, 0, "")
    assert row.next_attempt_at <= timezone.now() + datetime.timedelta(seconds=1)
    assert OutboxEvent.objects.get(pk=waiting.pk).attempts == 2
    entry = LogEntry.objects.get()
    assert (entry.object_id, entry.change_message) == (str(dead.pk), "Retried by an admin action")


def test_retries_are_reset_but_what_is_being_sent_is_refused(admin, make):
    later = timezone.now() + datetime.timedelta(hours=1)
    waiting = make("one", attempts=4, error_message="no", next_attempt_at=later)
    sending = make("two", attempts=4, claimed_by=uuid.uuid4(), next_attempt_at=later)
    parked = make("three", parked_on="runner")
    arrived = make("four", status="delivered", delivered_at=timezone.now())
    page = act(admin, EVENTS, "reset_retries", waiting, sending, parked, arrived)
    assert "2 events reset for retry." in page
    assert "1 event is being sent: skipped." in page
    assert "1 event needs no retry: skipped." in page
    rows = {row.aggregate_id: row for row in OutboxEvent.objects.all()}
    assert (rows["one"].attempts, rows["one"].error_message) == (0, "")
    assert rows["one"].next_attempt_at < later
    assert (rows["two"].attempts, rows["two"].next_attempt_at > timezone.now()) == (4, True)
    assert rows["three"].parked_on is None
    assert rows["four"].status == "delivered"


def test_dead_letters_are_listed_and_go_back_into_the_queue(admin, make):
    dead, waiting = make("one", **failed()), make("two")
    answer = admin.get(DEAD)
    assert [event.pk for event in answer.context["cl"].result_list] == [dead.pk]
    assert "no route to host" in answer.content.decode()
    assert admin.get(f"{DEAD}{dead.pk}/change/").status_code == 200
    assert admin.get(f"{DEAD}{waiting.pk}/change/").status_code == 302
    assert "1 event reset for retry." in act(admin, DEAD, "retry_selected", dead)
    assert OutboxEvent.objects.get(pk=dead.pk).status == "pending"
    assert list(admin.get(DEAD).context["cl"].result_list) == []


def test_who_may_only_look_may_not_retry(make, alias):
    user = User.objects.create_user("viewer", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=["view_outboxevent", "view_deadletter"]))
    client = Client()
    client.force_login(user)
    dead = make("one", **failed())
    assert client.get(EVENTS).status_code == 200
    act(client, EVENTS, "retry_failed_events", dead)
    act(client, DEAD, "retry_selected", dead)
    assert OutboxEvent.objects.get(pk=dead.pk).status == "failed"


def test_a_large_table_is_estimated(admin, make, monkeypatch, alias):
    from django.db import connections

    from pillarbox import admin as module

    make()
    with connections[alias].cursor() as cursor:
        # InnoDB counts as it writes.
        cursor.execute("ANALYZE outbox_event" if alias == "default" else "SELECT 1")
    monkeypatch.setattr(module, "_COUNT_UP_TO", 1)
    page = admin.get(EVENTS).content.decode()
    assert ("≈ 1" in page) == (alias != "lite")


def test_an_opaque_payload_is_shown_as_its_bytes(admin, alias, settings):
    event = pillarbox.emit_event(
        "Order", "1", "order.placed", payload_bytes=b"\x08*\xff<b>" + b"x" * 300, content_type="image/png"
    )
    page = admin.get(f"{EVENTS}{event.pk}/change/").content.decode()
    assert "image/png, 306 bytes\n00000000  08 2a ff 3c 62 3e 78 78  78 " in page
    assert "|.*.&lt;b&gt;xxxxxxxxxx|" in page
    assert "000000f0  78 " in page
    assert "00000100" not in page
    settings.PILLARBOX_MASK = ["$.card"]
    page = admin.get(f"{EVENTS}{event.pk}/change/").content.decode()
    assert "•••" in page
    assert "08 2a" not in page
