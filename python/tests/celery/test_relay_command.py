"""`manage.py pillarbox_relay`: the real program, started with what the settings say, and the signals it leads to."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import connections, transaction
from django.test import override_settings
from kombu import Connection

from pillarbox import databases, program
from pillarbox.celery import OutboxCelery
from pillarbox.databases.mysql import Mysql
from pillarbox.databases.postgres import Postgres
from pillarbox.models import OutboxEvent
from tests.celery.conftest import make
from tests.django.program import program as built
from tests.outboxes import SERVERS, each_outbox

PYTHON = Path(__file__).parents[2]
LISTENING = '["tests.celery.project.listening.Listening"]'

#: What happens to a task is said by its name.
ANSWERS = {"good": 204, "bad": 204, "flaky": 500, "hopeless": 410}


class Answer(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.send_response(ANSWERS[body["headers"]["task"]])
        self.end_headers()

    def log_message(self, *args):
        pass


@pytest.fixture
def receiver():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.fixture
def config(tmp_path, receiver):
    file = tmp_path / "relay.toml"
    file.write_text(
        f"""
        [destinations.here]
        kind = "http"
        url = "{receiver}"
        allow_private = true
        [[routes]]
        aggregates = "celery"
        to = ["here"]
        """
    )
    return file


def environment(alias, *, name=None, **more):
    settings = connections[alias].settings_dict
    names = ("ENGINE", "NAME", "USER", "PASSWORD", "HOST", "PORT")
    database = {name: str(settings[name]) for name in names if settings.get(name)}
    database["OPTIONS"] = {name: value for name, value in settings["OPTIONS"].items() if name == "charset"}
    if name is not None:
        database["NAME"] = name
    return {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "tests.celery.project.settings",
        "PROJECT_DATABASE": json.dumps(database),
        "PROJECT_PROGRAM": str(built()),
        "PYTHONPATH": str(PYTHON),
        "RUST_LOG": "info",
        **more,
    }


class Running:
    """A relay command: its lines, and its end."""

    def __init__(self, *arguments, cwd, alias="default", **more):
        command = [sys.executable, "-m", "django", "pillarbox_relay", *map(str, arguments)]
        self.process = subprocess.Popen(
            command,
            cwd=cwd,
            env=environment(alias, **more),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.out, self.err = queue.Queue(), queue.Queue()
        for stream, lines in ((self.process.stdout, self.out), (self.process.stderr, self.err)):
            threading.Thread(target=self._read, args=(stream, lines), daemon=True).start()

    @staticmethod
    def _read(stream, lines):
        for line in stream:
            lines.put(line)
        lines.put(None)

    def told(self, count):
        return [json.loads(self.out.get(timeout=30)) for _ in range(count)]

    def logged(self, text):
        """Waits for a line of the log that has this text, and answers all until there."""
        seen = []
        while True:
            line = self.err.get(timeout=30)
            assert line is not None, f"{text!r} was not logged: {''.join(seen)}"
            seen.append(line)
            if text in line:
                return "".join(seen)

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        return self.process.wait(timeout=30)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


@pytest.fixture
def send():
    app = make(OutboxCelery)

    def send(*names):
        with transaction.atomic():
            return [app.send_task(name, task_id=f"id of {name}").id for name in names]

    return send


@pytest.mark.django_db(transaction=True)
def test_signals_tell_what_became_of_tasks(config, send, tmp_path):
    send("bad", "good", "flaky", "hopeless")
    with Running("--config", config, cwd=tmp_path, PROJECT_APPS=LISTENING) as relay:
        told = {line["task_name"]: line for line in relay.told(4)}
        assert relay.stop() == 0
    sender = {"sender": "Relay"}
    for name, signal_name, more in (
        ("good", "sent", {}),
        ("bad", "sent", {}),
        ("flaky", "failed", {"retries": 0}),
        ("hopeless", "dead_lettered", {"task_ids": ["id of hopeless"], "task_names": ["hopeless"]}),
    ):
        task = {"task_name": name, "task_id": f"id of {name}"}
        assert told[name] == {"signal": signal_name, **sender, **task, **more}
    log = relay.logged("celery_outbox_signal_error outbox_message_sent")
    assert "a bad receiver" in log
    status = {row.event_type: row.status for row in OutboxEvent.objects.all()}
    assert status == {"good": "delivered", "bad": "delivered", "flaky": "pending", "hopeless": "failed"}


@pytest.mark.django_db(transaction=True, databases="__all__")
@each_outbox
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_without_receivers_the_program_takes_the_commands_place(config, tmp_path, alias, number):
    with Running("--config", config, "--liveness-file", tmp_path / "alive", cwd=tmp_path, alias=alias) as relay:
        relay.logged("relay started")
        assert Path(f"/proc/{relay.process.pid}/exe").resolve() == built().resolve()
        command = Path(f"/proc/{relay.process.pid}/cmdline").read_text()
        assert "hunter2" not in command
        assert "--report" not in command
        assert f"--liveness-file\0{tmp_path}/alive" in command
        secrets = Path(f"/proc/{relay.process.pid}/environ").read_text().split("\0")
        assert "PILLARBOX_BROKER_URL=amqp://guest:hunter2@127.0.0.1:1//" in secrets
        assert relay.stop(number) == 0


@pytest.fixture(params=["PILLARBOX_TEST_REDIS", "PILLARBOX_TEST_AMQP"], ids=["redis", "rabbitmq"])
def broker(request):
    """A broker's URL, and a queue on it that is ours."""
    url = os.environ[request.param]
    if request.param == "PILLARBOX_TEST_REDIS":
        url = url.rpartition("/")[0] + "/202"
    queue = f"relay-command-{os.getpid()}"
    yield url, queue
    with Connection(url) as connection:
        connection.default_channel.queue_delete(queue)


