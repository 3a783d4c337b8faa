"""`once`, `cleanup` and the keys, without HTTP: for the drivers of DB-API, and for Django."""

from __future__ import annotations

import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import MySQLdb
import psycopg
import pymysql
import pytest
from django.core.management import call_command
from django.db import connections, transaction

from pillarbox import inbox
from pillarbox.inbox import Event, InFlight, InvalidKey, RolledBack
from pillarbox.inbox import django as inbox_django
from pillarbox.inbox.connections import transactions
from pillarbox.inbox.keys import Keys
from tests.inbox.kits import SECRET
from tests.outboxes import each_outbox
from tests.processes import NEWEST, environment, python
from tests.servers import create_database, free_port

DRIVERS = ("psycopg", "pymysql", "MySQLdb", "sqlite3")


class Place:
    """A database with an inbox and a table, reached through one driver."""

    def __init__(self, driver: str, directory: Path) -> None:
        self.driver = driver
        if driver == "sqlite3":
            self.address = str(directory / "inbox.db")
        else:
            self.address = create_database("postgres" if driver == "psycopg" else "mariadb")
        self.opened: list[Any] = []

    def connect(self) -> Any:
        if self.driver == "psycopg":
            connection = psycopg.connect(self.address)
        elif self.driver == "sqlite3":
            connection = sqlite3.connect(self.address, timeout=0.1)
        else:
            url, module = urlsplit(self.address), {"pymysql": pymysql, "MySQLdb": MySQLdb}[self.driver]
            place = {"host": url.hostname, "port": url.port, "user": url.username}
            connection = module.connect(**place, database=url.path[1:])
        self.opened.append(connection)
        return connection


