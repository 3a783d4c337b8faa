"""`self.retry()` and `self.replace()` inside a transaction: what takes the task's place outlives the rollback, once."""

from __future__ import annotations

import json
import uuid

import pytest
from celery import Task, chain, group
from celery.app.trace import build_tracer
from django.db import DatabaseError, IntegrityError, connections, transaction

import pillarbox
from pillarbox.celery import OutboxCelery
from pillarbox.models import OutboxEvent
from pillarbox.signals import outbox_message_created
from tests import processes, servers
from tests.celery.conftest import make
from tests.celery.test_relay_command import environment
from tests.outboxes import ALIASES, each_outbox, routers
from tests.parts.shop import wait_until

pytestmark = pytest.mark.django_db(transaction=True, databases="__all__")


@pytest.fixture(params=ALIASES, ids=ALIASES.values())
def alias(request, settings):
    """The database that has the outbox."""
    settings.DATABASE_ROUTERS = routers(request.param)
    return request.param


@pytest.fixture
def app(alias):
    return make(OutboxCelery)


def run(app, body, *, base=None, retries=0, **options):
    """Runs a function as the task `shop.t` with Celery's own tracer, as a worker does; answers the state."""
    task = app.task(name="shop.t", bind=True, shared=False, base=base, **options)(body)
    return trace(app, task, retries)


def trace(app, task, retries=0):
    delivery = {"exchange": "", "routing_key": "celery", "redelivered": False}
    request = {"id": "t1", "root_id": "t1", "retries": retries, "delivery_info": delivery, "is_eager": False}
    outcome = build_tracer(task.name, task, app=app)("t1", [], {}, request)
    return outcome.info.state if outcome.info is not None else "SUCCESS"


def tasks():
    return [row.event_type for row in OutboxEvent.objects.filter(aggregate_type="celery").order_by("seq")]


def events():
    return [row.event_type for row in OutboxEvent.objects.exclude(aggregate_type="celery").order_by("seq")]


def test_a_retry_survives_the_rollback(app, alias):
    def body(self):
        with transaction.atomic(using=alias):
            pillarbox.emit_event("Order", 1, "order.placed")
            raise self.retry(countdown=5)

    assert run(app, body) == "RETRY"
    assert (tasks(), events()) == (["shop.t"], [])
    headers = OutboxEvent.objects.get().payload["headers"]
    assert (headers["id"], headers["retries"], headers["eta"] is not None) == ("t1", 1, True)


@pytest.mark.parametrize("how", ["task", "chain", "group"])
def test_a_replacement_survives_the_rollback(app, alias, how):
    def body(self):
        add = app.tasks["shop.add"]
        instead = {"task": add.s(1, 2), "chain": chain(add.s(1, 2), add.s(3)), "group": group(add.s(1, 2), add.s(3, 4))}
        with transaction.atomic(using=alias):
            pillarbox.emit_event("Order", 1, "order.placed")
            return self.replace(instead[how])

    assert run(app, body) == "IGNORED"
    assert (tasks(), events()) == (["shop.add"] * (2 if how == "group" else 1), [])


def test_a_retry_is_recorded_once_whatever_becomes_of_the_transaction(app, alias):
    def committed(self):
        with transaction.atomic(using=alias):
            pillarbox.emit_event("Order", 1, "order.placed")
            self.retry(throw=False)

    assert run(app, committed) == "SUCCESS"
    assert (tasks(), events()) == (["shop.t"], ["order.placed"])


def test_a_retry_without_throw_is_raised_by_hand(app, alias):
    def by_hand(self):
        with transaction.atomic(using=alias), transaction.atomic(using=alias):
            raise self.retry(throw=False)

    assert run(app, by_hand) == "RETRY"
    assert tasks() == ["shop.t"]


def test_a_retry_because_of_an_error_of_the_database(app, alias):
    def body(self):
        with transaction.atomic(using=alias):
            pillarbox.emit_event("Order", 1, "order.placed")
            OutboxEvent.objects.create(event_type="x", idempotency_key="x", aggregate_type="x", aggregate_id="x")
            try:
                OutboxEvent.objects.create(event_type="x", idempotency_key="x", aggregate_type="x", aggregate_id="x")
            except IntegrityError as error:
                raise self.retry(exc=error) from error

    assert run(app, body) == "RETRY"
    assert (tasks(), events()) == (["shop.t"], [])


def test_autoretry_and_a_base_class_with_a_transaction(app, alias):
    class AtomicTask(Task):
        abstract = True

        def __call__(self, *args, **kwargs):
            with transaction.atomic(using=alias):
                pillarbox.emit_event("Order", 1, "order.placed")
                return self.run(*args, **kwargs)

    def body(self):
        raise LookupError

    assert run(app, body, base=AtomicTask, autoretry_for=(LookupError,)) == "RETRY"
    assert (tasks(), events()) == (["shop.t"], [])