@pytest.mark.django_db(transaction=True)
def test_a_configuration_of_its_own_is_made_from_the_app(broker, tmp_path):
    url, queue_name = broker
    app = make(OutboxCelery)
    with transaction.atomic():
        app.send_task("shop.add", [1, "ü"], task_id="t1", queue=queue_name, headers={"tenant": "acme"})
        app.send_task("shop.add", [2], task_id="t2", queue=queue_name, serializer="pickle")
    with Running(cwd=tmp_path, PROJECT_APPS=LISTENING, PROJECT_BROKER=url) as relay:
        assert {line["task_id"] for line in relay.told(2)} == {"t1", "t2"}
        assert relay.stop() == 0
    with Connection(url) as connection:
        queue = connection.SimpleQueue(queue_name, no_ack=True)
        queue.consumer.accept = {"application/json", "application/x-python-serialize"}
        received = {message.headers["id"]: message for message in (queue.get(timeout=10), queue.get(timeout=10))}
        assert received["t1"].payload[0] == [1, "ü"]
        assert received["t1"].headers["tenant"] == "acme"
        assert received["t2"].payload[0] == [2]
        queue.close()


@pytest.fixture
def adopted():
    """A database with the tables of django-celery-outbox, and a task in them."""
    name = f"test_pillarbox_adopted_{os.getpid()}"
    with connections["default"]._nodb_cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name}")
    database = environment("default", name=name)["PROJECT_DATABASE"]
    apps = {"PROJECT_DATABASE": database, "PROJECT_APPS": '["django_celery_outbox"]'}
    subprocess.run(
        [sys.executable, "-m", "django", "migrate", "--verbosity", "0"],
        env={**environment("default"), **apps},
        cwd=PYTHON,
        check=True,
    )
    yield apps
    with connections["default"]._nodb_cursor() as cursor:
        cursor.execute(f"DROP DATABASE {name} WITH (FORCE)")


def test_the_tables_of_django_celery_outbox(db, adopted, broker, tmp_path):
    url, queue_name = broker
    other = connections.create_connection("default")
    other.settings_dict = {**other.settings_dict, "NAME": json.loads(adopted["PROJECT_DATABASE"])["NAME"]}
    with other.cursor() as cursor:
        cursor.execute(
            "INSERT INTO celery_outbox (created_at, retries, schema_version, task_id, task_name, args, kwargs, options)"
            " VALUES (clock_timestamp(), 0, 1, 't1', 'shop.add', '[1]', '{}', %s)",
            [json.dumps({"queue": queue_name})],
        )
    other.close()
    apps = json.dumps([*json.loads(adopted["PROJECT_APPS"]), *json.loads(LISTENING)])
    flags = ("--source", "django-celery-outbox", "--batch-size", "7", "--max-retries=3")
    with Running(*flags, cwd=tmp_path, **{**adopted, "PROJECT_APPS": apps, "PROJECT_BROKER": url}) as relay:
        (told,) = relay.told(1)
        assert relay.stop() == 0
    assert (told["signal"], told["task_id"], told["task_name"]) == ("sent", "t1", "shop.add")
    with Connection(url) as connection:
        queue = connection.SimpleQueue(queue_name, no_ack=True)
        assert queue.get(timeout=10).payload[0] == [1]
        queue.close()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("apps", ["[]", LISTENING], ids=["alone", "as a child"])
