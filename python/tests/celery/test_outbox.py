"""OutboxCelery: rows that share the fate of the transaction, and nothing that touches a broker."""

from __future__ import annotations

import contextvars
import datetime
import logging
import socket
import threading
import uuid

import pytest
from celery import Celery, chain, chord, group
from celery.exceptions import Retry
from celery.result import AsyncResult
from celery.signals import after_task_publish, before_task_publish
from celery.utils.time import maybe_iso8601, maybe_make_aware
from django.core.exceptions import ImproperlyConfigured
from django.db import connections, transaction
from django.utils import timezone
from kombu import Queue

from pillarbox.celery import OutboxCelery
from pillarbox.celery.message import NotRecordable
from pillarbox.models import OutboxEvent
from pillarbox.signals import outbox_message_created
from tests.celery import plain
from tests.celery.conftest import CLOSED, add_tasks, make
from tests.outboxes import each_outbox, routers


def add(app, *args, **options):
    return app.tasks["shop.add"].apply_async(args or (1, 2), **options)


@pytest.fixture
def connected(monkeypatch):
    """Addresses that somebody tried to connect to."""
    tried = []
    for name in ("connect", "connect_ex"):

        def connect(self, address, name=name):
            tried.append(address)
            raise ConnectionRefusedError(address)

        monkeypatch.setattr(socket.socket, name, connect)
    return tried


@pytest.mark.parametrize("broker", [CLOSED, "redis://127.0.0.1:1/0", "sentinel://127.0.0.1:1/0"])
def test_no_connection_is_opened(db, connected, broker):
    app = OutboxCelery("shop", set_as_current=False, broker=broker)
    quorum = Queue("q", queue_arguments={"x-queue-type": "quorum"})
    app.conf.update(result_backend="cache+memory://", task_queues=[quorum, Queue("celery")], task_send_sent_event=True)
    add_tasks(app)
    task = app.tasks["shop.add"]
    add(app)
    add(app, countdown=10)
    add(app, eta=timezone.now() + datetime.timedelta(hours=1), queue="q", expires=7200)
    app.send_task("not.here")
    group(task.s(1, n) for n in range(3)).apply_async()
    chain(task.s(1, 2), task.s(3)).apply_async()
    chord([task.s(1, 2), task.s(3, 4)])(app.tasks["shop.total"].s())
    assert connected == []
    assert OutboxEvent.objects.count() == 10


def test_a_result_backend_is_not_asked(db, connected):
    app = make(OutboxCelery)
    app.conf.result_backend = "redis://127.0.0.1:1/0"
    result = add(app)
    assert isinstance(result, AsyncResult)
    assert result.backend is app.backend
    assert connected == []


@pytest.mark.django_db(transaction=True, databases="__all__")
@each_outbox
def test_a_rolled_back_task_never_existed(settings, alias):
    settings.DATABASE_ROUTERS = routers(alias)
    app = make(OutboxCelery)
    with pytest.raises(ZeroDivisionError), transaction.atomic(using=alias):
        add(app)
        assert OutboxEvent.objects.count() == 1
        raise ZeroDivisionError
    assert not OutboxEvent.objects.exists()
    with transaction.atomic(using=alias):
        result = add(app)
    row = OutboxEvent.objects.get()
    assert (row.aggregate_id, row.status, row.payload["celery"]) == (result.id, "pending", 1)
    assert row.payload["headers"]["id"] == result.id
    assert abs(timezone.now() - row.next_attempt_at) < datetime.timedelta(minutes=1)
    assert row._state.db == alias


@pytest.mark.django_db(transaction=True, databases="__all__")
def test_outside_of_the_outboxes_transaction_is_warned(settings, caplog):
    settings.DATABASE_ROUTERS = routers("lite")
    app = make(OutboxCelery)
    with transaction.atomic(using="lite"):
        add(app)
    assert "celery_outbox_not_in_transaction" not in caplog.text
    with transaction.atomic(using="default"):
        add(app, task_id="t7")
    (record,) = [record for record in caplog.records if "celery_outbox_not_in_transaction" in record.message]
    assert (record.levelno, record.task_name, record.task_id) == (logging.WARNING, "shop.add", "t7")
    assert OutboxEvent.objects.count() == 2


