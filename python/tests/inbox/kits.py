"""Receivers of each kit, as processes, on each database; and a client that sends what it is given, byte for byte."""

from __future__ import annotations

import atexit
import base64
import hashlib
import hmac
import json
import os
import shutil
import socket
import sqlite3
import subprocess
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.processes import NEWEST, ROOT, Processes, environment, python
from tests.servers import connect, create_database, free_port

PATIENCE = 60
VECTORS = json.loads((ROOT / "crates/pillarbox-inbox/tests/vectors.json").read_text())
SECRET = "whsec_" + base64.b64encode(b"a secret of the tests of inboxes").decode()

_DJANGO = (python(NEWEST), "-m", "tests.inbox.receive_django")
_STARLETTE = (python(NEWEST), "-m", "tests.inbox.receive_starlette")
#: Each receiver by its name: its database, and the command.
KITS: dict[str, tuple[str, tuple[str, ...]]] = {
    "django-postgres": ("postgres", _DJANGO),
    "django-mariadb": ("mariadb", _DJANGO),
    "django-sqlite": ("sqlite", _DJANGO),
    "starlette-psycopg": ("postgres", (*_STARLETTE, "starlette", "psycopg")),
    "starlette-pymysql": ("mariadb", (*_STARLETTE, "starlette", "pymysql")),
    "starlette-mysqlclient": ("mariadb", (*_STARLETTE, "starlette", "mysqlclient")),
    "fastapi-sqlite3": ("sqlite", (*_STARLETTE, "fastapi", "sqlite3")),
    "express": ("postgres", ("node", "receive.mjs", "express")),
    "fastify": ("postgres", ("node", "receive.mjs", "fastify")),
    "axum-postgres": ("postgres", ("inbox_receiver",)),
    "axum-mariadb": ("mariadb", ("inbox_receiver",)),
    "axum-sqlite": ("sqlite", ("inbox_receiver",)),
}


def command(name: str) -> list[str]:
    """Returns the command of a receiver, with paths."""
    program, *arguments = KITS[name][1]
    if program == "node":
        return [program, str(node_project() / arguments[0]), *arguments[1:]]
    if program == "inbox_receiver":
        return [example(program)]
    return [program, *arguments]


def example(name: str) -> str:
    """Returns the path of an example of the crate; the Rust tests build them."""
    path = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target").resolve() / "debug/examples" / name
    assert path.exists(), "run cargo build -p pillarbox-inbox --all-features --examples"
    return str(path)


@cache
def node_project() -> Path:
    """Returns a project that was empty, with the package as npm packs and installs it, and the tests' own packages."""
    project = Path(tempfile.mkdtemp(prefix="pillarbox-node."))
    atexit.register(shutil.rmtree, project, ignore_errors=True)
    packed = npm("pack", "--silent", "--pack-destination", str(project), cwd=ROOT / "node").split()[-1]
    (project / "package.json").write_text('{"private": true, "type": "module"}')
    npm("install", "--prefer-offline", "--no-audit", "--no-fund", "--ignore-scripts", f"./{packed}", cwd=project)
    add_packages(project)
    return project


def npm(*arguments: str, cwd: Path) -> str:
    done = subprocess.run(["npm", *arguments], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def add_packages(project: Path) -> None:
    """Links the packages that only tests use, and their files, into the project."""
    installed, modules = ROOT / ".tools/node_modules", project / "node_modules"
    for name in ("express", "fastify", "pg", "typescript", "@types/node", "@types/express", "@types/pg"):
        (modules / name).parent.mkdir(exist_ok=True)
        if not (modules / name).exists():
            (modules / name).symlink_to(installed / name)
    for file in (ROOT / "node/test").iterdir():
        shutil.copy(file, project)


@dataclass
class Response:
    status: int
    headers: dict[str, str]
    text: str


class Kit:
    """A receiver with a database of its own, or the one at `DATABASE_URL`."""

    def __init__(self, name: str, processes: Processes, directory: Path, **variables: str) -> None:
        self.name, self.processes, self.port = name, processes, free_port()
        self.kind = KITS[name][0]
        self.command = command(name)
        self.address = variables.get("DATABASE_URL") or (
            f"sqlite://{directory}/inbox.db" if self.kind == "sqlite" else create_database(self.kind)
        )
        settings = {"INBOX_KEYS": SECRET, **variables, "DATABASE_URL": self.address, "PORT": str(self.port)}
        self.environment = environment(**settings)
        self.query("CREATE TABLE handled (id varchar(255) NOT NULL)")
        if self.kind == "sqlite":
            self.query("PRAGMA journal_mode = wal")
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.process = self.processes.start("receiver", self.command, self.environment)
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return socket.create_connection(("127.0.0.1", self.port)).close()
            except OSError:
                assert self.process.poll() is None, self.processes.log("receiver")
                assert time.monotonic() < deadline, f"{self.name} does not listen"
                time.sleep(0.02)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        """Runs a statement in the receiver's database, and returns its rows."""
        if self.kind == "sqlite":
            with closing(sqlite3.connect(self.address.removeprefix("sqlite://"), timeout=30)) as connection, connection:
                return connection.execute(statement).fetchall()
        with closing(connect(self.address)) as connection, connection.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall()) if cursor.description else []

    def handled(self) -> list[str]:
        return sorted(row[0] for row in self.query("SELECT id FROM handled"))

    def recorded(self) -> list[str]:
        return sorted(row[0] for row in self.query("SELECT id FROM inbox_event"))

    def post(self, headers: list[tuple[str, str]], body: bytes) -> Response:
        """Sends a request as it is given."""
        head = [f"POST /events HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: {len(body)}\r\n"]
        head += [f"{name}: {value}\r\n" for name, value in headers]
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE) as connection:
            connection.sendall("".join([*head, "\r\n"]).encode() + body)
            received = b""
            while chunk := connection.recv(65536):
                received += chunk
        top, _, text = received.partition(b"\r\n\r\n")
        status, *lines = top.decode("latin-1").split("\r\n")
        answered = dict(line.lower().split(": ", 1) for line in lines)
        return Response(int(status.split()[1]), answered, text.decode(errors="replace"))

    def send(self, id: str, **body: Any) -> Response:
        """Sends a signed event, as the relay would."""
        payload, timestamp = json.dumps(body).encode(), str(int(time.time()))
        key = base64.b64decode(SECRET.removeprefix("whsec_"))
        signed = hmac.digest(key, b"%s.%s.%s" % (id.encode(), timestamp.encode(), payload), hashlib.sha256)
        signature = f"v1,{base64.b64encode(signed).decode()}"
        headers = {"webhook-id": id, "webhook-timestamp": timestamp, "webhook-signature": signature}
        return self.post([*headers.items(), ("content-type", "application/json")], payload)
