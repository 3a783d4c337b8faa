"""What the adapters of the web frameworks refuse by themselves, and where connections may come from."""

from __future__ import annotations

import functools
import sqlite3
from collections.abc import Callable
from contextlib import closing, nullcontext
from typing import Any

import psycopg
import pytest
from django.test import RequestFactory
from psycopg.rows import dict_row, namedtuple_row, scalar_row, tuple_row
from psycopg_pool import ConnectionPool
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session

from pillarbox.inbox import Event, Inbox, create_table, once
from pillarbox.inbox.connections import transactions
from pillarbox.inbox.django import receiver as django_receiver
from pillarbox.inbox.starlette import receiver as starlette_receiver
from tests.inbox.kits import SECRET
from tests.servers import connect, create_database


def test_django_answers_post_only_and_needs_no_csrf_token() -> None:
    view = django_receiver("tests", SECRET)(lambda event: None)
    response = view(RequestFactory().get("/events"))
    assert (response.status_code, response["allow"]) == (405, "POST")
    assert view.csrf_exempt
    assert view(RequestFactory().post("/events", b"{}", content_type="application/json")).status_code == 401


class Asynchronous:
    async def __call__(self, *arguments: object) -> None: ...


async def coroutine(*arguments: object) -> None: ...


def generator(*arguments: object):
    yield


async def async_generator(*arguments: object):
    yield


@pytest.mark.parametrize(
    "handler", [coroutine, functools.partial(coroutine), Asynchronous()], ids=["function", "partial", "object"]
)
def test_an_async_handler_is_refused_where_it_is_defined(handler: Callable[..., object]) -> None:
    for receiver in (starlette_receiver("tests", SECRET, lambda: None), django_receiver("tests", SECRET)):
        with pytest.raises(TypeError, match="define it without async"):
            receiver(handler)


@pytest.mark.parametrize("handler", [coroutine, generator, async_generator])
def test_a_handler_that_returns_something_that_never_ran_fails(handler: Callable[..., object]) -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        create_table(connection)
        inbox, begin = Inbox("tests", SECRET), transactions(lambda: nullcontext(connection))
        # A plain function around it, as a decorator would make: nobody can see what it will return.
        answers = [inbox.handle(Event("a", 1, b""), begin, lambda event, session: handler()).status for _ in range(2)]
        assert answers == [500, 500]
        assert inbox.handle(Event("a", 1, b""), begin, lambda event, session: 1).text == "handled"


def test_a_handler_needs_no_name() -> None:
    handler = functools.partial(lambda event: None)
    for receiver in (starlette_receiver("tests", SECRET, lambda: None), django_receiver("tests", SECRET)):
        assert callable(receiver(handler))


@pytest.fixture
def database() -> str:
    address = create_database()
    with connect(address) as connection:
        create_table(connection)
        connection.execute("CREATE TABLE handled (id text)")
    return address


def handle_three_times(address: str, source: Callable[[], Any]) -> None:
    """One connection is enough, so it is given back each time, also after an error."""
    inbox, begin = Inbox("tests", SECRET), transactions(source)
    failing = True

    def handler(event: Event, session: Any) -> None:
        session.connection.cursor().execute("INSERT INTO handled VALUES (%s)", [event.id])
        if failing:
            raise RuntimeError

    statuses = []
    for _ in range(3):
        statuses.append(inbox.handle(Event("a", 1, b""), begin, handler).text)
        failing = False
    assert statuses == ["the handler failed", "handled", "duplicate"]
    with connect(address) as connection:
        assert connection.execute("SELECT id FROM handled").fetchall() == [("a",)]


@pytest.mark.parametrize("row_factory", [tuple_row, dict_row, namedtuple_row, scalar_row])
def test_connections_with_other_rows(row_factory: Any, database: str) -> None:
    handle_three_times(database, lambda: psycopg.connect(database, row_factory=row_factory))


def test_connections_of_psycopgs_pool(database: str) -> None:
    with ConnectionPool(database, min_size=1, max_size=1) as pool:
        handle_three_times(database, pool.connection)


def test_connections_of_sqlalchemy(database: str) -> None:
    engine = create_engine(database.replace("postgres:", "postgresql+psycopg:"), pool_size=1, max_overflow=0)
    handle_three_times(database, engine.raw_connection)
    for expected in (True, False):
        with Session(engine) as session, session.begin():
            raw = session.connection().connection
            assert once(raw, "b", lambda: session.execute(text("SELECT 1")), consumer="tests") is expected
    engine.dispose()
