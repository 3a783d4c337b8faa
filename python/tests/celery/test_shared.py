"""Tasks of `@shared_task`: they never go past the outbox, whichever app and thread they are sent in."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from kombu import Connection

from tests import servers

PYTHON = Path(__file__).parents[2]
IMPORTED = "from .celery import app as celery_app\n__all__ = ['celery_app']\n"
PROJECT = {
    "config.py": """
SECRET_KEY = "x"
USE_TZ = True
INSTALLED_APPS = ["pillarbox", "shop"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "shop.db"}}
CELERY_OUTBOX_APP = "shop.celery.app"
MONITORING_METRICS_ENABLED = False
""",
    "shop/__init__.py": "",
    "shop/celery.py": """
from pillarbox.celery import OutboxCelery
app = OutboxCelery("shop")
app.config_from_object("django.conf:settings", namespace="CELERY")
""",
    "shop/tasks.py": """
from celery import shared_task

@shared_task(name="orders.process")
def process(number):
    return number
""",
    "send.py": """
import os, sys, threading
queue, how = sys.argv[1:]
if how == "configured":
    from django.conf import settings
    import config
    del os.environ["DJANGO_SETTINGS_MODULE"]
    settings.configure(**{name: value for name, value in vars(config).items() if name.isupper()})
import django
import shop
django.setup()
from django.core.management import call_command
from django.db import transaction
from pillarbox.models import OutboxEvent
from shop.tasks import process
call_command("migrate", verbosity=0)

class Refused(Exception): pass

def send():
    try:
        with transaction.atomic():
            process.apply_async((1,), queue=queue)
            print("recorded", OutboxEvent.objects.count())
            raise Refused
    except Refused:
        pass
    except Exception as error:
        print(type(error).__name__, error)

send()
thread = threading.Thread(target=send)
thread.start()
thread.join()
""",
}


@pytest.fixture
def project(tmp_path):
    """Writes the project, and answers a function that runs Python in it."""
    for name, text in PROJECT.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    environment = {
        **os.environ,
        "PYTHONPATH": f"{PYTHON}:{tmp_path}",
        "DJANGO_SETTINGS_MODULE": "config",
        # Celery's default app, too, reads it.
        "CELERY_BROKER_URL": servers.broker("rabbitmq"),
    }

    def run(*arguments, **files):
        for name, text in files.items():
            (tmp_path / "shop" / f"{name}.py").write_text(text)
        command = [sys.executable, *arguments]
        ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert not ended.returncode, ended.stdout + ended.stderr
        return ended.stdout + ended.stderr

    return run


@pytest.fixture
def queue():
    return f"shared-{uuid.uuid4().hex}"


def on_the_broker(queue):
    with Connection(servers.broker("rabbitmq")) as connection, connection.SimpleQueue(queue) as there:
        count = len(there)
        there.queue.delete()
    return count


def test_a_task_of_celerys_default_app_is_refused(project, queue):
    said = project("send.py", queue, "named")
    assert on_the_broker(queue) == 0
    assert said.count('ImproperlyConfigured the task "orders.process" was sent by Celery\'s default app') == 2
    assert "from .celery import app as celery_app" in said


@pytest.mark.parametrize("how", ["named", "configured"])
def test_the_imported_app_records_in_every_thread(project, queue, how):
    said = project("send.py", queue, how, __init__=IMPORTED)
    assert on_the_broker(queue) == 0
    assert said.count("recorded 1") == 2


def test_the_check_says_that_the_app_is_not_imported(project):
    said = project("-m", "django", "check")
    assert "(pillarbox.W003)" in said
    assert "from .celery import app as celery_app" in said
    assert "no issues" in project("-m", "django", "check", __init__=IMPORTED)


def test_the_check_says_that_another_app_sends_shared_tasks(project):
    other = "from celery import Celery\nother = Celery('other')\n"
    with pytest.raises(AssertionError, match=r"pillarbox.E011.*other"):
        project("-m", "django", "check", __init__=IMPORTED + other)
