"""The tables that Django makes are those that `pillarbox migrate` makes, to the letter."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from django.db import NotSupportedError, connections

from pillarbox import databases, schema
from tests.django import program, settings

PACKAGE = Path(__file__).parents[2]
CORE = program.REPOSITORY / "crates" / "pillarbox" / "sql"
# Those that only Python needs.
OWN = {
    "claim_handled.sql",
    "claim_handled_lease.sql",
    "claim_handled_lock.sql",
    "record.sql",
    "record_all.sql",
    "record_and_wake.sql",
    "remaining_handled.sql",
    "retry_answers.sql",
    "summary.sql",
}


def is_own(path: Path) -> bool:
    # The core has no other use for the number of old events on MariaDB and MySQL.
    return path.name in OWN or path.parts[-2:] == ("mysql", "cleanup_remaining.sql")


@pytest.fixture
def database() -> Iterator[str]:
    """The address of an empty PostgreSQL database."""
    name = f"pillarbox_schema_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(settings.ADDRESS, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        yield re.sub(r"/[^/]*$", f"/{name}", settings.ADDRESS)
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


other = database


def manage(
    *arguments: str, postgres: str = settings.ADDRESS, mysql: str = settings.MYSQL, sqlite: Path | None = None
) -> str:
    addresses = {"PILLARBOX_TEST_POSTGRES": postgres, "PILLARBOX_TEST_MYSQL": mysql}
    environment = {**os.environ, **addresses, "PYTHONPATH": str(PACKAGE)}
    if sqlite is not None:
        environment["PILLARBOX_TEST_SQLITE"] = str(sqlite)
    command = [sys.executable, "-m", "django", *arguments, "--settings", "tests.django.settings"]
    answer = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def dump(address: str) -> str:
    """Everything of the schema but Django's own tables, and which versions are written down."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_dump"))
    tool = str(found[-1]) if found else shutil.which("pg_dump")
    excluded = ["--exclude-table=django_*", "--exclude-table=auth_*"]
    command = [tool, "--schema-only", *excluded, address]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    # A new pg_dump puts a random word into each dump.
    text = re.sub(r"(?m)^\\(un)?restrict .*$", "", text)
    with psycopg.connect(address) as connection:
        schema = connection.execute("SELECT current_schema()").fetchone()[0]
        table = f'"{schema}".outbox_migration'
        versions = connection.execute(f"SELECT version, name, least_program FROM {table}").fetchall()
    return f"{text}\n{versions}"


def master(path: Path) -> list[tuple]:
    with sqlite3.connect(path) as connection:
        tables = connection.execute(
            "SELECT type, name, sql FROM sqlite_master WHERE tbl_name LIKE 'outbox%' ORDER BY type, name"
        ).fetchall()
        versions = connection.execute("SELECT version, name, least_program FROM outbox_migration").fetchall()
    return [*tables, *versions]


def test_on_postgres_the_dumps_are_equal(database, other, tmp_path):
    manage("migrate", postgres=database)
    program.run(other, "migrate", cwd=tmp_path)
    assert dump(database) == dump(other)
    assert "CREATE FUNCTION public.outbox_emit" in dump(database)


def test_in_another_schema_too(database, other, tmp_path):
    for address in (database, other):
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute("CREATE SCHEMA shop")
            name = address.rsplit("/", 1)[1]
            connection.execute(f'ALTER DATABASE {name} SET search_path = "$user", shop, public')
    manage("migrate", postgres=database)
    program.run(other, "migrate", cwd=tmp_path, PILLARBOX_DATABASE_SCHEMA="shop")
    assert dump(database) == dump(other)
    assert "CREATE TABLE shop.outbox_event" in dump(database)


def test_what_the_program_migrated_is_adopted_and_the_other_way_round(database, other, tmp_path):
    program.run(database, "migrate", cwd=tmp_path)
    program.run(database, "emit", "Order", "1", "order.placed", cwd=tmp_path)
    before = dump(database)
    manage("migrate", postgres=database)
    assert dump(database) == before
    assert program.run(database, "stats", cwd=tmp_path)["due"] == 1

    manage("migrate", postgres=other)
    before = dump(other)
    program.run(other, "migrate", cwd=tmp_path)
    assert dump(other) == before


def test_back_to_nothing(database, tmp_path):
    manage("migrate", postgres=database)
    manage("migrate", "pillarbox", "zero", postgres=database)
    with psycopg.connect(database) as connection:
        left = connection.execute(
            "SELECT relname FROM pg_class WHERE relname LIKE 'outbox%'"
            " UNION SELECT proname FROM pg_proc WHERE proname LIKE 'outbox%'"
        ).fetchall()
    assert left == []
    manage("migrate", postgres=database)
    assert program.run(database, "stats", cwd=tmp_path)["due"] == 0


def test_a_table_of_somebody_else_is_not_touched(database):
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("CREATE TABLE outbox_event (id int)")
    with pytest.raises(AssertionError, match="has a table outbox_event that is not Pillarbox's; rename it"):
        manage("migrate", "pillarbox", postgres=database)


def test_on_sqlite_the_masters_are_equal(tmp_path):
    ours, cores = tmp_path / "ours.db", tmp_path / "cores.db"
    manage("migrate", "--database", "lite", sqlite=ours)
    program.run(f"sqlite://{cores}", "migrate", cwd=tmp_path)
    assert master(ours) == master(cores)
    assert len(master(ours)) > 10
    # Each takes the other's.
    assert program.run(f"sqlite://{ours}", "stats", cwd=tmp_path)["due"] == 0
    manage("migrate", "--database", "lite", sqlite=cores)
    assert master(ours) == master(cores)
    manage("migrate", "pillarbox", "zero", "--database", "lite", sqlite=ours)
    with sqlite3.connect(ours) as connection:
        left = connection.execute("SELECT count(*) FROM sqlite_master WHERE tbl_name LIKE 'outbox%'").fetchone()
    assert left == (0,)


def test_sqlmigrate_shows_the_cores_file():
    assert "CREATE TABLE outbox_event (" in manage("sqlmigrate", "pillarbox", "0001")


def test_the_statements_are_the_cores_own():
    linked = [path for path in (PACKAGE / "pillarbox" / "sql").rglob("*.sql") if not is_own(path)]
    assert len(linked) > 50
    for path in linked:
        original = CORE / path.relative_to(PACKAGE / "pillarbox" / "sql")
        assert path.resolve() == original.resolve(), f"link {path} to {original}"


def test_every_migration_of_the_core_is_there():
    for folder in ("postgres", "mysql", "sqlite"):
        names = sorted(path.name for path in (CORE / folder / "migrations").glob("*.sql"))
        ours = sorted(path.name for path in (PACKAGE / "pillarbox" / "sql" / folder / "migrations").glob("*.sql"))
        assert ours == names
        # Each needs a Django migration that applies it.
        applied = "".join(path.read_text() for path in (PACKAGE / "pillarbox" / "migrations").glob("0*.py"))
        for number, name in enumerate(names):
            version, title = name.removesuffix(".sql").split("_", 1)
            assert schema.VERSIONS[number] == (int(version), title)
            assert f'ApplyOutbox({int(version)}, "{title}")' in applied


def test_another_database_is_refused_with_what_to_do(monkeypatch):
    monkeypatch.setattr(connections["default"], "vendor", "oracle")
    with pytest.raises(NotSupportedError, match="needs PostgreSQL, MariaDB, MySQL or SQLite; route the app pillarbox"):
        databases.of(connections["default"])