def test_answers_as_celery_does(outbox):
    result = add(outbox, task_id="t1")
    assert (type(result), result.id, result.ignored) == (outbox.AsyncResult, "t1", False)
    assert outbox.tasks["shop.total"].delay().ignored is True
    assert (
        outbox.send_task("not.here", result_cls=Celery("other", set_as_current=False).AsyncResult).app.main == "other"
    )
    assert len(group(outbox.tasks["shop.add"].s(1, n) for n in range(3)).apply_async().results) == 3
    assert chain(outbox.tasks["shop.add"].s(1, 2), outbox.tasks["shop.add"].s(3)).apply_async().parent is not None


def test_a_task_that_runs_is_the_parent(outbox, recorded):
    outbox.conf.task_inherit_parent_priority = True

    @outbox.task(name="shop.parent", bind=True, shared=False)
    def parent(self):
        outbox.tasks["shop.total"].apply_async(task_id="child")
        outbox.tasks["shop.total"].apply_async(task_id="stranger", add_to_parent=False)
        return [child.id for child in self.request.children]

    assert parent.apply(task_id="parent", priority=6).get() == ["child"]
    headers, properties = recorded()[0]["headers"], recorded()[0]["properties"]
    assert (headers["root_id"], headers["parent_id"], properties["priority"]) == ("parent", "parent", 6)


def test_retry_writes_another_row_of_the_same_task(outbox, recorded):
    @outbox.task(name="shop.flaky", bind=True, shared=False, default_retry_delay=5)
    def flaky(self, x):
        raise self.retry(exc=ValueError("again"))

    add(outbox, task_id="t1")
    for retries in (0, 1):
        flaky.push_request(
            id="t1",
            args=[1],
            kwargs={},
            retries=retries,
            called_directly=False,
            delivery_info={"exchange": "", "routing_key": "orders"},
        )
        try:
            with pytest.raises(Retry):
                flaky.run(1)
        finally:
            flaky.pop_request()
    rows = OutboxEvent.objects.order_by("seq")
    assert {row.aggregate_id for row in rows} == {"t1"}
    assert [row.payload["headers"]["retries"] for row in rows] == [0, 1, 2]
    assert rows[2].payload["headers"]["eta"] is not None
    assert len({row.idempotency_key for row in rows}) == 3


@pytest.mark.django_db(databases="__all__")
@each_outbox
def test_a_batch_is_one_statement_in_its_order_or_nothing(settings, alias, django_assert_num_queries):
    settings.DATABASE_ROUTERS = routers(alias)
    connection = connections[alias]
    app = make(OutboxCelery)
    task = app.tasks["shop.add"]
    with django_assert_num_queries(1, connection=connection), app.batch():
        for number in range(20):
            task.apply_async((number, 1), task_id=f"b{number}", countdown=number)
    with pytest.raises(ZeroDivisionError), app.batch():
        task.delay(1, 2)
        raise ZeroDivisionError
    with django_assert_num_queries(1, connection=connection):
        group(task.s(number, 1).set(task_id=f"g{number}") for number in range(20)).apply_async()
    rows = OutboxEvent.objects.order_by("seq")
    assert [row.aggregate_id for row in rows] == [f"{kind}{number}" for kind in "bg" for number in range(20)]
    assert all(row.idempotency_key == str(row.id) and row.aggregate_type == "celery" for row in rows)
    with app.batch():
        pass


@pytest.mark.django_db(transaction=True, databases="__all__")
@each_outbox
def test_what_is_undone_within_a_batch_never_existed(settings, alias, django_assert_num_queries):
    settings.DATABASE_ROUTERS = routers(alias)
    app = make(OutboxCelery)
    with app.batch(), pytest.raises(ZeroDivisionError), transaction.atomic(using=alias):
        add(app, task_id="gone")
        raise ZeroDivisionError
    with transaction.atomic(using=alias), app.batch():
        add(app, task_id="first")
        with pytest.raises(ZeroDivisionError), transaction.atomic(using=alias):
            add(app, task_id="gone too")
            raise ZeroDivisionError
        by_hand = transaction.savepoint(using=alias)
        with django_assert_num_queries(1, connection=connections[alias]):
            group(app.tasks["shop.add"].s(1, 2) for _ in range(5)).apply_async()
        transaction.savepoint_rollback(by_hand, using=alias)
        with transaction.atomic(using=alias):
            add(app, task_id="kept")
    assert {row.aggregate_id for row in OutboxEvent.objects.all()} == {"first", "kept"}


