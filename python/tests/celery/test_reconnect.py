"""Tasks are recorded on a new connection when the server has closed the old one; so Celery Beat needs no restart."""

from __future__ import annotations

import json

import pytest
from celery import group
from django.db import OperationalError, connections

from pillarbox import report
from pillarbox.celery import OutboxCelery
from pillarbox.models import OutboxEvent
from pillarbox.signals import outbox_message_sent
from tests import processes, servers
from tests.celery.conftest import make
from tests.outboxes import SERVERS, database, routers
from tests.parts.shop import wait_until
from tests.terminated import terminate, terminate_all


@pytest.fixture(params=SERVERS, ids=SERVERS.values())
def alias(request, settings) -> str:
    """The database that has the outbox."""
    settings.DATABASE_ROUTERS = routers(request.param)
    return request.param


def one(app, task_id):
    app.tasks["shop.add"].apply_async((1, 2), task_id=task_id)


def batch(app, task_id):
    with app.batch():
        one(app, task_id)
        one(app, f"{task_id}b")


def members(app, task_id):
    group(app.tasks["shop.add"].s(1, 2).set(task_id=name) for name in (task_id, f"{task_id}b")).apply_async()


@pytest.mark.django_db(transaction=True, databases="__all__")
@pytest.mark.parametrize("send", [one, batch, members])
def test_a_task_is_recorded_on_a_new_connection(send, alias):
    app = make(OutboxCelery)
    for task_id in ("t1", "t2"):
        terminate(alias)
        send(app, task_id)
        assert OutboxEvent.objects.filter(aggregate_id=task_id).count() == 1


@pytest.mark.django_db(transaction=True, databases="__all__")
@pytest.mark.parametrize("send", [one, batch])
def test_a_task_that_was_recorded_before_the_connection_broke_is_not_recorded_twice(send, alias):
    app, connection, lost = make(OutboxCelery), connections[alias], []

    def lose_the_answer(execute, *statement):
        answer = execute(*statement)
        if not lost and "INSERT INTO outbox_event" in statement[0]:
            lost.append(statement)
            terminate(alias)
            raise OperationalError("the connection was lost")
        return answer

    connection.ensure_connection()
    with connection.execute_wrapper(lose_the_answer):
        send(app, "t1")
    assert lost
    assert OutboxEvent.objects.filter(aggregate_id="t1").count() == 1


@pytest.mark.django_db(transaction=True, databases="__all__")
def test_receivers_of_the_relays_signals_get_a_new_connection(monkeypatch, caplog, alias):
    connection = connections[alias]
    monkeypatch.setattr(report, "_UPKEEP_SECONDS", 0)
    monkeypatch.setitem(connection.settings_dict, "CONN_MAX_AGE", None)
    connection.close()
    counted = []

    def count(sender, task_id, **more):
        counted.append((task_id, OutboxEvent.objects.count()))

    def lines():
        for task_id in ("t1", "t2"):
            terminate(alias)
            yield json.dumps(
                {"outcome": "sent", "aggregate_type": "celery", "aggregate_id": task_id, "event_type": "t"}
            )

    outbox_message_sent.connect(count)
    try:
        report.listen(lines())
    finally:
        outbox_message_sent.disconnect(count)
    assert counted == [("t1", 0), ("t2", 0)]
    assert "celery_outbox_signal_error" not in caplog.text


@pytest.mark.parametrize(("server", "checks"), [("postgres", False), ("postgres", True), ("mariadb", False)])
def test_beat_goes_on_after_its_connection_was_terminated(tmp_path, server, checks):
    address = servers.create_database(server)
    settings = {**database(address), "CONN_MAX_AGE": None, "CONN_HEALTH_CHECKS": checks}
    environment = processes.environment(
        DJANGO_SETTINGS_MODULE="tests.celery.project.settings",
        PROJECT_DATABASE=json.dumps(settings),
        PROJECT_BROKER=servers.broker("rabbitmq"),
        PROJECT_PROGRAM="pillarbox",
        PROJECT_TICK_SECONDS="0.05",
    )
    running = processes.Processes(tmp_path)
    running.start("migrate", [processes.python(processes.NEWEST), "-m", "django", "migrate"], environment).wait()
    running.check()
    beat = [processes.python(processes.NEWEST, "celery"), "-A", "tests.celery.project.celery", "beat", "-s", "schedule"]
    running.start("beat", beat, environment)

    def ticks() -> int:
        with servers.connect(address) as outside, outside.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM outbox_event WHERE event_type = 'tick'")
            return cursor.fetchone()[0]

    def wait_for_ticks() -> None:
        before = ticks()
        wait_until("beat has ticked three times", lambda: ticks() >= before + 3, running)

    try:
        wait_for_ticks()
        for _ in range(2):
            terminate_all(address)
            wait_for_ticks()
    finally:
        running.stop()
    assert "Message Error" not in running.log("beat")
    assert running.log("beat").count("pillarbox_connection_lost") == 2