def test_the_exit_code_is_the_programs(tmp_path, apps):
    wrong = tmp_path / "wrong.toml"
    wrong.write_text("[relay]\nbatch_sise = 3\n")
    with Running("--config", wrong, cwd=tmp_path, PROJECT_APPS=apps) as relay:
        relay.logged("batch_sise")
        assert relay.process.wait(timeout=30) == 2


def test_what_cannot_be_started_says_why(db, tmp_path):
    cases = [
        (["--broker-url-setting", "NO_SUCH"], {}, "the setting NO_SUCH of --broker-url-setting is not the URL"),
        ([], {"PROJECT_PROGRAM": "/no/such/program"}, "'/no/such/program' is not an executable program"),
    ]
    for arguments, more, complaint in cases:
        with Running(*arguments, cwd=tmp_path, **more) as relay:
            assert "the relay cannot be started" in relay.logged(complaint)
            assert relay.process.wait(timeout=30) == 1


def url_of(kind: type[databases.Database], settings: dict[str, Any]) -> str:
    """What the relay is given for a database with these settings."""
    return kind(SimpleNamespace(alias="default", settings_dict=settings)).url()


@pytest.mark.parametrize(
    ("database", "url"),
    [
        ({"NAME": "shop"}, "postgres:///shop"),
        (
            {"NAME": "a b", "USER": "u@x", "PASSWORD": "p/:@%", "HOST": "h", "PORT": 5},
            "postgres://u%40x:p%2F%3A%40%25@h:5/a%20b",
        ),
        ({"NAME": "s", "HOST": "/run/pg", "USER": "u", "PORT": "6"}, "postgres://u@%2Frun%2Fpg:6/s"),
        ({"NAME": "s", "USER": "u", "PASSWORD": "p&", "PORT": "6"}, "postgres:///s?user=u&password=p%26&port=6"),
        ({"NAME": "s", "HOST": "::1"}, "postgres://[::1]/s"),
        (
            {"NAME": "s", "HOST": "h", "OPTIONS": {"sslmode": "verify-full", "options": "-c a=b", "pool": True}},
            "postgres://h/s?sslmode=verify-full&options=-c%20a%3Db",
        ),
        ({"NAME": "s", "HOST": "a,::1", "PORT": "5", "USER": "u"}, "postgres://u@a:5,[::1]:5/s"),
        (
            {"NAME": "s", "HOST": "a,b", "PORT": "5,6", "OPTIONS": {"target_session_attrs": "read-write"}},
            "postgres://a:5,b:6/s?target_session_attrs=read-write",
        ),
    ],
)
def test_databases_as_urls(database, url):
    defaults = {"USER": "", "PASSWORD": "", "HOST": "", "PORT": "", "OPTIONS": {}}
    assert url_of(Postgres, {**defaults, **database}) == url


@pytest.mark.parametrize(
    ("database", "url"),
    [
        ({"NAME": "shop"}, "mysql://localhost/shop"),
        (
            {"NAME": "a b", "USER": "u@x", "PASSWORD": "p/:@%", "HOST": "h", "PORT": 5},
            "mysql://u%40x:p%2F%3A%40%25@h:5/a%20b",
        ),
        ({"NAME": "s", "HOST": "/run/m y", "USER": "u"}, "mysql://u@localhost/s?socket=%2Frun%2Fm%20y"),
        ({"NAME": "s", "OPTIONS": {"unix_socket": "/run/m"}}, "mysql://localhost/s?socket=%2Frun%2Fm"),
        ({"NAME": "s", "HOST": "::1", "OPTIONS": {"charset": "utf8mb4"}}, "mysql://[::1]/s"),
        # Of mysqlclient.
        ({"NAME": "s", "HOST": "h", "OPTIONS": {"ssl_mode": "REQUIRED"}}, "mysql://h/s?ssl-mode=REQUIRED"),
        (
            {"NAME": "s", "HOST": "h", "OPTIONS": {"ssl": {"ca": "/ca", "cert": "/c", "key": "/k"}}},
            "mysql://h/s?ssl-mode=VERIFY_CA&ssl-ca=%2Fca&ssl-cert=%2Fc&ssl-key=%2Fk",
        ),
        # Of PyMySQL.
        (
            {"NAME": "s", "HOST": "h", "OPTIONS": {"ssl_ca": "/ca", "ssl_verify_identity": True}},
            "mysql://h/s?ssl-mode=VERIFY_IDENTITY&ssl-ca=%2Fca",
        ),
        ({"NAME": "s", "HOST": "h", "OPTIONS": {"ssl_disabled": True}}, "mysql://h/s?ssl-mode=DISABLED"),
    ],
)
def test_databases_on_mysql_as_urls(database, url):
    defaults = {"USER": "", "PASSWORD": "", "HOST": "", "PORT": "", "OPTIONS": {}}
    assert url_of(Mysql, {**defaults, **database}) == url