def test_a_task_that_is_a_class(app, alias):
    class Flaky(Task):
        name = "shop.flaky"

        def run(self):
            with transaction.atomic(using=alias):
                raise self.retry()

    assert trace(app, app.register_task(Flaky())) == "RETRY"
    assert tasks() == ["shop.flaky"]


def test_a_retry_inside_of_a_batch(app, alias):
    def body(self):
        with transaction.atomic(using=alias), app.batch():
            app.tasks["shop.add"].delay(1, 2)
            raise self.retry()

    assert run(app, body) == "RETRY"
    assert tasks() == ["shop.t"]


def test_other_tasks_of_a_rolled_back_transaction_never_existed(app, alias):
    told = []

    def body(self):
        with transaction.atomic(using=alias):
            app.tasks["shop.add"].delay(1, 2)
            self.retry()

    def receiver(sender, task_name, **more):
        told.append((task_name, connections[alias].in_atomic_block))

    outbox_message_created.connect(receiver)
    try:
        assert run(app, body) == "RETRY"
    finally:
        outbox_message_created.disconnect(receiver)
    assert tasks() == ["shop.t"]
    assert told == [("shop.add", True), ("shop.t", False)]


def test_no_more_retries_means_no_row(app, alias):
    def body(self):
        with transaction.atomic(using=alias):
            raise self.retry(exc=LookupError())

    assert run(app, body, max_retries=2, retries=2) == "FAILURE"
    assert tasks() == []


def test_a_retry_that_cannot_be_recorded_fails_the_task(app, alias):
    def body(self):
        with transaction.atomic(using=alias):
            raise self.retry()

    def refuse(execute, sql, *more):
        if "INSERT INTO outbox_event" in sql:
            raise DatabaseError("the disk is full")
        return execute(sql, *more)

    with connections[alias].execute_wrapper(refuse):
        assert run(app, body) == "FAILURE"
    assert run(app, body) == "RETRY"


def test_a_task_that_is_called_as_a_function_sends_nothing(app, alias):
    @app.task(name="shop.direct", bind=True, shared=False)
    def direct(self):
        with transaction.atomic(using=alias):
            raise self.retry(exc=LookupError())

    with pytest.raises(LookupError):
        direct()
    assert direct.apply(retries=3).state == "FAILURE"
    assert tasks() == []


def test_a_task_that_is_run_in_the_place_of_another_sends_in_the_transaction(app, alias):
    @app.task(name="shop.inner", shared=False)
    def inner():
        app.tasks["shop.add"].delay(1, 2)
        return tasks()

    @app.task(name="shop.outer", bind=True, shared=False)
    def outer(self):
        return self.replace(inner.si())

    with transaction.atomic(using=alias):
        assert outer.apply().get() == ["shop.add"]


@each_outbox
def test_a_worker_retries_and_replaces_inside_of_transactions(alias, tmp_path):
    """All parts are real: a worker of the project, RabbitMQ, and a relay between them."""
    shared = environment(alias, PROJECT_BROKER=servers.broker("rabbitmq"), PROJECT_QUEUE=f"leaving-{uuid.uuid4().hex}")
    running, odd = processes.Processes(tmp_path), ascii("in\0stead\ud800")
    send = ["-c", "from tests.celery.project.tasks import again; again.delay(2)"]
    running.start("relay", [processes.python(processes.NEWEST), "-m", "django", "pillarbox_relay"], shared)
    worker = processes.worker(processes.NEWEST, "tests.celery.project.tasks", f"leaving-{uuid.uuid4().hex}")
    running.start("worker", worker, {**shared, "C_FORCE_ROOT": "1"})
    running.start("send", [processes.python(processes.NEWEST), *send], shared)

    def ran():
        rows = OutboxEvent.objects.using(alias).filter(event_type="ran").order_by("seq")
        return [row.aggregate_id for row in rows]

    try:
        wait_until("the replacement has run", lambda: odd in ran(), running)
    finally:
        running.stop()
    assert ran() == [odd]
    recorded = OutboxEvent.objects.using(alias).filter(aggregate_type="celery").order_by("seq")
    assert [(row.event_type, row.payload["headers"]["retries"]) for row in recorded] == [
        ("again", 0),
        ("again", 1),
        ("again", 2),
        ("instead", 0),
    ]
    assert json.loads(recorded[3].payload["body"])[0] == ["in\0stead\ud800"]
    assert recorded[3].payload["headers"]["argsrepr"] == "('in\\0stead\\ud800',)"