@pytest.fixture(params=DRIVERS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    place = Place(request.param, tmp_path)
    connection = place.connect()
    inbox.create_table(connection)
    run(connection, "CREATE TABLE handled (id varchar(255))")
    connection.commit()
    yield place
    for connection in place.opened:
        connection.close()


def run(connection: Any, statement: str) -> list[tuple[Any, ...]]:
    with closing(connection.cursor()) as cursor:
        cursor.execute(statement)
        return list(cursor.fetchall()) if cursor.description else []


def handle(connection: Any, id: str, consumer: str = "billing", **options: Any) -> bool:
    write = f"INSERT INTO handled (id) VALUES ('{consumer}:{id}')"
    return inbox.once(connection, id, lambda: run(connection, write), consumer=consumer, **options)


def handled(connection: Any) -> list[str]:
    return [row[0] for row in run(connection, "SELECT id FROM handled ORDER BY id")]


def test_an_event_is_handled_once_by_each_consumer(place: Place) -> None:
    connection = place.connect()
    inbox.create_table(connection)
    assert handle(connection, "a")
    connection.commit()
    assert not handle(connection, "a")
    assert handle(connection, "a", consumer="shipping")
    assert handle(connection, "A")
    connection.commit()
    assert handled(connection) == ["billing:A", "billing:a", "shipping:a"] or handled(connection) == [
        "billing:a",
        "billing:A",
        "shipping:a",
    ]


def test_a_rollback_forgets_the_event(place: Place) -> None:
    connection = place.connect()
    assert handle(connection, "a")
    connection.rollback()
    assert handle(connection, "a")
    connection.commit()
    assert handled(connection) == ["billing:a"]


def test_an_event_that_another_transaction_holds_is_in_flight(place: Place) -> None:
    first, second = place.connect(), place.connect()
    assert handle(first, "a")
    # On SQLite any writer locks the whole database.
    with pytest.raises(sqlite3.OperationalError if place.driver == "sqlite3" else InFlight):
        handle(second, "a", wait=1)
    second.rollback()
    first.commit()
    assert not handle(second, "a", wait=1)
    second.commit()
    assert handled(second) == ["billing:a"]


def test_a_handler_that_rolls_back_is_noticed(place: Place) -> None:
    connection = place.connect()
    with pytest.raises(RolledBack):
        inbox.once(connection, "a", connection.rollback, consumer="billing")


async def asynchronous() -> None: ...


@pytest.mark.parametrize("handler", [asynchronous, lambda: asynchronous()], ids=["seen", "hidden"])
def test_a_handler_that_is_async_is_refused(place: Place, handler: Callable[[], object]) -> None:
    connection = place.connect()
    with pytest.raises(TypeError, match="the handler must be a plain function"):
        inbox.once(connection, "a", handler, consumer="billing")
    connection.rollback()
    assert handle(connection, "a")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("handler", [asynchronous, lambda: asynchronous()], ids=["seen", "hidden"])
def test_django_refuses_a_handler_that_is_async(handler: Callable[[], object]) -> None:
    inbox_django.session("default").script("create")
    try:
        with pytest.raises(TypeError, match="the handler must be a plain function"), transaction.atomic():
            inbox_django.once("a", handler, consumer="tasks")
        with transaction.atomic():
            assert inbox_django.once("a", lambda: None, consumer="tasks")
    finally:
        with connections["default"].cursor() as cursor:
            cursor.execute("DROP TABLE inbox_event")


@pytest.mark.parametrize("id", ["", "a b", "é", "x" * 256, "a\n", None])
def test_an_id_that_no_database_would_keep_is_refused(id: Any) -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        inbox.create_table(connection)
        with pytest.raises(ValueError, match="the id of an event"):
            inbox.once(connection, id, lambda: None, consumer="billing")
        with pytest.raises(ValueError, match="the name of a consumer"):
            inbox.once(connection, "a", lambda: None, consumer=id)


def test_a_driver_that_is_unknown_is_refused() -> None:
    with pytest.raises(TypeError, match="the inbox knows the drivers"):
        inbox.once(object(), "a", lambda: None, consumer="billing")


def autocommit(connection: Any, driver: str) -> None:
    if driver == "sqlite3":
        connection.isolation_level = None
    elif driver == "psycopg":
        connection.autocommit = True
    else:
        connection.autocommit(True)


def test_a_connection_that_commits_each_statement_is_refused(place: Place) -> None:
    connection = place.connect()
    autocommit(connection, place.driver)
    with pytest.raises(RuntimeError, match="no transaction is open"):
        handle(connection, "a")
    assert run(connection, "SELECT id FROM inbox_event") == handled(connection) == []
    # In a transaction, it is like any other.
    run(connection, "BEGIN")
    assert handle(connection, "a")
    connection.rollback()
    run(connection, "BEGIN")
    assert handle(connection, "a")
    connection.commit()
    assert handled(connection) == ["billing:a"]


@pytest.mark.parametrize("place", ["psycopg", "pymysql", "MySQLdb"], indirect=True)
def test_a_statement_timeout_that_ends_the_wait_is_the_wait(place: Place) -> None:
    first, second = place.connect(), place.connect()
    run(second, "SET statement_timeout = 300" if place.driver == "psycopg" else "SET max_statement_time = 0.3")
    second.commit()
    assert handle(first, "a")
    with pytest.raises(InFlight):
        handle(second, "a", wait=20)
    second.rollback()
    first.commit()
    assert not handle(second, "a")


def test_a_lock_error_is_the_databases_only_if_the_handler_fails_by_it() -> None:
    def caught(event: Event, session: Any) -> None:
        try:
            raise psycopg.errors.LockNotAvailable
        except psycopg.Error:
            raise KeyError("total")  # noqa: B904

    def passed_on(event: Event, session: Any) -> None:
        try:
            raise psycopg.errors.LockNotAvailable
        except psycopg.Error as error:
            raise KeyError("total") from error

    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(":memory:")
        inbox.create_table(connection)
        return connection

    receiver = inbox.Inbox("billing", SECRET)
    event = Event("a", 1, b"")
    answers = [receiver.handle(event, transactions(connect), handler).status for handler in (caught, passed_on)]
    assert answers == [500, 503]


@pytest.mark.parametrize("number", [0, -1])
def test_numbers_that_would_do_nothing_are_refused(number: int) -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        inbox.create_table(connection)
        with pytest.raises(ValueError, match="a batch of cleanup has at least 1 record"):
            inbox.cleanup(connection, batch=number)
    with pytest.raises(ValueError, match="a transaction is tried at least once"):
        inbox.Inbox("billing", SECRET, tries=number)


def test_cleanup_deletes_old_records_in_batches(place: Place) -> None:
    connection = place.connect()
    for number in range(7):
        assert handle(connection, f"old-{number}")
    connection.commit()
    age(connection, place.driver)
    assert handle(connection, "new")
    connection.commit()
    assert inbox.cleanup(connection) == 0
    assert inbox.cleanup(connection, timedelta(days=59), batch=3) == 7
    assert [row[0] for row in run(connection, "SELECT id FROM inbox_event")] == ["new"]
    assert inbox.cleanup(connection) == 0
    assert not handle(connection, "new")
    assert handle(connection, "old-1"), "nothing remembers it"


def age(connection: Any, driver: str) -> None:
    """Makes all records nearly sixty days old."""
    old = {
        "psycopg": "received_at - interval '1439 hours'",
        "sqlite3": "strftime('%Y-%m-%d %H:%M:%f', received_at, '-1439 hours')",
    }.get(driver, "received_at - INTERVAL 1439 HOUR")
    run(connection, f"UPDATE inbox_event SET received_at = {old}")
    connection.commit()


@each_outbox
@pytest.mark.django_db(transaction=True, databases="__all__")
def test_django_handles_an_event_once_and_cleans_up(alias: str) -> None:
    connection = connections[alias]
    inbox_django.session(alias).script("create")
    try:
        calls: list[str] = []
        for _ in range(2):
            with transaction.atomic(using=alias):
                inbox_django.once("a", lambda: calls.append("a"), consumer="tasks", using=alias)
        assert calls == ["a"]
        with pytest.raises(transaction.TransactionManagementError):
            inbox_django.once("b", lambda: None, consumer="tasks", using=alias)
        printed = StringIO()
        from pillarbox.inbox.django.management.commands.inbox_cleanup import Command

        call_command(Command(), database=alias, stdout=printed)
        call_command(Command(), database=alias, days=0, stdout=printed)
        assert printed.getvalue() == "0 deleted\n1 deleted\n"
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP TABLE inbox_event")


@pytest.mark.django_db(transaction=True)
def test_django_tells_its_own_connection_from_others_in_an_inner_block() -> None:
    inbox_django.session("default").script("create")

    def own(event: Event, session: Any) -> None:
        with transaction.atomic(), connections["default"].cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")

    def another(event: Event, session: Any) -> None:
        with transaction.atomic(savepoint=False):
            psycopg.connect(f"postgres://postgres@127.0.0.1:{free_port()}/other")

    receiver = inbox.Inbox("tests", SECRET)
    answers = [
        receiver.handle(Event("a", 1, b""), lambda: inbox_django._transaction("default"), handler).status
        for handler in (own, another, lambda event, session: None)
    ]
    try:
        assert answers == [503, 500, 200]
    finally:
        with connections["default"].cursor() as cursor:
            cursor.execute("DROP TABLE inbox_event")


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ([], "there are no keys"),
        (["whsec_"], r"keys\[0\] is not whsec_"),
        (["whsec_" + "AAAA" * 8, "whsec_hunter2"], r"keys\[1\] is not whsec_"),
        (["hunter2!"], r"keys\[0\] is not whsec_"),
        (["whpk_hunter2"], r"keys\[0\] is not whpk_"),
        (["whsk_hunter2"], "is a signing key"),
    ],
)
def test_a_key_that_cannot_be_used_is_refused_and_not_shown(keys: list[str], message: str) -> None:
    with pytest.raises(InvalidKey, match=message) as refused:
        Keys(keys)
    assert "hunter2" not in str(refused.value)


def test_the_package_imports_no_framework() -> None:
    asked = (
        "import sys, pillarbox.inbox; print(sorted({'django', 'starlette', 'psycopg', 'celery'} & set(sys.modules)))"
    )
    command = [python(NEWEST), "-c", asked]
    assert subprocess.run(command, env=environment(), check=True, capture_output=True, text=True).stdout == "[]\n"