@pytest.mark.django_db(transaction=True)
def test_a_batch_takes_nothing_of_other_threads():
    app = make(OutboxCelery)

    def send():
        with pytest.raises(ZeroDivisionError), transaction.atomic():
            add(app)
            raise ZeroDivisionError
        connections.close_all()

    with transaction.atomic(), app.batch():
        # As sync_to_async does, with the context of the caller.
        thread = threading.Thread(target=contextvars.copy_context().run, args=[send])
        thread.start()
        thread.join()
    assert not OutboxEvent.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_transaction_that_django_does_not_manage():
    app = make(OutboxCelery)
    transaction.set_autocommit(False)
    try:
        add(app, task_id="gone")
        transaction.rollback()
        add(app, task_id="kept")
        transaction.commit()
    finally:
        transaction.rollback()
        transaction.set_autocommit(True)
    assert [row.aggregate_id for row in OutboxEvent.objects.all()] == ["kept"]


def test_excluded_tasks_go_to_the_broker(db, settings):
    settings.CELERY_OUTBOX_EXCLUDE_TASKS = {"shop.add"}
    app = make(OutboxCelery)
    app.conf.broker_transport = "tests.celery.plain:Transport"
    plain.forget()
    add(app, task_id="direct", countdown=3, headers={"a": 1})
    app.tasks["shop.total"].apply_async(task_id="recorded")
    group(app.tasks["shop.add"].s(1, 2), app.tasks["shop.total"].s()).apply_async()
    assert [message["headers"]["task"] for message in plain.published] == ["shop.add", "shop.add"]
    assert plain.published[0]["headers"]["a"] == 1
    assert [row.event_type for row in OutboxEvent.objects.order_by("seq")] == ["shop.total", "shop.total"]
    plain.forget()


def test_a_wrong_exclude_list_is_refused(outbox, settings):
    settings.CELERY_OUTBOX_EXCLUDE_TASKS = "shop.add"
    with pytest.raises(ImproperlyConfigured, match="must be a set, list or tuple"):
        add(outbox)


def test_receivers_of_celerys_signals_see_and_change_the_message(outbox, recorded):
    seen = []

    def before(sender, headers, properties, declare, **more):
        headers["added"] = "by receiver"
        properties["priority"] = 9

    def after(sender, headers, exchange, routing_key, **more):
        seen.append((sender, headers["id"], exchange, routing_key, OutboxEvent.objects.count()))

    before_task_publish.connect(before)
    after_task_publish.connect(after)
    try:
        add(outbox, task_id="t1")
    finally:
        before_task_publish.disconnect(before)
        after_task_publish.disconnect(after)
    (payload,) = recorded()
    assert (payload["headers"]["added"], payload["properties"]["priority"]) == ("by receiver", 9)
    assert seen == [("shop.add", "t1", "", "celery", 1)]


def test_created_is_told_in_the_transaction_and_its_error_reaches_the_caller(outbox):
    told = []

    def receiver(sender, task_id, task_name, **more):
        told.append((sender, task_id, task_name, OutboxEvent.objects.filter(aggregate_id=task_id).count()))
        if task_id == "bad":
            raise RuntimeError("no")

    outbox_message_created.connect(receiver)
    try:
        add(outbox, task_id="good")
        with pytest.raises(RuntimeError, match="no"), transaction.atomic():
            add(outbox, task_id="bad")
    finally:
        outbox_message_created.disconnect(receiver)
    assert told == [(OutboxCelery, "good", "shop.add", 1), (OutboxCelery, "bad", "shop.add", 1)]
    assert [row.aggregate_id for row in OutboxEvent.objects.all()] == ["good"]


def test_sent_events_for_monitors_are_no_rows(outbox):
    outbox.conf.task_send_sent_event = True
    add(outbox)
    assert OutboxEvent.objects.count() == 1


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"headers": {"x": object()}}, "object cannot be put into a message"),
        ({"headers": {"x": float("nan")}}, "cannot be recorded"),
        ({"headers": {"x": ["a\0"]}}, "headers.x of the task contains text"),
        ({"headers": {"x": {"y": "\ud800"}}}, "headers.x.y of the task contains text"),
        ({"headers": {"x": {("a", 1): 2}}}, "keys must be str"),
        ({"queue": "q\0"}, "routing_key of the task contains text"),
        ({"exchange": "x\ud800", "routing_key": "x"}, "exchange of the task contains text"),
    ],
)
def test_what_cannot_be_recorded_is_refused_and_the_transaction_stays_usable(outbox, options, complaint):
    with pytest.raises(NotRecordable, match=complaint):
        add(outbox, **options)
    add(outbox, headers={"x": "😀"})
    with pytest.raises(NotRecordable, match="300 characters, the limit is 255: x"):
        outbox.send_task("x" * 300)
    assert OutboxEvent.objects.count() == 1