def test_databases_that_the_relay_cannot_open_are_refused(monkeypatch):
    with pytest.raises(ImproperlyConfigured, match="a file of options"):
        url_of(Mysql, {"OPTIONS": {"read_default_file": "/etc/my.cnf"}})
    with pytest.raises(ImproperlyConfigured, match="service file"):
        url_of(Postgres, {"OPTIONS": {"service": "x"}})
    with pytest.raises(ImproperlyConfigured, match="names 3 hosts and PORT 2 ports"):
        url_of(Postgres, {"HOST": "a,b,c", "PORT": "1,2"})
    for name in (":memory:", "file:lite?mode=memory&cache=shared", "file:/tmp/lite.db?mode=ro"):
        monkeypatch.setitem(connections["lite"].settings_dict, "NAME", name)
        with pytest.raises(ImproperlyConfigured, match="is not a file, but the relay needs one"):
            databases.of(connections["lite"]).url()


#: Of each server: the setting with its socket, and what it says of a user that it does not know.
SOCKETS = {"default": "current_setting('unix_socket_directories')", "maria": "@@socket"}
UNKNOWN = {"default": 'role \\"{}\\" does not exist', "maria": "Access denied for user '{}'@"}


@pytest.mark.django_db(databases="__all__")
@pytest.mark.parametrize("by", ["host", "socket"])
@pytest.mark.parametrize("alias", SERVERS, ids=SERVERS.values())
def test_the_program_opens_what_the_project_opens(alias, by, tmp_path):
    """A user and a password that are full of what means something in URLs."""
    user, password = "we ird@/user:1", "p@:/?#%&=+ \"'\\ü"
    with connections[alias].cursor() as cursor:
        cursor.execute(f"SELECT {SOCKETS[alias]}")
        socket = cursor.fetchone()[0].split(",")[0].strip()
    given = connections[alias].settings_dict
    host = socket if by == "socket" else given["HOST"]
    kind = databases.kind_of(connections[alias])
    url = url_of(kind, {**given, "HOST": host, "USER": user, "PASSWORD": password})
    ended = subprocess.run(
        [built(), "stats", "--json"],
        env={"PILLARBOX_DATABASE_URL": url},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    # It came as far as to say who it is.
    assert UNKNOWN[alias].format(user) in ended.stderr
    assert password not in ended.stderr


@pytest.mark.django_db(databases="__all__")
def test_the_schema_is_where_the_project_finds_the_table():
    assert databases.of(connections["default"]).schema_of("outbox_event") == "public"
    assert databases.of(connections["lite"]).schema_of("outbox_event") is None
    with pytest.raises(ImproperlyConfigured, match="run manage.py migrate"):
        databases.of(connections["default"]).schema_of("no_such_table")


def test_the_program_is_looked_for(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(program.sysconfig, "get_path", lambda name: str(tmp_path / "bin"))
    with pytest.raises(ImproperlyConfigured, match="pip install pillarbox"):
        program.find_program()
    for place in (tmp_path, tmp_path / "bin"):
        place.mkdir(exist_ok=True)
        (place / "pillarbox").write_text("#!/bin/sh")
        (place / "pillarbox").chmod(0o755)
        assert program.find_program() == str(place / "pillarbox")
    with override_settings(PILLARBOX_PROGRAM=str(tmp_path / "pillarbox")):
        assert program.find_program() == str(tmp_path / "pillarbox")
