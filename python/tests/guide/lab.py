"""Where the commands of the guide are run: a database with events in each state, destinations that answer, a relay."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import uuid
from base64 import b64encode
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.processes import NEWEST, ROOT, Processes, environment, pillarbox, python
from tests.servers import PrivatePostgres, broker, connect, create_database, free_port

SECRET = "whsec_" + b64encode(b"a secret of thirty-two bytes ...").decode()
TEMPLATE = "template_of_the_guide"
REFUSED = "43"
"""The order whose events the receiver refuses."""
CONFIGURATION = """
[database]
url = "{database}"
[metrics]
listen = "127.0.0.1:{metrics}"
[admin]
listen = "127.0.0.1:{admin}"
[admin.users.anna]
role = "operator"
token = "{token_hash}"
[[schemas]]
events = "order.*"
file = "schemas/order.json"
"""
DESTINATION = """
[destinations.{name}]
kind = "http"
url = "http://127.0.0.1:{port}/{name}"
allow_private = true
secrets = ["env:BILLING_SECRET"]
"""
DESTINATIONS = ("billing", "mail", "warehouse", "fraud-check")
ROUTES = """
[[routes]]
events = "order.*"
to = ["billing", "mail"]
"""
OLD = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}
NEW = {**OLD, "required": ["id", "total"]}
FILES = {
    "old.json": json.dumps(OLD),
    "new.json": json.dumps(NEW),
    "schemas/order.json": json.dumps({"type": "object"}),
    "event.json": '{"event_type": "order.placed", "aggregate_type": "Order", "payload": {"total": "19.90"}}',
    "order.bin": "\b*",
}


class Handler(BaseHTTPRequestHandler):
    """Answers 422 to the events of one order, and 204 to all others."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(422 if self.headers["pillarbox-aggregate-id"] == REFUSED else 204)
        self.end_headers()

    def do_HEAD(self) -> None:
        self.send_response(405)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


