"""What every kit does when events meet, databases fail and handlers err."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.inbox.kits import KITS, Kit, Response
from tests.servers import connect, free_port, postgres

PATIENCE = 30


def on(*kinds: str) -> pytest.MarkDecorator:
    """Each kit on one of these databases. mysqlclient is also Django's driver."""
    names = [name for name, (kind, _) in KITS.items() if kind in kinds and name != "starlette-mysqlclient"]
    return pytest.mark.parametrize("name", names)


SERVERS = on("postgres", "mariadb")
EVERY = on("postgres", "mariadb", "sqlite")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Where handlers meet."""
    place = tmp_path / "place"
    place.mkdir()
    return place


@pytest.fixture
def pool():
    with ThreadPoolExecutor() as pool:
        yield pool


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        # MariaDB refreshes its table of transactions only after 100 ms without a query.
        time.sleep(0.12)


def hold(kit: Kit, pool: ThreadPoolExecutor, place: Path, **body: str) -> Future[Response]:
    """Sends the event `one`, whose handler waits for a second file in `place`."""
    holding = pool.submit(kit.send, "one", meet=str(place), count=2, **body)
    wait_until(lambda: (place / "one").exists() or holding.done())
    assert not holding.done(), holding.result()
    return holding


def waiting(kit: Kit) -> int:
    """How many transactions wait for a lock."""
    database = urlsplit(kit.address).path[1:]
    if kit.kind == "postgres":
        return len(
            kit.query(f"SELECT 1 FROM pg_stat_activity WHERE datname = '{database}' AND wait_event_type = 'Lock'")
        )
    return len(
        kit.query(
            "SELECT 1 FROM information_schema.innodb_trx JOIN information_schema.processlist p ON p.id = "
            f"trx_mysql_thread_id WHERE trx_state = 'LOCK WAIT' AND db = '{database}'"
        )
    )


@EVERY
def test_a_duplicate_in_flight_is_told_to_come_back(name: str, start, pool, place: Path) -> None:
    kit = start(name, INBOX_WAIT="1")
    holding = hold(kit, pool, place)
    started = time.monotonic()
    refused = kit.send("one")
    assert time.monotonic() - started < 8
    if kit.kind == "sqlite":
        # Any writer locks the whole database.
        assert refused.status == 503
    else:
        assert (refused.status, refused.headers["retry-after"]) == (409, "1")
    (place / "go").touch()
    assert holding.result().status == 200
    assert kit.send("one").text == "duplicate"
    assert kit.handled() == ["one"]


@EVERY
@pytest.mark.parametrize("fails", [False, True], ids=["commits", "fails"])
def test_a_duplicate_waits_for_the_one_in_flight(name: str, fails: bool, start, pool, place: Path) -> None:
    kit = start(name, INBOX_WAIT="20")
    holding = hold(kit, pool, place, **({"do": "fail"} if fails else {}))
    second = pool.submit(kit.send, "one")
    # No one can see that on SQLite.
    wait_until(lambda: kit.kind == "sqlite" or waiting(kit) == 1)
    (place / "go").touch()
    assert holding.result().status == (500 if fails else 200)
    assert (second.result().status, second.result().text) == (200, "handled" if fails else "duplicate")
    assert kit.handled() == ["one"]


@SERVERS
def test_one_of_several_duplicates_takes_over(name: str, start, pool, place: Path) -> None:
    kit = start(name, INBOX_WAIT="20")
    holding = hold(kit, pool, place, do="fail")
    others = [pool.submit(kit.send, "one") for _ in range(4)]
    wait_until(lambda: waiting(kit) == 4)
    (place / "go").touch()
    assert holding.result().status == 500
    # On MariaDB they deadlock when the first rolls back, and run again.
    assert sorted(other.result().text for other in others) == ["duplicate"] * 3 + ["handled"]
    assert kit.handled() == kit.recorded() == ["one"]


@SERVERS
def test_a_deadlock_is_repeated_in_place(name: str, start, pool, place: Path) -> None:
    kit = start(name)
    kit.query("CREATE TABLE account (id int PRIMARY KEY, n int NOT NULL)")
    kit.query("INSERT INTO account VALUES (1, 0), (2, 0)")

    def move(id: str, first: int, second: int) -> Future[Response]:
        update = "UPDATE account SET n = n + 1 WHERE id = {}".format
        return pool.submit(kit.send, id, sql=[update(first)], then=[update(second)], meet=str(place), count=2)

    answers = [move("a", 1, 2), move("b", 2, 1)]
    assert [answer.result().status for answer in answers] == [200, 200]
    assert kit.handled() == ["a", "b"]
    assert kit.query("SELECT sum(n) FROM account")[0][0] == 4
    if kit.kind == "postgres":
        # The server counts a deadlock when its victim's session is idle or ends.
        database = urlsplit(kit.address).path[1:]
        wait_until(lambda: kit.query(f"SELECT deadlocks FROM pg_stat_database WHERE datname = '{database}'") == [(1,)])


@on("postgres")
def test_a_serialisation_failure_is_repeated_a_bounded_number_of_times(name: str, start) -> None:
    kit = start(name)
    kit.query("CREATE SEQUENCE tries")
    kit.query(
        "CREATE FUNCTION conflict(until int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN IF nextval('tries') < until THEN "
        "RAISE EXCEPTION 'conflict' USING ERRCODE = '40001'; END IF; RETURN 1; END $$"
    )
    assert kit.send("one", sql=["SELECT conflict(3)"]).status == 200
    assert kit.query("SELECT last_value FROM tries") == [(3,)]
    assert kit.send("two", sql=["SELECT conflict(1000)"]).status == 503
    assert kit.query("SELECT last_value FROM tries") == [(8,)]
    assert kit.handled() == kit.recorded() == ["one"]


@SERVERS
def test_a_lost_connection_is_an_outage_and_the_next_request_succeeds(name: str, start) -> None:
    kit = start(name)
    kill = {"postgres": "SELECT pg_terminate_backend(pg_backend_pid())", "mariadb": "KILL CONNECTION_ID()"}[kit.kind]
    assert kit.send("one", sql=[kill]).status == 503
    assert kit.send("one").status == 200
    assert kit.handled() == ["one"]


@EVERY
def test_a_database_that_is_down_is_an_outage(name: str, start, tmp_path: Path) -> None:
    kit = start(name)
    assert kit.send("one").status == 200
    refuse(kit, tmp_path)
    assert kit.send("two").status == 503
    admit(kit, tmp_path)
    assert kit.send("two").status == 200
    assert kit.handled() == ["one", "two"]


def refuse(kit: Kit, directory: Path) -> None:
    """Lets nobody into the database, as if it were down."""
    database = urlsplit(kit.address).path[1:]
    if kit.kind == "postgres":
        with connect(postgres()) as connection:
            connection.execute(f"ALTER DATABASE {database} ALLOW_CONNECTIONS false")
            connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [database])
    elif kit.kind == "mariadb":
        # Its users share the server, so only the table goes.
        kit.query("RENAME TABLE inbox_event TO hidden")
    else:
        os.rename(directory / "inbox.db", directory / "hidden.db")
        (directory / "inbox.db").mkdir()


def admit(kit: Kit, directory: Path) -> None:
    if kit.kind == "postgres":
        with connect(postgres()) as connection:
            connection.execute(f"ALTER DATABASE {urlsplit(kit.address).path[1:]} ALLOW_CONNECTIONS true")
    elif kit.kind == "mariadb":
        kit.query("RENAME TABLE hidden TO inbox_event")
    else:
        (directory / "inbox.db").rmdir()
        os.rename(directory / "hidden.db", directory / "inbox.db")


@on("postgres")
def test_an_error_that_the_handler_ignores_is_not_a_success(name: str, start) -> None:
    kit = start(name)
    # PostgreSQL would answer the commit with a rollback.
    assert kit.send("one", sql=["SELECT no_such_function()"], ignore=True).status == 500
    assert kit.handled() == kit.recorded() == []


@EVERY
def test_a_handler_that_rolls_back_by_itself_is_not_a_success(name: str, start) -> None:
    kit = start(name)
    assert kit.send("one", sql=["ROLLBACK"]).status == 500
    assert kit.handled() == kit.recorded() == []


@EVERY
@pytest.mark.parametrize("then", [[], ["BEGIN", "INSERT INTO handled (id) VALUES ('later')"]], ids=["", "begins"])
def test_a_handler_that_commits_by_itself_and_then_fails_handles_the_event_again(name, then, start) -> None:
    kit = start(name)
    assert kit.send("one", sql=["COMMIT"], then=then, do="fail").status == 500
    assert kit.recorded() == []
    assert kit.send("one").text == "handled"
    # What it has committed stays.
    assert kit.handled() == ["one", "one"]


@EVERY
def test_a_handler_that_commits_by_itself_and_then_succeeds_has_handled_the_event(name: str, start) -> None:
    kit = start(name)
    kit.send("one", sql=["COMMIT"])
    assert kit.send("one").text == "duplicate"
    assert kit.handled() == kit.recorded() == ["one"]


@on("mariadb")
def test_a_statement_that_commits_implicitly_does_not_lose_the_event(name: str, start) -> None:
    kit = start(name)
    assert kit.send("one", sql=["CREATE TABLE anything (n int)"], do="fail").status == 500
    assert kit.send("one").text == "handled"


@EVERY
def test_a_connection_whose_transaction_the_handler_has_ended_is_not_used_again(name: str, start) -> None:
    kit = start(name)
    for end in ("ROLLBACK", "COMMIT"):
        for _ in range(12):
            assert kit.send("one", sql=[end], do="fail").status == 500
    assert kit.send("one").text == "handled"


@on("postgres")
def test_a_constraint_that_fails_at_commit_is_the_handlers_fault(name: str, start) -> None:
    kit = start(name)
    kit.query("CREATE TABLE seat (n int UNIQUE DEFERRABLE INITIALLY DEFERRED)")
    assert kit.send("one", sql=["INSERT INTO seat VALUES (1), (1)"]).status == 500
    assert kit.handled() == kit.recorded() == []


@on("postgres")
def test_a_trigger_that_raises_at_commit_is_the_handlers_fault(name: str, start) -> None:
    kit = start(name)
    kit.query("CREATE TABLE seat (n int)")
    kit.query(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'the cinema is full'; END $$"
    )
    kit.query(
        "CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON seat DEFERRABLE INITIALLY DEFERRED "
        "FOR EACH ROW EXECUTE FUNCTION refuse()"
    )
    assert kit.send("one", sql=["INSERT INTO seat VALUES (1)"]).status == 500
    assert kit.handled() == kit.recorded() == []
    assert kit.send("one").status == 200


@EVERY
def test_a_service_that_the_handler_cannot_reach_is_the_handlers_fault(name: str, start) -> None:
    kit, closed = start(name), free_port()
    assert kit.send("one", call=closed).status == 500
    assert kit.handled() == kit.recorded() == []
    assert kit.send("one").status == 200


@SERVERS
def test_another_database_that_the_handler_cannot_reach_is_the_handlers_fault(name: str, start) -> None:
    kit = start(name)
    scheme = "mysql" if kit.kind == "mariadb" else "postgres"
    assert kit.send("one", database=f"{scheme}://root@127.0.0.1:{free_port()}/other").status == 500
    assert kit.handled() == kit.recorded() == []
    assert kit.send("one").status == 200


@on("postgres")
def test_a_lock_that_the_handler_does_not_get_is_an_outage(name: str, start) -> None:
    kit = start(name)
    kit.query("CREATE TABLE account (n int)")
    take = "LOCK TABLE account IN EXCLUSIVE MODE NOWAIT"
    with connect(kit.address) as holding, holding.transaction():
        holding.execute(take)
        assert kit.send("one", sql=[take]).status == 503
    assert kit.send("one", sql=[take]).status == 200


@on("postgres")
def test_a_statement_timeout_that_ends_the_wait_of_a_duplicate_is_the_wait(name: str, start, pool, place) -> None:
    kit = start(name, INBOX_WAIT="20")
    kit.query(f"ALTER DATABASE {urlsplit(kit.address).path[1:]} SET statement_timeout = '1s'")
    # New connections have it.
    kit.kill()
    kit.start()
    holding = hold(kit, pool, place)
    assert kit.send("one").status == 409
    (place / "go").touch()
    assert holding.result().status == 200
    # In a statement of the handler, it is the handler's fault.
    assert kit.send("two", sql=["SELECT pg_sleep(10)"]).status == 500
    assert kit.handled() == ["one"]


@SERVERS
def test_the_handler_has_the_sessions_own_lock_timeout(name: str, start) -> None:
    kit = start(name, INBOX_WAIT="2")
    kit.query("CREATE TABLE setting (value varchar(100))")
    if kit.kind == "postgres":
        kit.query(f"ALTER DATABASE {urlsplit(kit.address).path[1:]} SET lock_timeout = '12345ms'")
        # New connections have it.
        kit.kill()
        kit.start()
        own, expected = "current_setting('lock_timeout')", "12345ms"
    else:
        own = "@@session.innodb_lock_wait_timeout"
        expected = str(kit.query("SELECT @@global.innodb_lock_wait_timeout")[0][0])
    assert kit.send("one", sql=[f"INSERT INTO setting VALUES ({own})"]).status == 200
    assert kit.query("SELECT value FROM setting") == [(expected,)]
