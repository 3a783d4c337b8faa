"""The pytest plugin, in a pytest of its own with a small project."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2]
PROJECT = {
    "config.py": """
SECRET_KEY = "x"
USE_TZ = True
INSTALLED_APPS = ["django.contrib.contenttypes", "pillarbox", "shop"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
CELERY_OUTBOX_APP = "shop.celery.app"
""",
    "shop/__init__.py": "",
    "shop/celery.py": """
from pillarbox.celery import OutboxCelery
app = OutboxCelery("shop", broker="memory://")
app.autodiscover_tasks(["shop"])
""",
    "shop/tasks.py": """
from shop.celery import app
RAN = []

@app.task(name="orders.process", bind=True)
def process(self, number, *, fail=False):
    if fail:
        raise LookupError("no such order")
    RAN.append((number, self.request.id, self.request.retries, self.request.headers))
    return number + 1

@app.task(name="orders.stubborn", bind=True, max_retries=3)
def stubborn(self, succeed_at):
    if self.request.retries < succeed_at:
        raise self.retry(countdown=60)
    RAN.append(("stubborn", self.request.retries))

@app.task(name="orders.sorry")
def sorry(request, error, traceback):
    RAN.append(("sorry", type(error).__name__))
""",
    "shop/handlers.py": """
import pillarbox
SEEN = []

@pillarbox.handler("order.*")
def on_order(event):
    if event.payload.get("fail"):
        raise LookupError("no such order")
    SEEN.append(event.aggregate_id)
""",
    "test_shop.py": """
import base64, json, pickle
import pytest
from pillarbox import emit_event
from pillarbox.models import OutboxEvent

def record(args, kwargs, pickled=False, **headers):
    embed = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}
    body, kind, coding = json.dumps([args, kwargs, embed]), "application/json", "utf-8"
    if pickled:
        data = pickle.dumps((args, kwargs, embed))
        body, kind, coding = {"base64": base64.b64encode(data).decode()}, "application/x-python-serialize", "binary"
    headers = {"task": "orders.process", "id": "t1", "retries": 2, **headers}
    payload = {"celery": 1, "body": body, "content_type": kind, "content_encoding": coding, "headers": headers}
    row = {"aggregate_type": "celery", "aggregate_id": "t1", "event_type": "orders.process", "idempotency_key": "t1"}
    OutboxEvent.objects.create(**row, payload=payload)

def test_events(outbox):
    outbox.assert_not_emitted()
    emit_event("Order", 42, "order.placed", {"total": 7})
    emit_event("User", 1, "user.created", {})
    event = outbox.assert_emitted("order.placed", aggregate_id="42", payload={"total": 7})
    assert [row.pk for row in outbox.emitted("order.*")] == [event.pk]
    assert len(outbox.emitted()) == 2
    with pytest.raises(AssertionError, match=r"(?s)order.paid was not emitted; emitted:.*order.placed about Order 42"):
        outbox.assert_emitted("order.paid")
    with pytest.raises(AssertionError, match="2 times, but 1 times"):
        outbox.assert_emitted("order.placed", count=2)
    with pytest.raises(AssertionError, match="was emitted"):
        outbox.assert_not_emitted("order.*")
    assert outbox.drain() == 1
    from shop.handlers import SEEN
    assert SEEN == ["42"]
    assert [row.status for row in outbox.emitted()] == ["delivered", "pending"]
    assert outbox.drain() == 0

def test_the_other_name(pillarbox_outbox):
    assert pillarbox_outbox.emitted() == []

def test_a_handlers_error_is_the_tests(outbox):
    emit_event("Order", 1, "order.placed", {"fail": True})
    with pytest.raises(LookupError):
        outbox.drain()
    assert outbox.emitted()[0].status == "failed"

@pytest.mark.parametrize("pickled", [False, True])
def test_recorded_tasks_are_run(outbox, pickled):
    from shop.tasks import RAN
    RAN.clear()
    record([42], {}, pickled)
    outbox.assert_emitted("orders.process", args=[42], kwargs={})
    outbox.assert_not_emitted("orders.process", args=[43])
    with pytest.raises(AssertionError, match=r"task orders.process, args=\\[42\\]"):
        outbox.assert_emitted("orders.cancel")
    assert outbox.drain() == 1
    assert [ran[:3] for ran in RAN] == [(42, "t1", 2)]
    assert outbox.emitted()[0].status == "delivered"

def test_what_a_task_sends_is_run_too(outbox):
    from celery import chain, group
    from shop.tasks import RAN, process, stubborn
    RAN.clear()
    chain(process.s(1), process.s(), process.s()).delay()
    outbox.assert_emitted("orders.process", count=1)
    assert outbox.drain() == 3
    assert [ran[0] for ran in RAN] == [1, 2, 3]
    RAN.clear()
    stubborn.delay(2)
    assert outbox.drain() == 3
    assert RAN == [("stubborn", 2)]
    RAN.clear()
    process.apply_async((7,), link=process.s(), countdown=3600)
    group(process.s(n) for n in (20, 30)).delay()
    assert outbox.drain() == 4
    assert sorted(ran[0] for ran in RAN) == [7, 8, 20, 30]

def test_errbacks_are_run_and_endless_retries_end(outbox):
    from shop.tasks import RAN, process, sorry, stubborn
    RAN.clear()
    process.apply_async((1,), {"fail": True}, link_error=sorry.s())
    with pytest.raises(LookupError):
        outbox.drain()
    outbox.drain()
    assert RAN == [("sorry", "LookupError")]
    from celery.exceptions import MaxRetriesExceededError
    stubborn.delay(9)
    with pytest.raises(MaxRetriesExceededError):
        outbox.drain()

def test_a_tasks_error_is_the_tests(outbox):
    record([1], {"fail": True})
    with pytest.raises(LookupError):
        outbox.drain()

def test_an_unknown_task_is_told(outbox):
    record([1], {}, task="orders.unknown")
    with pytest.raises(AssertionError, match='"orders.unknown" is not registered'):
        outbox.drain()
""",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in PROJECT.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return tmp_path


@pytest.mark.parametrize("migrations", ["--migrations", "--nomigrations"])
def test_the_fixture_tells_and_drains(project, migrations):
    environment = {**os.environ, "PYTHONPATH": f"{PACKAGE}:{project}", "DJANGO_SETTINGS_MODULE": "config"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(project), str(project)]
    # Its plugin has a fixture of the same name.
    command += ["-p", "no:django_celery_outbox", migrations]
    plugin = [] if _installed() else ["-p", "pillarbox.testing"]
    answer = subprocess.run([*command, *plugin], env=environment, cwd=project, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "9 passed" in answer.stdout


def _installed() -> bool:
    """Where the package is installed pytest finds the plugin by itself."""
    from importlib.metadata import entry_points

    return any(point.value == "pillarbox.testing" for point in entry_points(group="pytest11"))
