"""Emit: what stands in the table, and what is refused before it."""

from __future__ import annotations

import base64
import datetime
import decimal
import logging
import uuid

import pytest
from django.db import IntegrityError, connections, transaction
from django.utils import timezone

import pillarbox
from pillarbox import emit
from pillarbox.models import OutboxEvent
from tests.django.program import REPOSITORY


def stored(event: OutboxEvent) -> OutboxEvent:
    return OutboxEvent.objects.using(event._state.db).get(pk=event.pk)


def test_the_answer_is_the_pending_row(alias):
    event = pillarbox.emit_event(
        "Order", 42, "order.placed", {"total": 7}, headers={"tenant": "acme"}, max_attempts=9, using=alias
    )
    assert event.status == OutboxEvent.Status.PENDING
    assert event.idempotency_key == "Order:42"
    row = stored(event)
    for field in OutboxEvent._meta.fields:
        assert getattr(event, field.name) == getattr(row, field.name), field.name
    assert row.seq > 0
    assert row.id.version == 7
    assert abs(timezone.now() - row.next_attempt_at) < datetime.timedelta(minutes=1)


def test_djangos_encoder_writes_the_payload_and_none_is_empty(alias):
    some_id, moment = uuid.uuid4(), datetime.datetime(2026, 2, 25, 12, 34, 56, tzinfo=datetime.timezone.utc)
    payload = {"id": some_id, "at": moment, "price": decimal.Decimal("19.90"), "text": "grün 😀"}
    event = pillarbox.emit_event("Order", "1", "order.placed", payload, using=alias)
    assert stored(event).payload == {
        "id": str(some_id),
        "at": "2026-02-25T12:34:56Z",
        "price": "19.90",
        "text": "grün 😀",
    }
    assert stored(pillarbox.emit_event("Order", "2", "order.placed", None, using=alias)).payload == {}


def test_json_text_is_written_as_it_stands(alias):
    row = emit.Row("Order", "1", "order.placed", emit.JsonText('{"total": 1, "body": "[[], {}]"}'), own_key=True)
    (event,) = emit.write([row], using=alias)
    assert stored(event).payload == event.payload == {"total": 1, "body": "[[], {}]"}
    assert event.idempotency_key == str(event.id)


def test_a_duplicate_raises_and_leaves_the_transaction_usable(alias):
    with transaction.atomic(using=alias):
        pillarbox.emit_event("Order", "1", "order.placed", {}, using=alias)
        with pytest.raises(IntegrityError, match='"order.placed" with the idempotency key "Order:1" exists already'):
            pillarbox.emit_event("Order", "1", "order.placed", {}, using=alias)
        pillarbox.emit_event("Order", "1", "order.paid", {}, using=alias)
        pillarbox.emit_event("Order", "1", "order.placed", {}, idempotency_key="again", using=alias)
        pillarbox.emit_event("Order", "1", "order.placed", {}, repeatable=True, using=alias)
        pillarbox.emit_event("Order", "1", "order.placed", {}, repeatable=True, using=alias)
    assert OutboxEvent.objects.using(alias).count() == 5


def test_a_rolled_back_event_never_existed(alias):
    with pytest.raises(RuntimeError), transaction.atomic(using=alias):
        pillarbox.emit_event("Order", "1", "order.placed", {}, using=alias)
        raise RuntimeError
    assert not OutboxEvent.objects.using(alias).exists()


def test_many_are_written_in_their_order_all_or_none(alias):
    rows = [{"aggregate_type": "Order", "aggregate_id": n, "event_type": "order.placed"} for n in (3, 1, 2)]
    events = pillarbox.emit_events(rows, using=alias)
    assert [event.aggregate_id for event in OutboxEvent.objects.using(alias).order_by("seq")] == ["3", "1", "2"]
    assert [event.aggregate_id for event in sorted(events, key=lambda event: event.seq)] == ["3", "1", "2"]
    assert len({event.created_at for event in events}) == 1
    with pytest.raises(IntegrityError, match="Order:2"):
        pillarbox.emit_events([{**rows[0], "aggregate_id": 4}, rows[2]], using=alias)
    assert OutboxEvent.objects.using(alias).count() == 3
    assert pillarbox.emit_events([], using=alias) == []


def test_a_delayed_event_waits(alias):
    later = timezone.now() + datetime.timedelta(hours=1)
    event = pillarbox.emit_event("Order", "1", "order.placed", {}, deliver_at=later, using=alias)
    assert abs(stored(event).next_attempt_at - later) < datetime.timedelta(milliseconds=1)


