"""Checks what the guide says of the program: pages that are made from it, commands, and the HTTP contract."""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

import pytest
from standardwebhooks import WebhookVerificationError

from tests.processes import ROOT, pillarbox

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def load(path: Path):
    """Imports a Python file by its path, whatever it is called."""
    loader = SourceFileLoader(path.stem, str(path))
    module = module_from_spec(spec_from_loader(path.stem, loader))
    loader.exec_module(module)
    return module


@pytest.mark.parametrize(("name", "function"), [("command-line.md", "command_line"), ("api.md", "api")])
def test_pages_made_from_the_program_are_current(name: str, function: str) -> None:
    made = getattr(load(ROOT / "scripts/guide"), function)(pillarbox())
    assert (ROOT / "docs" / name).read_text() == made, f"run scripts/guide generate {pillarbox()}"


def test_the_defaults_of_celery_relay_are_those_of_its_help() -> None:
    page = (ROOT / "docs/from-django-celery-outbox.md").read_text()
    table = dict(re.findall(r"^\| `(--[a-z-]+)` \| \S+ \| (\S+) \|", page, re.MULTILINE))
    help = subprocess.run([pillarbox(), "celery-relay", "--help"], capture_output=True, text=True, check=True).stdout
    default = re.findall(r"(--[a-z-]+) <[A-Z]+>\n.+; by default (\S+)$", help, re.MULTILINE)
    assert {flag: value for flag, value in table.items() if flag != "--liveness-file"} == dict(default)


class Receiver:
    """Remembers the headers and the body of the last request."""

    def __init__(self) -> None:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                receiver.headers = {name.lower(): value for name, value in self.headers.items()}
                receiver.body = self.rfile.read(int(self.headers["content-length"]))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def receiver():
    receiver = Receiver()
    yield receiver
    receiver.server.shutdown()


def deliver(receiver: Receiver, directory: Path, form: str) -> None:
    """Sends one event to the receiver, with everything that adds a header."""
    (directory / "pillarbox.toml").write_text(f"""
        [destinations.receiver]
        kind = "http"
        url = "http://127.0.0.1:{receiver.server.server_port}/events"
        allow_private = true
        format = "{form}"
        secrets = ["env:BILLING_SECRET"]
        bearer = "env:BILLING_SECRET"
        [[routes]]
        to = ["receiver"]
    """)
    environment = {**os.environ, "BILLING_SECRET": SECRET}
    trace = "traceparent=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    emit = ["emit", "Order", "42", "order.placed", '{"total": 1}', "--header", trace, "--header", "tracestate=a=b"]
    for arguments in (["migrate"], emit, ["sweep"]):
        subprocess.run([pillarbox(), *arguments], cwd=directory, env=environment, check=True, capture_output=True)


@pytest.mark.parametrize("form", ["payload", "cloudevents", "cloudevents-binary"])
def test_the_http_contract_names_every_header(form: str, receiver: Receiver, tmp_path: Path) -> None:
    deliver(receiver, tmp_path, form)
    named = set(re.findall(r"`([a-z-]+)`", (ROOT / "docs/http-contract.md").read_text()))
    assert set(receiver.headers) - named == set()
    if form == "cloudevents":
        assert set(json.loads(receiver.body)) - named == set()


def test_the_receiver_of_the_guide_verifies_requests(receiver: Receiver, tmp_path: Path, monkeypatch) -> None:
    deliver(receiver, tmp_path, "payload")
    monkeypatch.setenv("BILLING_SECRET", SECRET)
    receive = load(ROOT / "docs/start/verify.py").receive
    event = receive(receiver.headers, receiver.body)
    assert (event["type"], event["payload"]) == ("order.placed", {"total": 1})
    with pytest.raises(WebhookVerificationError):
        receive(receiver.headers, receiver.body + b" ")


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().split()) < 700
