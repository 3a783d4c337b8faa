"""Compares the tables of the HTTP contract with what the program does: each status, and each way of no response."""

from __future__ import annotations

import json
import re
import socket
import sqlite3
import ssl
import subprocess
import threading
import time
from collections.abc import Callable
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.processes import ROOT, pillarbox
from tests.servers import free_port

STATUSES = range(200, 600)
ELSEWHERE = "elsewhere.example"
RESULTS = {"delivered": ("delivered", 0), "rejected": ("failed", 1), "outage": ("pending", 0), "failed": ("pending", 1)}
"""What an event's row has after its first send: its status, and how many attempts it has used."""


def table(heading: str) -> list[list[str]]:
    """The rows of the contract's table with this heading."""
    text = (ROOT / "docs/http-contract.md").read_text()
    rows = re.search(rf"^\| {heading} \|.*\n\|[-|]+\n((?:\|.*\n)+)", text, re.MULTILINE)[1]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows.splitlines()]


def meant(cell: str) -> set[int]:
    """The statuses that a cell names: `2xx`, `410, 422`, `any other 4xx or 5xx`."""
    classes = {int(digit) for digit in re.findall(r"\b(\d)xx\b", cell)}
    numbers = {int(number) for number in re.findall(r"\b\d{3}\b", cell)}
    assert classes or numbers, f"{cell} names no status"
    return numbers | {status for status in STATUSES if status // 100 in classes}


class Handler(BaseHTTPRequestHandler):
    """Answers with the status in the path, and with `Retry-After` if that follows: `/503/60`, `/503/60/date`."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        _, status, *after = self.path.split("/")
        if after[1:] == ["date"]:
            after = [formatdate(time.time() + int(after[0]), usegmt=True)]
        self.send_response(int(status))
        self.send_header("Location", f"https://{ELSEWHERE}/")
        self.send_header("Content-Length", "0")
        for seconds in after:
            self.send_header("Retry-After", seconds)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    request_queue_size = 512


@pytest.fixture(scope="module")
def receiver():
    server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


class Outbox:
    """An outbox on SQLite. An event's type is the name of its destination."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.configuration = directory, ""

    def destination(self, name: str, url: str, *more: str) -> None:
        lines = [f"[destinations.{name}]", 'kind = "http"', f'url = "{url}"', *more]
        self.configuration += "\n".join([*lines, "[[routes]]", f'events = "{name}"', f'to = ["{name}"]', ""])

    def run(self, *arguments: str) -> None:
        done = subprocess.run([pillarbox(), *arguments], cwd=self.directory, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr

    def deliver(self, events: list[tuple[str, dict]]) -> None:
        """Sends events, each once."""
        (self.directory / "pillarbox.toml").write_text(self.configuration)
        self.run("migrate")
        insert = (
            "INSERT INTO outbox_event (aggregate_type, aggregate_id, event_type, payload) VALUES ('Order', ?, ?, ?)"
        )
        rows = [(str(number), name, json.dumps(payload)) for number, (name, payload) in enumerate(events)]
        with sqlite3.connect(self.directory / "pillarbox.db") as connection:
            connection.executemany(insert, rows)
        connection.close()
        self.run("sweep")

    def rows(self, columns: str) -> list[tuple]:
        connection = sqlite3.connect(self.directory / "pillarbox.db")
        try:
            return connection.execute(f"SELECT event_type, {columns} FROM outbox_event ORDER BY seq").fetchall()
        finally:
            connection.close()


@pytest.fixture
def outbox(tmp_path: Path) -> Outbox:
    return Outbox(tmp_path)


def test_every_status_does_what_the_contract_says(outbox: Outbox, receiver: str) -> None:
    expected: dict[int, tuple[str, int]] = {}
    # Rows with single statuses go before those with classes.
    rows = sorted(table("response"), key=lambda row: len(meant(row[0])))
    for statuses, result, used, _ in rows:
        assert {"yes": 1, "no": 0}.get(used, RESULTS[result][1]) == RESULTS[result][1], (
            f"{result} uses an attempt or not"
        )
        for status in meant(statuses):
            expected.setdefault(status, RESULTS[result])
    assert set(expected) == set(STATUSES), "the table says what each status does"
    for status in STATUSES:
        outbox.destination(f"status-{status}", f"{receiver}/{status}", "allow_private = true")
    outbox.deliver([(f"status-{status}", {}) for status in STATUSES])
    found = {int(name[-3:]): tuple(row) for name, *row in outbox.rows("status, attempts")}
    assert {status: found[status] for status in found if found[status] != expected[status]} == {}
    redirects = [error for name, error in outbox.rows("error_message") if name.startswith("status-3")]
    assert all(ELSEWHERE in error for error in redirects), redirects


def test_what_opens_the_breaker(outbox: Outbox, receiver: str) -> None:
    [row] = [row for row in table("response") if row[1] == "outage"]
    assert row[3] == "the event waits; three in a row, or one with `Retry-After`, open the breaker"
    one_by_one = ("allow_private = true", "concurrency = 1")
    outbox.destination("two", f"{receiver}/503", *one_by_one)
    outbox.destination("three", f"{receiver}/503", *one_by_one)
    outbox.destination("after", f"{receiver}/503/60", *one_by_one)
    outbox.deliver([("two", {})] * 2 + [("three", {})] * 4 + [("after", {})] * 2)
    parked = {name: [] for name in ("two", "three", "after")}
    for name, on in outbox.rows("parked_on"):
        parked[name].append(on)
    assert parked["two"] == [None, None]
    assert parked["three"] == [None, None, "three", "three"]
    assert parked["after"] == ["after", "after"]


DAY = 86_400
WAITS = {
    "`Retry-After`, in seconds or as a date, is obeyed after every failure, up to a day.": {
        "500/7200": (7_200, 7_200),
        "500/7200/date": (7_200, 7_200),
        "404/7200": (7_200, 7_200),
        "500/9999999": (DAY, DAY),
    },
    "A failed event is tried again after `relay.retry.base` (60 s), then": {"500": (60, 60)},
    "with up to 10 % more by chance.": {"500": (60, 66)},
}
"""Sentences of the contract, and responses with the shortest and the longest time until the next attempt."""


def test_when_an_event_is_tried_again(outbox: Outbox, receiver: str) -> None:
    contract = " ".join((ROOT / "docs/http-contract.md").read_text().split())
    assert [sentence for sentence in WAITS if sentence not in contract] == []
    answers = {answer: times for answers in WAITS.values() for answer, times in answers.items()}
    for number, answer in enumerate(answers):
        outbox.destination(f"answer-{number}", f"{receiver}/{answer}", "allow_private = true")
    outbox.deliver([(f"answer-{number}", {}) for number in range(len(answers))])
    waits = outbox.rows("(julianday(next_attempt_at) - julianday(updated_at)) * 86400")
    for (_, wait), (answer, (shortest, longest)) in zip(waits, answers.items(), strict=True):
        assert shortest - 1 <= wait <= longest + 1, f"{answer}: {wait} s"


def listener(answer: Callable[[socket.socket], None], backlog: int = 100) -> int:
    """Returns the port of a server that does this with each connection, at the same time."""
    server = socket.create_server(("127.0.0.1", 0), backlog=backlog)

    def serve() -> None:
        while True:
            connection, _ = server.accept()
            threading.Thread(target=answer, args=(connection,), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    return server.getsockname()[1]


def close(connection: socket.socket) -> None:
    connection.recv(65536)
    connection.close()


def speak(connection: socket.socket) -> None:
    connection.recv(65536)
    connection.sendall(b"220 mail.example ESMTP\r\n")
    connection.close()


def hang(connection: socket.socket) -> None:
    """Answers to nothing but events that say so."""
    request = b""
    while chunk := connection.recv(65536):
        request += chunk
        if b'"answer"' in request:
            request = b""
            connection.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")


def deaf() -> tuple[int, list[socket.socket]]:
    """A port that accepts no connection, because its queue is full."""
    server = socket.create_server(("127.0.0.1", 0), backlog=0)
    waiting = [server]
    for _ in range(8):
        waiting.append(socket.socket())
        waiting[-1].setblocking(False)
        waiting[-1].connect_ex(server.getsockname())
    return server.getsockname()[1], waiting


def untrusted(directory: Path) -> int:
    """A server with a certificate that nobody has signed."""
    request = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    files = ["-keyout", "key.pem", "-out", "certificate.pem", "-subj", "/CN=localhost"]
    subprocess.run([*request, *files], cwd=directory, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "certificate.pem", directory / "key.pem")
    server = Server(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_port


CAUSES = {
    "DNS fails, connection refused, no connection within `connect_timeout` (5 s)": ["unknown", "refused", "deaf"],
    "the certificate is not trusted": ["untrusted"],
    "the address is private, and `allow_private` is not set": ["private"],
    "the connection is lost before the response": ["lost"],
    "no response within `timeout` (10 s)": ["silent", "slow"],
    "the response is not HTTP": ["nonsense"],
}
"""The destinations of each row."""
DEPENDS = ("outage, unless other requests to this destination get through meanwhile", "only then")


def test_no_response_does_what_the_contract_says(outbox: Outbox, receiver: str, tmp_path: Path) -> None:
    full, connections = deaf()
    local = "http://127.0.0.1"
    urls = {
        "unknown": "http://no-such-host.invalid/",
        "refused": f"{local}:{free_port()}/",
        "deaf": f"{local}:{full}/",
        "untrusted": f"https://127.0.0.1:{untrusted(tmp_path)}/204",
        "lost": f"{local}:{listener(close)}/",
        "silent": f"{local}:{listener(hang)}/",
        "slow": f"{local}:{listener(hang)}/",
        "nonsense": f"{local}:{listener(speak)}/",
    }
    patience = ("allow_private = true", 'timeout = "1s"', 'connect_timeout = "1s"')
    for name, url in urls.items():
        outbox.destination(name, url, *patience)
    outbox.destination("private", f"{receiver.replace('127.0.0.1', 'localhost')}/204")
    # Others get through to the slow one.
    outbox.deliver([(name, {}) for name in (*urls, "private")] + [("slow", {"answer": number}) for number in range(5)])
    found: dict[str, tuple] = {}
    for name, status, attempts, error in outbox.rows("status, attempts, error_message"):
        found.setdefault(name, (status, attempts, error))

    rows = table("no response")
    assert [row[0] for row in rows] == list(CAUSES)
    for cause, result, used in rows:
        for name in CAUSES[cause]:
            outcome = result
            if name in ("silent", "slow"):
                assert (result, used) == DEPENDS
                outcome = "failed" if name == "slow" else "outage"
            assert found[name][:2] == RESULTS[outcome], f"{cause}: {name} {found[name]}"
    for connection in connections:
        connection.close()
