"""The real program: a relay with its admin, on a database of its own, with a viewer and an operator."""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests import processes

from .receiver import Receiver

PATIENCE = 60
"""Seconds. Long, because a busy machine is slow, and nobody waits for it when all is well."""
POLL = 0.02
OPERATOR, VIEWER = "olga", "vera"
PASSWORD = "correct horse battery staple"
DESTINATIONS = ("orders", "mail", "letters", "crm")

SETTINGS = """
[relay]
poll_interval = "50ms"
[relay.retry]
# What failed stays where a test can look at it, until somebody retries it.
base = "1h"
cap = "1h"
[relay.breaker]
base = "100ms"
cap = "200ms"
[admin]
listen = "127.0.0.1:0"
mask = ["$.card.number"]
"""


def wait_until(what: str, check: Callable[[], Any], running: processes.Processes) -> Any:
    """Fails after a while, or as soon as one of the processes has failed."""
    deadline = time.monotonic() + PATIENCE
    while not (answer := check()):
        running.check()
        assert time.monotonic() < deadline, f"waited {PATIENCE} s in vain until {what}"
        time.sleep(POLL)
    return answer


def run(*arguments: str, given: str = "", directory: Path | None = None) -> str:
    """What the program answers to a command."""
    done = subprocess.run(
        [processes.pillarbox(), *arguments], input=given, capture_output=True, text=True, cwd=directory, check=False
    )
    assert done.returncode == 0, f"pillarbox {' '.join(arguments)[:300]}: {done.stderr}"
    return done.stdout


@dataclass(frozen=True)
class Users:
    """What the configuration says of them, and the operator's token for the API."""

    configuration: str
    token: str

    @classmethod
    def make(cls) -> Users:
        password = run("admin", "hash-password", given=f"{PASSWORD}\n").strip()
        token = json.loads(run("--json", "admin", "make-token"))
        users = [
            f'[admin.users.{OPERATOR}]\nrole = "operator"\npassword = "{password}"\ntoken = "{token["hash"]}"\n',
            f'[admin.users.{VIEWER}]\nrole = "viewer"\npassword = "{password}"\n',
        ]
        return cls("".join(users), token["token"])


class Admin:
    """A running relay that serves its admin at `url`. Events `NAME.…` go to the destination of that name."""

    def __init__(
        self, directory: Path, database: str, users: Users, destinations: Iterable[str] = DESTINATIONS
    ) -> None:
        self.directory, self.users, self.destinations = directory, users, tuple(destinations)
        self.receiver = Receiver()
        self.processes = processes.Processes(directory)
        self.configuration = f'[database]\nurl = "{database}"\n{SETTINGS}{users.configuration}{self.delivering()}'
        (directory / "relay.toml").write_text(self.configuration)
        self.cookies: dict[str, tuple[str, str]] = {}

    def __enter__(self) -> Admin:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def start(self) -> None:
        self.command("migrate")
        self.processes.relay("relay", self.configuration)
        served = r"admin is served.*?(http://127\.0\.0\.1:\d+)"
        found = wait_until("admin is served", lambda: re.search(served, self.processes.log("relay")), self.processes)
        self.url: str = found[1]

    def delivering(self) -> str:
        """Destinations and routes. Events `both.…` go to the first two, others with an unknown name to nobody."""
        text = ""
        for name in self.destinations:
            address = self.receiver.url(name)
            text += f'[destinations.{name}]\nkind = "http"\nurl = "{address}"\nallow_private = true\n'
        for name in self.destinations:
            text += f'[[routes]]\nevents = "{name}.*"\nto = ["{name}"]\n'
        first, second, *_ = self.destinations
        return f'{text}[[routes]]\nevents = "both.*"\nto = ["{first}", "{second}"]\n'

    def command(self, *arguments: str, given: str = "") -> str:
        return run("--config", "relay.toml", *arguments, given=given, directory=self.directory)

    def emit(
        self,
        event_type: str,
        payload: Any = None,
        *,
        aggregate: tuple[str, str] = ("Order", "1"),
        options: Iterable[str] = ("--repeatable",),
    ) -> str:
        """Emits one event; its id."""
        told = self.command(
            "--json", "emit", *options, "--", *aggregate, event_type, "-", given=json.dumps(payload or {})
        )
        return json.loads(told)["id"]

    def emit_all(self, event_type: str, payloads: Iterable[Any], **how: Any) -> list[str]:
        with ThreadPoolExecutor(4) as pool:
            return list(pool.map(lambda payload: self.emit(event_type, payload, **how), payloads))

    def show(self, event_id: str) -> dict[str, Any]:
        return json.loads(self.command("--json", "events", "show", event_id))

    def wait_for_state(self, event_id: str, *states: str) -> dict[str, Any]:
        """Until an event has come to one of these states."""

        def reached() -> dict[str, Any] | None:
            shown = self.show(event_id)
            return shown if shown["state"] in states else None

        return wait_until(f"{event_id} is {' or '.join(states)}", reached, self.processes)

    def cookie(self, user: str) -> tuple[str, str]:
        """Of a session of this user: one for all tests, because passwords take their time."""
        if user not in self.cookies:
            host = urllib.parse.urlsplit(self.url).netloc
            connection = http.client.HTTPConnection(host, timeout=PATIENCE)
            body = urllib.parse.urlencode({"name": user, "password": PASSWORD, "next": "/"})
            connection.request("POST", "/login", body, {"content-type": "application/x-www-form-urlencoded"})
            answer = connection.getresponse()
            assert answer.status == 303, answer.read()
            name, _, value = answer.headers["set-cookie"].split(";")[0].partition("=")
            self.cookies[user] = (name, value)
            connection.close()
        return self.cookies[user]

    def read(self, path: str) -> Any:
        """What the API answers."""
        headers = {"authorization": f"Bearer {self.users.token}"}
        request = urllib.request.Request(f"{self.url}/api/v1{path}", headers=headers)
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return json.load(answer)

    def wait_for_pause(self, destination: str, paused: bool = True) -> None:
        """Until the relay itself has heard of it."""

        def heard() -> bool:
            (found,) = [one for one in self.read("/destinations")["destinations"] if one["name"] == destination]
            return all(lane["paused"] == paused for lane in found["lanes"])

        wait_until(f"{destination} is {'paused' if paused else 'resumed'}", heard, self.processes)

    def stop(self) -> None:
        self.processes.stop()
        self.receiver.close()