def test_protocol_1_is_refused(db):
    app = make(OutboxCelery, task_protocol=1)
    with pytest.raises(Exception, match="remove task_protocol = 1"):
        add(app)


def test_an_id_may_be_given_as_a_uuid(outbox, recorded):
    given = uuid.uuid4()
    result = add(outbox, task_id=given)
    assert (result.id, recorded()[0]["headers"]["id"]) == (str(given), str(given))


def test_long_task_ids_are_kept_in_the_message(outbox):
    add(outbox, task_id="x" * 200)
    row = OutboxEvent.objects.get()
    assert (row.aggregate_id, row.payload["headers"]["id"]) == ("x" * 100, "x" * 200)


@pytest.mark.parametrize(
    "conf", [{}, {"timezone": "America/New_York"}, {"timezone": "Asia/Tokyo", "enable_utc": False}]
)
def test_moments_without_a_zone_are_what_a_worker_takes_them_for(db, recorded, conf):
    app = make(OutboxCelery, **conf)
    add(app, eta=datetime.datetime(2026, 7, 1, 12, 0), expires="2026-07-01T13:00:00")
    headers = recorded()[0]["headers"]
    for name, naive in {"eta": "2026-07-01T12:00:00", "expires": "2026-07-01T13:00:00"}.items():
        of_the_worker = maybe_make_aware(maybe_iso8601(naive), app.conf.timezone)  # as Celery's worker reads a message
        assert maybe_iso8601(headers[name]) == of_the_worker
        assert headers[name] == f"{naive}+00:00"


@pytest.mark.django_db(databases="__all__")
@each_outbox
def test_eta_tasks_can_wait_in_the_outbox(settings, alias):
    settings.DATABASE_ROUTERS = routers(alias)
    settings.PILLARBOX_HOLD_ETA_SECONDS = 60
    app = make(OutboxCelery)
    eta = timezone.now().replace(microsecond=0) + datetime.timedelta(hours=1)
    add(app, eta=eta, task_id="held")
    add(app, eta=timezone.now() + datetime.timedelta(seconds=30), task_id="near")
    due = {row.aggregate_id: row.next_attempt_at for row in OutboxEvent.objects.all()}
    assert due["held"] == eta - datetime.timedelta(seconds=60)
    assert abs(due["near"] - timezone.now()) < datetime.timedelta(seconds=20)


@pytest.fixture
def idle_relay(transactional_db):
    """A relay that has said that it is idle; answers how often it was woken."""
    with connections["default"].cursor() as cursor:
        cursor.execute("SELECT setval('outbox_idle_until', extract(epoch FROM clock_timestamp())::bigint + 60)")
    listener = connections.create_connection("default")
    with listener.cursor() as cursor:
        cursor.execute("LISTEN outbox_wake")

    def woken() -> int:
        # What was committed before this statement is told with its answer.
        with listener.cursor() as cursor:
            cursor.execute("SELECT 1")
        return len(list(listener.connection.notifies(timeout=0)))

    yield woken
    listener.close()
    with connections["default"].cursor() as cursor:
        cursor.execute("SELECT setval('outbox_idle_until', 0)")


def test_an_idle_relay_is_woken_when_the_transaction_commits(idle_relay):
    app = make(OutboxCelery)
    for _ in range(2):
        with transaction.atomic():
            add(app)
            add(app)
            assert idle_relay() == 0
        assert idle_relay() == 1
    add(app)
    assert idle_relay() == 1
    add(app)
    assert idle_relay() == 1


def test_a_wake_up_that_is_rolled_back_is_asked_for_again(idle_relay):
    app = make(OutboxCelery)
    with transaction.atomic():
        with pytest.raises(ZeroDivisionError), transaction.atomic():
            add(app)
            raise ZeroDivisionError
        add(app)
    assert idle_relay() == 1
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        add(app)
        raise ZeroDivisionError
    with transaction.atomic():
        add(app)
    assert idle_relay() == 1
