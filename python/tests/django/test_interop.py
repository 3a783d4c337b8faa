"""Rust and Django each read, deliver and retry what the other wrote, on each database."""

from __future__ import annotations

import datetime
import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.db import connections, transaction
from django.test import Client

import pillarbox
from pillarbox import handlers
from pillarbox.models import OutboxEvent
from tests.django import program
from tests.outboxes import routers

pytestmark = pytest.mark.django_db(transaction=True, databases="__all__")

PAYLOAD = {"grün": "😀", "nested": [1, 2.5, None, {"big": 12345678901234567890}], "text": 'a "quoted" \\ line\n'}


class Receiver:
    """An endpoint that answers as it is told, and remembers what came."""

    def __init__(self) -> None:
        self.status = 204
        self.came: list[tuple[str, object]] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                receiver.came.append((self.headers["webhook-id"], json.loads(body)))
                self.send_response(receiver.status)
                self.end_headers()

            def log_message(self, *arguments: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.server.shutdown()
    receiver.server.server_close()


@pytest.fixture
def pillarbox_program(alias: str, receiver: Receiver, tmp_path: Path, settings) -> Callable[..., object]:
    """Runs the program on the test's database, with a route to the receiver."""
    (tmp_path / "pillarbox.toml").write_text(f"""
[relay]
poll_interval = "60s"
[destinations.receiver]
kind = "http"
url = "{receiver.url}"
allow_private = true
[[routes]]
events = "order.*"
to = ["receiver"]
""")
    settings.DATABASE_ROUTERS = routers(alias)
    return lambda *arguments: program.run(program.url(alias), *arguments, cwd=tmp_path)


@pytest.fixture(autouse=True)
def seen(monkeypatch) -> list[OutboxEvent]:
    """What a handler for everything saw."""
    seen: list[OutboxEvent] = []
    monkeypatch.setattr(handlers, "_registered", [("*", seen.append)])
    return seen


def test_what_django_wrote_the_relay_delivers(pillarbox_program, receiver, alias):
    with transaction.atomic(using=alias):
        event = pillarbox.emit_event("Order", "42", "order.placed", PAYLOAD, headers={"tenant": "acme"})
        delayed = pillarbox.emit_event(
            "Order", "43", "order.placed", {}, deliver_at=event.created_at + datetime.timedelta(hours=1)
        )
    assert pillarbox_program("sweep") == {"processed": 1, "remaining": 0}
    assert receiver.came == [(str(event.pk), PAYLOAD)]
    row = OutboxEvent.objects.get(pk=event.pk)
    assert (row.status, row.attempts, row.next_attempt_at) == ("delivered", 0, None)
    assert row.delivered_at >= row.created_at
    assert OutboxEvent.objects.get(pk=delayed.pk).status == "pending"
    assert pillarbox_program("stats")["scheduled"] == 1


def test_what_the_program_wrote_django_delivers(pillarbox_program, seen):
    emitted = pillarbox_program(
        "emit", "Order", "42", "order.placed", json.dumps(PAYLOAD), "--header", "tenant=acme", "--max-attempts", "9"
    )
    row = OutboxEvent.objects.get(pk=emitted["id"])
    assert (row.aggregate_type, row.aggregate_id, row.idempotency_key) == ("Order", "42", "Order:42")
    assert (row.payload, row.headers, row.max_attempts) == (PAYLOAD, {"tenant": "acme"}, 9)
    assert pillarbox.process_pending_events() == {"processed": 1, "remaining": 0}
    assert [event.pk for event in seen] == [row.pk]
    assert _shown(pillarbox_program, row)["status"] == "delivered"


def test_what_the_relay_gave_up_the_admin_sends_again(pillarbox_program, receiver):
    event = pillarbox.emit_event("Order", "42", "order.placed", PAYLOAD)
    receiver.status = 410
    pillarbox_program("sweep")
    row = OutboxEvent.objects.get(pk=event.pk)
    assert row.status == "failed"
    assert "410" in row.error_message

    admin = Client()
    admin.force_login(User.objects.create_superuser("root", password="x"))
    assert "410" in admin.get(f"/admin/pillarbox/outboxevent/{event.pk}/change/").content.decode()
    admin.post("/admin/pillarbox/deadletter/", {"action": "retry_selected", "_selected_action": [event.pk]})
    receiver.status = 204
    assert pillarbox_program("sweep") == {"processed": 1, "remaining": 0}
    assert OutboxEvent.objects.get(pk=event.pk).status == "delivered"
    assert [id for id, _ in receiver.came] == [str(event.pk)] * 2


def test_what_a_handler_gave_up_the_program_puts_back(pillarbox_program, monkeypatch, seen):
    def refuse(event: OutboxEvent) -> None:
        raise RuntimeError("on fire")

    event = pillarbox.emit_event("Order", "42", "order.placed", PAYLOAD, max_attempts=1)
    monkeypatch.setattr(handlers, "_registered", [("*", refuse)])
    pillarbox.process_pending_events()
    shown = _shown(pillarbox_program, event)
    assert shown["status"] == "failed"
    assert shown["attempts"] == 1
    assert "RuntimeError: on fire" in json.dumps(shown)

    pillarbox_program("events", "retry", str(event.pk), "--yes")
    assert OutboxEvent.objects.get(pk=event.pk).attempts == 0
    monkeypatch.setattr(handlers, "_registered", [("*", seen.append)])
    assert pillarbox.process_pending_events() == {"processed": 1, "remaining": 0}
    assert OutboxEvent.objects.get(pk=event.pk).status == "delivered"


def test_what_a_handler_has_in_hand_the_relay_leaves(pillarbox_program, receiver, monkeypatch):
    answers = []
    monkeypatch.setattr(handlers, "_registered", [("*", lambda event: answers.append(pillarbox_program("sweep")))])
    pillarbox.emit_event("Order", "42", "order.placed", {})
    pillarbox.process_pending_events()
    assert answers == [{"processed": 0, "remaining": 0}]
    assert receiver.came == []


def test_what_has_no_route_waits_for_a_handler(pillarbox_program, seen):
    event = pillarbox.emit_event("User", "1", "user.created", {})
    pillarbox_program("sweep")
    assert OutboxEvent.objects.get(pk=event.pk).parked_on == "unrouted"
    assert pillarbox.process_pending_events() == {"processed": 1, "remaining": 0}
    assert OutboxEvent.objects.get(pk=event.pk).status == "delivered"
    assert pillarbox_program("stats")["delivered"] == 1


def test_the_programs_cleanup_and_djangos_are_one(pillarbox_program):
    for name in ("1", "2"):
        pillarbox.emit_event("Order", name, "order.placed", {})
    pillarbox_program("sweep")
    OutboxEvent.objects.filter(aggregate_id="1").update(
        delivered_at=OutboxEvent.objects.get(aggregate_id="1").delivered_at - datetime.timedelta(hours=200)
    )
    assert pillarbox.cleanup_delivered_events() == {"deleted": 1, "remaining": 0}
    assert OutboxEvent.objects.get().aggregate_id == "2"


def test_a_sleeping_relay_is_woken_by_a_commit(pillarbox_program, receiver, alias, tmp_path):
    """It polls once a minute, so only a wake-up makes it deliver at once."""
    log = (tmp_path / "relay.log").open("w")
    relay = subprocess.Popen(
        [program.program(), "relay"], cwd=tmp_path, env=program.environment(program.url(alias)), stderr=log
    )
    try:
        _wait(lambda: _idle(alias))
        with transaction.atomic(using=alias):
            event = pillarbox.emit_event("Order", "42", "order.placed", {})
        _wait(lambda: OutboxEvent.objects.get(pk=event.pk).status == "delivered")
    finally:
        relay.terminate()
        relay.wait(30)
        log.close()


def _shown(run: Callable[..., object], event: OutboxEvent) -> dict:
    return run("events", "show", str(event.pk))


def _idle(alias: str) -> bool:
    with connections[alias].cursor() as cursor:
        cursor.execute("SELECT count(*) FROM outbox_relay WHERE idle" + (" = 1" if alias == "lite" else ""))
        return cursor.fetchone()[0] == 1


def _wait(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)
