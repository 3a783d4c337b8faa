"""The tables that the Rust tests adopt are those that django-celery-outbox's own migrations make."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

TABLES = Path(__file__).resolve().parents[3] / "crates" / "pillarbox-testkit" / "src" / "celery_outbox.sql"
MIGRATE = """
import json, sys
import django
from django.conf import settings
settings.configure(
    INSTALLED_APPS=["django_celery_outbox"], USE_TZ=True, CELERY_OUTBOX_APP="tests.adopted.published.app",
    DATABASES={"default": {"ENGINE": "django.db.backends.postgresql", **json.loads(sys.argv[1])}},
)
django.setup()
from django.core.management import call_command
call_command("migrate", "django_celery_outbox", verbosity=0, skip_checks=True)
"""


@pytest.fixture
def databases() -> Iterator[list[str]]:
    """Two fresh databases, by their connection strings."""
    server = os.environ["PILLARBOX_TEST_POSTGRES"]
    names = [f"pillarbox_adopted_{os.getpid()}_{number}" for number in range(2)]
    with psycopg.connect(server, autocommit=True) as connection:
        for name in names:
            connection.execute(f"CREATE DATABASE {name}")
        yield [make_conninfo(server, dbname=name) for name in names]
        for name in names:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def migrate(conninfo: str) -> None:
    """As `manage.py migrate django_celery_outbox` does, in a process with Django settings of its own."""
    parts = conninfo_to_dict(conninfo)
    settings = {
        "NAME": parts["dbname"],
        "USER": parts.get("user", ""),
        "PASSWORD": parts.get("password", ""),
        "HOST": parts.get("host", ""),
        "PORT": str(parts.get("port", "")),
    }
    subprocess.run([sys.executable, "-c", MIGRATE, json.dumps(settings)], check=True)


def dump(conninfo: str) -> list[str]:
    """The two tables as pg_dump tells them."""
    command = ["pg_dump", "--schema-only", "--no-owner", "--table=celery_outbox*", f"--dbname={conninfo}"]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    return [line for line in lines if not line.startswith(("\\restrict", "\\unrestrict"))]


def test_the_tables_of_the_rust_tests_are_those_of_its_migrations(databases: list[str]) -> None:
    """Column by column and index by index."""
    made, copied = databases
    migrate(made)
    with psycopg.connect(copied) as connection:
        connection.execute(TABLES.read_text())
    assert dump(copied) == dump(made)
    assert any("celery_outbox_stale_idx" in line for line in dump(made))
