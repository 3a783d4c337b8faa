"""A database server that is stopped, or does not respond: every kit says so before the relay gives up."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.inbox.kits import KITS, Kit
from tests.inbox.test_receive import SERVERS, on
from tests.servers import PrivateBroker, PrivateMariaDb, PrivatePostgres

#: The relay's timeout is 10 s by default.
IN_TIME = 8
#: The kits in Python connect with the application's own function, which bounds the time.
BOUND = {"PGCONNECT_TIMEOUT": "3"}


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., PrivateBroker]]:
    """Starts a private server of a kind."""
    servers: list[PrivateBroker] = []

    def serve(name: str) -> PrivateBroker:
        kind = {"postgres": PrivatePostgres, "mariadb": PrivateMariaDb}[KITS[name][0]]
        servers.append(kind(tmp_path / "server"))
        servers[-1].start()
        return servers[-1]

    yield serve
    for server in servers:
        server.kill()


def outage(kit: Kit, id: str) -> None:
    started = time.monotonic()
    answer = kit.send(id)
    assert (answer.status, time.monotonic() - started < IN_TIME) == (503, True), (answer, time.monotonic() - started)


@SERVERS
def test_a_server_that_is_stopped_is_an_outage_and_the_receiver_outlives_it(name: str, start, serve) -> None:
    server = serve(name)
    kit = start(name, DATABASE_URL=server.url)
    assert kit.send("one").status == 200
    server.stop()
    outage(kit, "two")
    outage(kit, "two")
    server.start()
    assert kit.send("two").status == 200
    assert kit.handled() == kit.recorded() == ["one", "two"]


@on("postgres")
def test_a_server_that_does_not_respond_is_an_outage(name: str, start, serve) -> None:
    server = serve(name)
    kit = start(name, DATABASE_URL=server.url, **BOUND)
    assert kit.send("one").status == 200
    with server.silent():
        # On a connection that was idle, and on a new one.
        outage(kit, "two")
        outage(kit, "three")
    assert kit.send("two").status == 200
    assert kit.handled() == kit.recorded() == ["one", "two"]
