"""A rotation by `pillarbox keys rotate` over the real relay, and test events, which no kit handles."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.inbox.delivery import emit
from tests.inbox.kits import Kit
from tests.processes import Processes, pillarbox
from tests.servers import connect, create_database

PATIENCE = 60
RECEIVERS = ("old", "both", "new")
SETTINGS = """
[database]
url = "{outbox}"
[relay.retry]
max_attempts = 1
[admin]
listen = "off"
[[routes]]
to = ["old", "both", "new"]
"""
DESTINATION = """
[destinations.{name}]
kind = "http"
url = "http://127.0.0.1:{port}/events"
allow_private = true
secrets = {secrets}
"""


class Sender:
    """The relay's program, with the secrets of this phase of the rotation."""

    def __init__(self, directory: Path, outbox: str) -> None:
        self.directory, self.outbox = directory, outbox
        self.environment = {**os.environ}
        self.ports: dict[str, int] = dict.fromkeys(RECEIVERS, 9)

    def configure(self, secrets: list[str]) -> str:
        sections = [
            DESTINATION.format(name=name, port=port, secrets=json.dumps(secrets)) for name, port in self.ports.items()
        ]
        text = SETTINGS.format(outbox=self.outbox) + "".join(sections)
        (self.directory / "pillarbox.toml").write_text(text)
        return text

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [pillarbox(), "--json", *arguments],
            cwd=self.directory,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def json(self, *arguments: str) -> Any:
        done = self.run(*arguments)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def deliver(self, order: int) -> str:
        """Emits an event, and delivers it with one pass of the relay. Returns its id."""
        event = self.json("emit", "Order", str(order), "order.placed", '{"total": 1}')["id"]
        self.json("sweep", "--all")
        return event


@pytest.fixture
def receive(tmp_path: Path) -> Iterator[Callable[..., Kit]]:
    """Starts a receiver with these keys, besides others."""
    running: list[Processes] = []

    def receive(kit: str, name: str, keys: list[str]) -> Kit:
        place = tmp_path / name
        place.mkdir()
        running.append(Processes(place))
        started = Kit(kit, running[-1], place, INBOX_KEYS=" ".join(keys))
        started.start()
        return started

    yield receive
    for processes in running:
        processes.stop()


def receiver_key(made: dict[str, Any]) -> str:
    return made["public_key"] or made["secret"]


@pytest.mark.parametrize(
    ("kit", "old", "new"),
    [("axum-sqlite", "hmac", "ed25519"), ("fastapi-sqlite3", "ed25519", "ed25519"), ("express", "ed25519", "hmac")],
)
def test_a_rotation_by_command_loses_nothing_and_a_test_event_is_not_handled(
    kit: str, old: str, new: str, receive: Callable[..., Kit], tmp_path: Path
) -> None:
    outbox = create_database()
    sender = Sender(tmp_path, outbox)
    emit(outbox, 0)
    first = sender.json("keys", "new", "--kind", old)
    sender.environment["FIRST_KEY"] = first["secret"]
    sender.configure(["env:FIRST_KEY"])
    rotation = sender.json("keys", "rotate", "both", "--kind", new)
    assert first["secret"] not in json.dumps(rotation)
    sender.environment[rotation["variable"]] = rotation["secret"]
    keys = {"old": [receiver_key(first)], "new": [receiver_key(rotation)]}
    keys["both"] = keys["old"] + keys["new"]
    kits = {name: receive(kit, name, keys[name]) for name in RECEIVERS}
    sender.ports = {name: kit.port for name, kit in kits.items()}

    phases = {
        "before": (["env:FIRST_KEY"], {"old", "both"}),
        "overlap": (rotation["secrets_during_the_overlap"], {"old", "both", "new"}),
        "after": ([rotation["secrets_afterwards"]], {"both", "new"}),
    }
    assert phases["overlap"][0][1] == "env:FIRST_KEY"
    expected: dict[str, list[str]] = {name: [] for name in RECEIVERS}
    for order, (secrets, verifying) in enumerate(phases.values()):
        sender.configure(secrets)
        event = sender.deliver(order)
        for name in verifying:
            expected[name].append(event)
    assert {name: kit.handled() for name, kit in kits.items()} == {name: sorted(ids) for name, ids in expected.items()}

    # Only what the receiver can verify is a success, and none is handled or recorded.
    tested = {name: sender.run("destinations", "test", name) for name in RECEIVERS}
    assert {name: done.returncode for name, done in tested.items()} == {"old": 1, "both": 0, "new": 0}
    answers = {name: json.loads(done.stdout) for name, done in tested.items()}
    assert {name: answer["status_code"] for name, answer in answers.items()} == {"old": 401, "both": 200, "new": 200}
    assert "webhook-signature is not valid" in answers["old"]["answer"]
    assert {name: kit.recorded() for name, kit in kits.items()} == {name: sorted(ids) for name, ids in expected.items()}
    with connect(outbox) as connection:
        assert connection.execute("SELECT count(*) FROM outbox_event").fetchone() == (3,)
        audit = connection.execute("SELECT what, target FROM outbox_audit ORDER BY id").fetchall()
    assert audit == [("test", name) for name in RECEIVERS]


def test_a_running_relay_signs_with_both_keys(
    receive: Callable[..., Kit], processes: Processes, tmp_path: Path
) -> None:
    outbox = create_database()
    sender = Sender(tmp_path, outbox)
    events = emit(outbox, 20)
    keys = [sender.json("keys", "new"), sender.json("keys", "new", "--kind", "hmac")]
    sender.environment.update({f"KEY_{number}": key["secret"] for number, key in enumerate(keys)})
    receivers = dict(zip(RECEIVERS, ([keys[0]], keys, [keys[1]]), strict=True))
    kits = {
        name: receive("fastapi-sqlite3", name, [receiver_key(key) for key in known])
        for name, known in receivers.items()
    }
    sender.ports = {name: kit.port for name, kit in kits.items()}
    sender.configure(["env:KEY_0", "env:KEY_1"])
    processes.start("relay", [pillarbox(), "relay"], sender.environment)
    deadline = time.monotonic() + PATIENCE
    while any(kit.handled() != events for kit in kits.values()):
        processes.check()
        assert time.monotonic() < deadline, processes.log("relay")
        time.sleep(0.05)