def test_what_should_have_been_delivered_is_due_now(alias):
    past = timezone.now() - datetime.timedelta(hours=1)
    row = {"aggregate_type": "Order", "event_type": "order.placed", "deliver_at": past}
    one = pillarbox.emit_event("Order", "1", "order.placed", {}, deliver_at=past, using=alias)
    more = [{**row, "aggregate_id": "2"}, {**row, "aggregate_id": "3"}]
    for event in (one, *pillarbox.emit_events(more, using=alias)):
        assert event.next_attempt_at == stored(event).next_attempt_at == event.created_at


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"aggregate_type": ""}, "aggregate_type is empty"),
        ({"aggregate_id": None}, "aggregate_id is None; give text"),
        ({"event_type": 7}, "event_type is a int; give text"),
        ({"aggregate_id": "x" * 101}, "aggregate_id has 101 characters, the limit is 100"),
        ({"event_type": "x" * 256}, "event_type has 256 characters, the limit is 255"),
        ({"event_type": "a\0b"}, "event_type contains a NUL"),
        ({"idempotency_key": ""}, "idempotency_key is empty"),
        ({"payload": {"a": ["\0"]}}, "payload contains a NUL"),
        ({"payload": "\ud800"}, "half of a surrogate pair"),
        ({"payload": float("nan")}, "cannot be written as JSON"),
        ({"payload": object()}, "cannot be written as JSON"),
        ({"payload": "x" * 2**20}, "has 1048578 bytes of JSON, the limit is 1048576"),
        ({"headers": ["a"]}, "headers is a list; give a dict"),
        ({"max_attempts": -1}, "max_attempts is -1"),
    ],
)
def test_what_cannot_be_stored_is_refused_and_the_transaction_stays_usable(alias, fields, complaint):
    event = {"aggregate_type": "Order", "aggregate_id": "1", "event_type": "order.placed", "payload": {}, **fields}
    with transaction.atomic(using=alias):
        with pytest.raises(pillarbox.InvalidEvent, match=complaint):
            pillarbox.emit_event(**event, using=alias)
        pillarbox.emit_event("Order", "1", "order.placed", {"fine": "\\u0000"}, using=alias)
    assert OutboxEvent.objects.using(alias).get().payload == {"fine": "\\u0000"}


@pytest.mark.django_db(transaction=True, databases="__all__")
def test_outside_of_a_transaction_is_warned(alias, caplog):
    with transaction.atomic(using=alias):
        pillarbox.emit_event("Order", "1", "order.placed", using=alias)
    assert "pillarbox_event_not_in_transaction" not in caplog.text
    with transaction.atomic(using="lite" if alias == "default" else "default"):
        event = pillarbox.emit_event("Order", "2", "order.placed", using=alias)
    (record,) = [record for record in caplog.records if "pillarbox_event_not_in_transaction" in record.message]
    assert (record.levelno, record.event_type, record.event_id) == (logging.WARNING, "order.placed", str(event.pk))
    rows = [{"aggregate_type": "Order", "aggregate_id": n, "event_type": "order.paid"} for n in (3, 1, 2)]
    pillarbox.emit_events(rows, using=alias)
    assert caplog.records[-1].events == 3


MESSAGE = {
    "celery": 1,
    "body": "[[], {}, {}]",
    "headers": {"task": "orders.steal", "id": "t1"},
    "exchange": "celery.pidbox",
}


def test_the_type_of_recorded_tasks_is_refused(alias):
    fields = {"aggregate_type": "celery", "aggregate_id": "t1", "event_type": "orders.steal", "payload": MESSAGE}
    with transaction.atomic(using=alias):
        for emit_it in (
            lambda: pillarbox.emit_event(**fields, using=alias),
            lambda: pillarbox.emit_events([{**fields, "aggregate_type": "Order"}, fields], using=alias),
            lambda: emit.write([emit.Row(**fields)], using=alias),
        ):
            with pytest.raises(pillarbox.InvalidEvent, match='aggregate_type "celery" is reserved for tasks'):
                emit_it()
        # Of any other type it is an event like others, which no relay takes for a task.
        event = pillarbox.emit_event(**{**fields, "aggregate_type": "Celery"}, using=alias)
    assert OutboxEvent.objects.using(alias).get().pk == event.pk


def test_a_role_that_may_only_emit_is_enough(db):
    grants = (REPOSITORY / "crates" / "pillarbox" / "sql" / "postgres" / "grants_emit.sql").read_text()
    with connections["default"].cursor() as cursor:
        cursor.execute("CREATE ROLE pillarbox_test_emitter")
        cursor.execute(grants.replace("{schema}", "public").replace("{role}", "pillarbox_test_emitter"))
        cursor.execute("SET LOCAL ROLE pillarbox_test_emitter")
        event = pillarbox.emit_event("Order", "1", "order.placed", {})
        with pytest.raises(IntegrityError, match="exists already"):
            pillarbox.emit_event("Order", "1", "order.placed", {})
        cursor.execute("RESET ROLE")
    assert stored(event).status == "pending"