class Lab:
    """Has one database as a template. Each command gets a copy of it, and a directory with the files that it reads."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.programs = directory / "programs"
        self.programs.mkdir()
        (self.programs / "pillarbox").symlink_to(pillarbox())
        attend = self.programs / "attend"
        attend.write_text(f'#!/bin/sh\nexec {sys.executable} {Path(__file__).with_name("attend.py")} "$@"\n')
        attend.chmod(0o755)
        self.receiver = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.receiver.serve_forever, daemon=True).start()
        # Not in a directory of pytest, which each run of pytest closes to other users again.
        self.data = Path(tempfile.mkdtemp(prefix="pillarbox-guide-"))
        self.server = PrivatePostgres(self.data / "postgres")
        self.token = ""

    def prepare(self) -> None:
        """Makes the template: events that are delivered, failed and due."""
        self.server.start()
        self.admin = connect(self.server.url)
        for role in ("emitter", "relay"):
            self.admin.execute(f"CREATE ROLE {role} LOGIN")
        made = json.loads(self.run([pillarbox(), "admin", "make-token", "--json"], self.directory))
        self.token, self.token_hash = made["token"], made["hash"]
        self.admin.execute(f"CREATE DATABASE {TEMPLATE}")
        place = Place(self, "template", copied=False)
        self.run([pillarbox(), "migrate"], place.work)
        with connect(place.database) as connection:

            def emit(order: str) -> str:
                # The default key stays free: pages emit order.placed of Order 42.
                emit = "SELECT outbox_emit('Order', %s, 'order.placed', '{\"total\": \"19.90\"}', repeatable => true)"
                return str(connection.execute(emit, (order,)).fetchone()[0])

            self.delivered, self.failed = emit("42"), emit(REFUSED)
            self.run([pillarbox(), "sweep"], place.work)
            self.due = emit("44")
        [group] = json.loads(self.run([pillarbox(), "dead-letters", "--json"], place.work))["groups"]
        self.group = group["group"]

    def run(self, command: list[str], directory: Path) -> str:
        done = subprocess.run(command, cwd=directory, env=self.variables(), capture_output=True, text=True)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def variables(self) -> dict[str, str]:
        """The environment of every command. It sets no database: that is in the configuration."""
        paths = [self.programs, Path(python(NEWEST)).parent, ROOT / ".venv-brokers/bin", os.environ["PATH"]]
        return environment(
            PATH=":".join(map(str, paths)), BILLING_SECRET=SECRET, TOKEN=self.token, ROOT=str(ROOT), COLUMNS="200"
        )

    def stop(self) -> None:
        self.receiver.shutdown()
        self.server.kill()
        shutil.rmtree(self.data)


class Place:
    """A working directory with a configuration, a copy of the database, and the processes that a command needs."""

    def __init__(self, lab: Lab, name: str, copied: bool = True, routes: str = ROUTES, more: str = "") -> None:
        self.lab, self.name = lab, f"guide_{uuid.uuid4().hex}" if copied else TEMPLATE
        if copied:
            lab.admin.execute(f"CREATE DATABASE {self.name} TEMPLATE {TEMPLATE}")
        self.database = f"{lab.server.url.rsplit('/', 1)[0]}/{self.name}"
        self.work = lab.directory / name
        self.work.mkdir()
        self.ports = {name: free_port() for name in ("admin", "metrics", "nats", "moto")}
        for path, content in FILES.items():
            (self.work / path).parent.mkdir(exist_ok=True)
            (self.work / path).write_text(content)
        self.configure(routes, more)
        self.processes = Processes(self.work)

    def configure(self, routes: str, more: str) -> None:
        port = self.lab.receiver.server_port
        text = CONFIGURATION.format(database=self.database, token_hash=self.lab.token_hash, **self.ports)
        text += "".join(DESTINATION.format(name=name, port=port) for name in DESTINATIONS)
        (self.work / "pillarbox.toml").write_text(text + routes + more)

    def values(self) -> dict[str, str | int]:
        """The values of the substitutions."""
        lab = self.lab
        host = f"127.0.0.1:{lab.server.port}"
        return {
            **self.ports,
            "work": str(self.work),
            "database": self.database,
            "hosts": f"{host},{host}",
            "port": lab.server.port,
            "name": self.name,
            "failed": lab.failed,
            "delivered": lab.delivered,
            "due": lab.due,
            "group": lab.group,
            "examples": str(ROOT / "examples"),
        }

    def mariadb(self) -> str:
        return create_database("mariadb")

    def examples(self) -> None:
        """Copies the examples, with the addresses of brokers that run. Names on shared brokers are unique."""
        shutil.copytree(ROOT / "examples", self.work / "examples", ignore=shutil.ignore_patterns("target"))
        unique = uuid.uuid4().hex
        for name, changes in EXAMPLES.items():
            path = self.work / "examples" / name
            text = path.read_text()
            for printed, real in changes.items():
                assert printed in text, f"examples/{name} has no {printed}"
                text = text.replace(printed, real.format(unique=unique, amqp=amqp(), redis=broker("redis")))
            path.write_text(text)

    def repository(self) -> None:
        """Makes the directory a clone, whose main branch has the schema."""
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
        for command in (
            ["init", "--quiet"],
            ["add", "schemas"],
            [*identity, "commit", "--quiet", "--message", "the schema"],
            ["update-ref", "refs/remotes/origin/main", "HEAD"],
        ):
            self.lab.run(["git", *command], self.work)

    def remove(self) -> None:
        self.processes.stop()
        slots = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = %s"
        self.lab.admin.execute(slots, (self.name,))
        if self.name != TEMPLATE:
            self.lab.admin.execute(f"DROP DATABASE {self.name} WITH (FORCE)")


EXAMPLES = {
    "amqp.toml": {
        "amqp://guest:guest@127.0.0.1:5672/": "{amqp}",
        'exchange = "shop"': 'exchange = "{unique}"',
        'queue = "orders"': 'queue = "{unique}"',
    },
    "redis.toml": {"redis://127.0.0.1:6379/0": "{redis}", 'stream = "orders"': 'stream = "{unique}"'},
}
"""What is changed in the files of examples, so that they use the servers of the tests."""


def amqp() -> str:
    return broker("rabbitmq").removesuffix("/")
