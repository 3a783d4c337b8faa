"""The handler of the tests' receivers in Python: the body says what it does."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pillarbox.inbox import Event, Never
from tests.servers import connect

PATIENCE = 30


def settings() -> dict[str, Any]:
    """The inbox's settings, from the environment."""
    clock = os.environ.get("INBOX_CLOCK")
    return {
        "consumer": os.environ.get("INBOX_CONSUMER", "tests"),
        "keys": os.environ["INBOX_KEYS"].split(),
        "max_body": int(os.environ.get("INBOX_MAX_BODY", 2**21)),
        "wait": float(os.environ.get("INBOX_WAIT", 5)),
        **({"clock": lambda: float(Path(clock).read_text())} if clock else {}),
    }


def handle(event: Event, execute: Callable[[str], object], roll_back: Callable[[], object]) -> None:
    """Writes a row, runs statements of the body, and fails if it is told to."""
    try:
        given = event.json()
    except ValueError:
        given = {}
    if not isinstance(given, dict):
        given = {}
    execute(f"INSERT INTO handled (id) VALUES ('{event.id}')")
    for statement in given.get("sql", ()):
        try:
            execute(statement)
        except Exception:
            if not given.get("ignore"):
                raise
    if "meet" in given:
        meet(Path(given["meet"]), event.id, given["count"])
    for statement in given.get("then", ()):
        execute(statement)
    if "call" in given:
        socket.create_connection(("127.0.0.1", given["call"])).close()
    if "database" in given:
        connect(given["database"]).close()
    match given.get("do"):
        case "fail":
            raise RuntimeError("the handler was told to fail")
        case "never":
            raise Never("the handler was told to")
        case "roll back":
            roll_back()


def meet(place: Path, name: str, count: int) -> None:
    """Waits until `count` files are there, one of them this handler's."""
    (place / name).touch()
    deadline = time.monotonic() + PATIENCE
    while len(list(place.iterdir())) < count:
        if time.monotonic() > deadline:
            raise TimeoutError(f"fewer than {count} in {place}")
        time.sleep(0.005)