def test_without_a_database_the_router_chooses(db):
    assert pillarbox.emit_event("Order", "1", "order.placed", {})._state.db == "default"


@pytest.mark.django_db(transaction=True, databases=["default"])
def test_an_idle_relay_is_woken_when_the_transaction_commits():
    import psycopg

    connection = connections["default"]
    with connection.cursor() as cursor:
        cursor.execute("SELECT setval('outbox_idle_until', extract(epoch FROM clock_timestamp())::bigint + 60)")
    address = connection.get_connection_params()
    keys = ("dbname", "user", "password", "host", "port")
    with psycopg.connect(**{key: address[key] for key in keys if key in address}, autocommit=True) as listener:
        listener.execute("LISTEN outbox_wake")
        with transaction.atomic():
            pillarbox.emit_event("Order", "1", "order.placed", {})
            assert list(listener.notifies(timeout=0)) == []
        assert [note.channel for note in listener.notifies(timeout=10, stop_after=1)] == ["outbox_wake"]
    with connection.cursor() as cursor:
        cursor.execute("SELECT setval('outbox_idle_until', 0)")


@pytest.mark.parametrize("zone", [None, datetime.timezone.utc])
def test_a_moment_that_is_too_far_ahead_is_refused_and_any_past_is_now(alias, zone):
    for moment in (datetime.datetime.max, timezone.now() + datetime.timedelta(days=36_600)):
        with pytest.raises(emit.InvalidEvent, match="the limit is 100 years from now"):
            pillarbox.emit_event("Order", "1", "t", deliver_at=moment.replace(tzinfo=zone), using=alias)
    past = datetime.datetime.min.replace(tzinfo=zone)
    event = pillarbox.emit_event("Order", "1", "t", deliver_at=past, using=alias)
    assert stored(event).next_attempt_at == event.next_attempt_at == event.created_at


BYTES = b"\x08\x2a\x00\xff\r\n"


def test_bytes_are_stored_as_base64_with_their_content_type(alias):
    for payload in (BYTES, bytearray(BYTES), memoryview(BYTES), b""):
        event = pillarbox.emit_event(
            "Order",
            "1",
            "order.placed",
            payload_bytes=payload,
            content_type="application/x-protobuf",
            headers={"tenant": "acme"},
            repeatable=True,
            using=alias,
        )
        row = stored(event)
        assert row.headers == {"tenant": "acme", "pillarbox-content-type": "application/x-protobuf"}
        for one in (event, row):
            assert (one.is_opaque, one.content_type) == (True, "application/x-protobuf")
            assert one.payload_bytes == bytes(payload)
    assert stored(pillarbox.emit_event("Order", "1", "order.paid", using=alias)).payload_bytes == b"{}"


def test_lines_of_base64_are_read(alias):
    lines = base64.encodebytes(BYTES * 40).decode()
    event = OutboxEvent(payload=lines, headers={"pillarbox-content-type": "a/b"})
    assert "\n" in lines.strip()
    assert event.payload_bytes == BYTES * 40


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"payload_bytes": b"x"}, "together"),
        ({"content_type": "a/b"}, "together"),
        ({"payload_bytes": b"x", "content_type": "a/b", "payload": {}}, "both payload and payload_bytes"),
        ({"payload_bytes": "text", "content_type": "a/b"}, "payload_bytes is a str; give bytes"),
        ({"payload_bytes": b"x", "content_type": "protobuf"}, "which is no content type"),
        ({"payload_bytes": b"x", "content_type": "a/b\r\nhost: c"}, "which is no content type"),
        ({"payload_bytes": b"x" * 800_000, "content_type": "a/b"}, "bytes of JSON, the limit is 1048576"),
        ({"payload": {}, "headers": {"pillarbox-content-type": "a/b"}}, "not base64 in a JSON string"),
        ({"payload": "C-_=", "headers": {"pillarbox-content-type": "a/b"}}, "not base64 in a JSON string"),
    ],
)
def test_bytes_that_could_never_be_sent_are_refused(alias, fields, complaint):
    with transaction.atomic(using=alias):
        with pytest.raises(emit.InvalidEvent, match=complaint):
            pillarbox.emit_event("Order", "1", "order.placed", using=alias, **fields)
        pillarbox.emit_event("Order", "1", "order.placed", using=alias)
