"""Connections that the server has closed: processes without requests get new ones, and lose nothing."""

from __future__ import annotations

import logging
import re

import pytest
from django.db import InterfaceError, OperationalError, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

import pillarbox
from pillarbox import handlers
from pillarbox.models import OutboxEvent
from tests.outboxes import SERVERS, routers
from tests.terminated import terminate

pytestmark = pytest.mark.django_db(transaction=True, databases="__all__")


@pytest.fixture(autouse=True, params=SERVERS, ids=SERVERS.values())
def alias(request, settings) -> str:
    """The database that has the outbox."""
    settings.DATABASE_ROUTERS = routers(request.param)
    return request.param


@pytest.fixture
def connection(alias) -> BaseDatabaseWrapper:
    return connections[alias]


def emit(name: str = "1") -> OutboxEvent:
    return pillarbox.emit_event("Order", name, "order.placed", {"n": 1})


def emit_two(name: str = "1") -> OutboxEvent:
    row = {"aggregate_type": "Order", "event_type": "order.placed"}
    return pillarbox.emit_events([{**row, "aggregate_id": name}, {**row, "aggregate_id": f"{name}b"}])[0]


@pytest.fixture
def handled(monkeypatch):
    """The events that a handler has seen."""
    seen = []
    monkeypatch.setattr(handlers, "_registered", [("order.*", lambda event: seen.append(event.aggregate_id))])
    return seen


@pytest.mark.parametrize("write", [emit, emit_two])
@pytest.mark.parametrize("checks", [False, True], ids=["", "CONN_HEALTH_CHECKS"])
def test_an_event_is_emitted_on_a_new_connection(write, checks, caplog, monkeypatch, alias, connection):
    monkeypatch.setitem(connection.settings_dict, "CONN_HEALTH_CHECKS", checks)
    connection.close()
    for name in ("1", "2"):
        terminate(alias)
        event = write(name)
        row = OutboxEvent.objects.get(aggregate_id=name)
        assert (row.pk, row.seq, row.created_at) == (event.pk, event.seq, event.created_at)
    told = {"default": "terminating connection due to administrator command", "maria": r"\((2006|2013), "}
    assert re.search(f"pillarbox_connection_lost: {told[alias]}", caplog.text)


def test_in_a_transaction_the_caller_is_told(caplog, alias):
    with pytest.raises((OperationalError, InterfaceError)), transaction.atomic(using=alias):
        emit("gone")
        terminate(alias)
        emit("gone too")
    assert "pillarbox_connection_lost" not in caplog.text
    emit("kept")
    assert [row.aggregate_id for row in OutboxEvent.objects.all()] == ["kept"]


@pytest.mark.parametrize("write", [emit, emit_two])
def test_what_was_written_before_the_connection_broke_is_not_written_twice(write, alias, connection):
    answers = []

    def lose_the_answer(execute, *statement):
        if not answers and "INSERT INTO outbox_event" in statement[0]:
            answers.append(execute(*statement))
            if connection.in_atomic_block:
                connection.connection.commit()
            terminate(alias)
            raise OperationalError("the connection was lost")
        return execute(*statement)

    connection.ensure_connection()
    with connection.execute_wrapper(lose_the_answer):
        event = write()
    assert answers
    row = OutboxEvent.objects.get(aggregate_id="1")
    assert (row.pk, row.seq, row.created_at) == (event.pk, event.seq, event.created_at)


def test_a_duplicate_stays_a_duplicate(alias):
    emit()
    terminate(alias)
    with pytest.raises(pillarbox.emit.IntegrityError, match="exists already"):
        emit()


def test_a_server_that_became_read_only_is_left(alias, connection):
    read_only = {"default": "SET default_transaction_read_only = on", "maria": "SET SESSION TRANSACTION READ ONLY"}
    with connection.cursor() as cursor:
        cursor.execute(read_only[alias])
    assert OutboxEvent.objects.get(pk=emit().pk).status == "pending"


def test_handlers_and_cleanup_go_on(handled, alias):
    emit()
    terminate(alias)
    assert pillarbox.process_pending_events() == {"processed": 1, "remaining": 0}
    terminate(alias)
    assert pillarbox.cleanup_delivered_events(retention_hours=0)["deleted"] == 1
    assert handled == ["1"]


def test_an_event_is_settled_when_the_connection_broke_during_its_handler(monkeypatch, caplog, alias):
    seen = []

    def handler(event):
        seen.append(event.aggregate_id)
        terminate(alias)

    monkeypatch.setattr(handlers, "_registered", [("order.*", handler)])
    emit("1")
    emit("2")
    with caplog.at_level(logging.WARNING):
        assert pillarbox.process_pending_events() == {"processed": 2, "remaining": 0}
    assert seen == ["1", "2"]
    assert {row.status for row in OutboxEvent.objects.all()} == {"delivered"}
    assert "pillarbox_lease_lost" not in caplog.text
