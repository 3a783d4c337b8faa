"""Runs the receivers of the guide's page on receiving, as they are printed, with the real relay in front of them."""

from __future__ import annotations

import re
import socket
import subprocess
import time
from pathlib import Path

import pytest

from tests.inbox.kits import SECRET, example, node_project
from tests.processes import NEWEST, ROOT, Processes, environment, pillarbox, python
from tests.servers import connect, create_database, free_port

PATIENCE = 60
OTHER = "whsec_" + "AAAA" * 8
MODELS = """
from django.db import models

class Invoice(models.Model):
    order_id = models.TextField()
    total = models.TextField()

    class Meta:
        app_label = "billing"
        db_table = "invoice"
"""
MANAGE = """
import os, sys
import django
from django.conf import settings
from tests.outboxes import database
settings.configure(
    ALLOWED_HOSTS=["*"], SECRET_KEY="x", ROOT_URLCONF="billing.urls",
    INSTALLED_APPS=["pillarbox.inbox.django", "billing"],
    DATABASES={"default": database(os.environ["DATABASE_URL"])}, DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
)
django.setup()
from django.core.management import call_command
call_command("migrate", "pillarbox_inbox", verbosity=0)
call_command("runserver", f"127.0.0.1:{sys.argv[1]}", "--noreload")
"""
RELAY = """
[database]
url = "{outbox}"
[destinations.receiver]
kind = "http"
url = "http://127.0.0.1:{port}/events"
allow_private = true
secrets = ["{secret}"]
[[routes]]
to = ["receiver"]
"""


def printed(name: str) -> str:
    """A file that the page shows."""
    assert f"{{{{#include receive/{name}}}}}" in (ROOT / "docs/receiving.md").read_text()
    return (ROOT / "docs/receive" / name).read_text()


def django(directory: Path, port: int) -> list[str]:
    (directory / "billing").mkdir()
    (directory / "billing/__init__.py").touch()
    (directory / "billing/models.py").write_text(MODELS)
    (directory / "billing/urls.py").write_text(printed("django.py"))
    (directory / "manage.py").write_text(MANAGE)
    return [python(NEWEST), "manage.py", str(port)]


def fastapi(directory: Path, port: int) -> list[str]:
    (directory / "receiver.py").write_text(printed("fastapi.py"))
    return [python(NEWEST), "-m", "uvicorn", "receiver:app", "--port", str(port)]


def node(name: str, directory: Path, port: int) -> list[str]:
    (directory / "receiver.mjs").write_text(printed(name).replace("8080", str(port)))
    (directory / "node_modules").symlink_to(node_project() / "node_modules")
    return ["node", "receiver.mjs"]


def axum(directory: Path, port: int) -> list[str]:
    page = (ROOT / "docs/receiving.md").read_text()
    assert "{{#include ../crates/pillarbox-inbox/examples/billing.rs:3:}}" in page
    return [example("billing")]


RECEIVERS = {
    "django": django,
    "fastapi": fastapi,
    "express": lambda directory, port: node("express.mjs", directory, port),
    "fastify": lambda directory, port: node("fastify.mjs", directory, port),
    "axum": axum,
}


@pytest.fixture
def processes(tmp_path: Path):
    processes = Processes(tmp_path)
    yield processes
    processes.stop()


@pytest.mark.parametrize("name", RECEIVERS)
def test_a_receiver_of_the_page_handles_an_event_once(name: str, processes: Processes, tmp_path: Path) -> None:
    port, database = free_port(), create_database()
    with connect(database) as connection:
        connection.execute("CREATE TABLE invoice (id bigserial PRIMARY KEY, order_id text, total text)")
        if name != "django":
            page = (ROOT / "docs/receiving.md").read_text()
            [included] = re.findall(r"^\{\{#include (\S+create\.sql)\}\}$", page, re.MULTILINE)
            connection.execute((ROOT / "docs" / included).resolve().read_text())
    variables = {"DATABASE_URL": database, "BILLING_SECRETS": f"{OTHER} {SECRET}", "LISTEN": f"127.0.0.1:{port}"}
    command = RECEIVERS[name](tmp_path, port)
    receiver = processes.start("receiver", command, environment(**variables))
    wait_for(port, lambda: receiver.poll() is None or pytest.fail(processes.log("receiver")))

    (tmp_path / "pillarbox.toml").write_text(RELAY.format(outbox=create_database(), port=port, secret=SECRET))
    for arguments in (["migrate"], ["emit", "Order", "42", "order.placed", '{"total": "19.90"}'], ["sweep"]):
        subprocess.run([pillarbox(), *arguments], cwd=tmp_path, check=True, capture_output=True)
    with connect(database) as connection:
        assert connection.execute("SELECT order_id, total FROM invoice").fetchall() == [("42", "19.90")]
        assert connection.execute("SELECT consumer FROM inbox_event").fetchall() == [("billing",)]


def wait_for(port: int, check) -> None:
    deadline = time.monotonic() + PATIENCE
    while True:
        check()
        try:
            return socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.02)
