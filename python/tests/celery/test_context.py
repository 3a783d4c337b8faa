"""What a worker learns of its caller: structlog's context, Sentry's trace; and what metrics are told."""

from __future__ import annotations

import datetime
import socket

import pytest
import sentry_sdk
import structlog
from django.db import transaction
from sentry_sdk.integrations.celery import CeleryIntegration
from sentry_sdk.transport import Transport

from pillarbox import metrics
from pillarbox.celery import OutboxCelery, context
from tests.celery.conftest import make


def add(app, **options):
    return app.tasks["shop.add"].apply_async((1, 2), **options)


@pytest.fixture
def log_context():
    moment = datetime.date(2026, 2, 25)
    with structlog.contextvars.bound_contextvars(request_id="r1", user=7, day=moment):
        yield


def test_structlogs_context_travels(outbox, recorded, log_context):
    add(outbox)
    headers = recorded()[0]["headers"]
    assert headers["__django_structlog__"] == {"request_id": "r1", "user": 7, "day": "2026-02-25"}


def test_structlogs_keys_can_be_chosen(outbox, recorded, log_context, settings):
    settings.CELERY_OUTBOX_STRUCTLOG_CONTEXT_KEYS = ["request_id", "absent"]
    add(outbox)
    settings.CELERY_OUTBOX_STRUCTLOG_ENABLED = False
    add(outbox)
    given = {"__django_structlog__": {"mine": 1}}
    settings.CELERY_OUTBOX_STRUCTLOG_ENABLED = True
    add(outbox, headers=given)
    chosen, none, mine = (payload["headers"].get("__django_structlog__") for payload in recorded())
    assert (chosen, none, mine) == ({"request_id": "r1"}, None, {"mine": 1})
    assert given == {"__django_structlog__": {"mine": 1}}


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("/a\0b", "/a\\0b"),
        (["\ud800", {"k\0": "😀"}], ["\\ud800", {"k\\0": "😀"}]),
        (float("nan"), "nan"),
        ({("a", 1): 2}, "{('a', 1): 2}"),
    ],
)
def test_a_log_context_that_cannot_be_stored_fails_nobody(outbox, recorded, value, shown):
    with structlog.contextvars.bound_contextvars(path=value):
        add(outbox)
    assert recorded()[0]["headers"]["__django_structlog__"] == {"path": shown}


def test_without_a_context_there_is_no_header(outbox, recorded, monkeypatch):
    add(outbox)
    monkeypatch.setattr(context, "structlog", None)
    add(outbox)
    assert all("__django_structlog__" not in payload["headers"] for payload in recorded())


@pytest.mark.django_db(transaction=True)
def test_structlog_warns_where_it_is_set_up():
    app = make(OutboxCelery)
    with structlog.testing.capture_logs() as logs:
        structlog.configure(processors=structlog.get_config()["processors"])
        add(app, task_id="t1")
    structlog.reset_defaults()
    event = {
        "event": "celery_outbox_not_in_transaction",
        "task_name": "shop.add",
        "task_id": "t1",
        "log_level": "warning",
    }
    assert logs == [event]


class Nowhere(Transport):
    """Sentry without its server."""

    def capture_envelope(self, envelope):
        pass


@pytest.fixture
def sentry(request):
    options = getattr(request, "param", {})
    sentry_sdk.init(dsn="http://key@127.0.0.1:1/1", transport=Nowhere, traces_sample_rate=1.0, **options)
    yield
    sentry_sdk.get_client().close()
    sentry_sdk.get_global_scope().set_client(None)


ALONE = {"auto_enabling_integrations": False}
SENTRYS = {"integrations": [CeleryIntegration()]}
SILENT = {"integrations": [CeleryIntegration(propagate_traces=False)]}


@pytest.mark.parametrize("sentry", [ALONE, SENTRYS], indirect=True, ids=["alone", "with Sentry's integration"])
@pytest.mark.parametrize("by_name", [False, True], ids=["task", "by name"])
def test_a_worker_continues_the_trace(outbox, recorded, sentry, by_name):
    with sentry_sdk.start_transaction(name="request") as request:
        headers = {"tenant": "acme", "headers": {"inner": 1}}
        if by_name:
            outbox.send_task("shop.add", (1, 2), headers=headers)
        else:
            add(outbox, headers=headers)
    headers = recorded()[0]["headers"]
    for place in (headers, headers["headers"]):
        assert place["sentry-trace"].startswith(f"{request.trace_id}-")
        assert request.trace_id in place["baggage"]
    assert (headers["tenant"], headers["headers"]["inner"]) == ("acme", 1)
    continued = sentry_sdk.continue_trace(headers["headers"], name="worker")
    assert continued.trace_id == request.trace_id


@pytest.mark.parametrize("sentry", [SILENT], indirect=True)
def test_a_trace_that_must_not_travel_does_not(outbox, recorded, sentry):
    with sentry_sdk.start_transaction(name="request"):
        add(outbox)
    assert "sentry-trace" not in recorded()[0]["headers"]


def test_without_sentry_there_is_no_trace(outbox, recorded, monkeypatch):
    add(outbox)
    monkeypatch.setattr(context, "sentry_sdk", None)
    add(outbox)
    assert all("sentry-trace" not in payload["headers"] for payload in recorded())


@pytest.fixture
def agent(settings):
    """A DogStatsD agent: what it was sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(10)
        settings.MONITORING_STATSD_HOST, settings.MONITORING_STATSD_PORT = server.getsockname()
        settings.MONITORING_STATSD_TAGS = {"service": "shop"}
        yield server


@pytest.mark.django_db(transaction=True)
def test_tasks_are_counted_when_they_are_committed(agent, settings):
    app = make(OutboxCelery)
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        app.send_task("rolled.back")
        raise ZeroDivisionError
    with transaction.atomic():
        add(app)
        settings.CELERY_OUTBOX_MONITORED_TASKS = ["shop.total"]
        add(app)
        settings.MONITORING_METRICS_ENABLED = False
        add(app)
        settings.MONITORING_METRICS_ENABLED = True
    settings.CELERY_OUTBOX_DISABLE_TASK_NAME_TAGS = True
    settings.MONITORING_STATSD_PREFIX = "mine"
    with transaction.atomic():
        add(app)
    assert [agent.recv(1000).decode() for _ in range(3)] == [
        "celery_outbox.messages.enqueued:1|c|#service:shop,task_name:shop.add",
        "celery_outbox.messages.enqueued:1|c|#service:shop,task_name:other",
        "mine.messages.enqueued:1|c|#service:shop",
    ]


@pytest.mark.django_db(transaction=True)
def test_an_agent_that_is_gone_fails_nobody_and_is_not_looked_for_each_time(settings, monkeypatch):
    looked_for = []

    def not_found(host, port, **kind):
        looked_for.append(host)
        raise socket.gaierror

    settings.MONITORING_STATSD_HOST = "no.such.host.invalid"
    app = make(OutboxCelery)
    monkeypatch.setattr(metrics.socket, "getaddrinfo", not_found)
    for _ in range(3):
        with transaction.atomic():
            assert add(app).id
    assert looked_for == ["no.such.host.invalid"]
