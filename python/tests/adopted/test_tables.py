"""The tables that the Rust tests adopt are those that django-celery-outbox's own migrations make."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import servers

PYTHON = Path(__file__).resolve().parents[2]
TABLES = PYTHON.parent / "crates" / "pillarbox-testkit" / "src" / "celery_outbox"
MIGRATE = """
import sys
import django
from django.conf import settings
from tests.outboxes import database
settings.configure(
    INSTALLED_APPS=["django_celery_outbox"], USE_TZ=True, CELERY_OUTBOX_APP="tests.adopted.published.app",
    DATABASES={"default": database(sys.argv[1])},
)
django.setup()
from django.core.management import call_command
call_command("migrate", "django_celery_outbox", verbosity=0, skip_checks=True)
"""


def migrate(address: str) -> None:
    """As `manage.py migrate django_celery_outbox` does, in a process with Django settings of its own."""
    subprocess.run([sys.executable, "-c", MIGRATE, address], check=True, cwd=PYTHON)


def dump(address: str) -> list[str]:
    """The two tables as pg_dump tells them."""
    command = ["pg_dump", "--schema-only", "--no-owner", "--table=celery_outbox*", f"--dbname={address}"]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    return [line for line in lines if not line.startswith(("\\restrict", "\\unrestrict"))]


def shown(address: str) -> list[str]:
    """The two tables as MariaDB tells them."""
    with servers.connect(address) as connection, connection.cursor() as cursor:
        found = []
        for table in ("celery_outbox", "celery_outbox_dead_letter"):
            cursor.execute(f"SHOW CREATE TABLE {table}")
            found += cursor.fetchone()[1].splitlines()
        return found


@pytest.mark.parametrize(("server", "tell"), [("postgres", dump), ("mariadb", shown)])
def test_the_tables_of_the_rust_tests_are_those_of_its_migrations(
    server: str, tell: Callable[[str], list[str]]
) -> None:
    """Column by column and index by index."""
    made, copied = servers.create_database(server), servers.create_database(server)
    migrate(made)
    statements = (TABLES / {"postgres": "postgres.sql", "mariadb": "mysql.sql"}[server]).read_text()
    with servers.connect(copied) as connection, connection.cursor() as cursor:
        for statement in statements.split(";"):
            if statement.strip():
                cursor.execute(statement)
    assert tell(copied) == tell(made)
    assert any("celery_outbox_stale_idx" in line for line in tell(made))
