"""Migrate: the core's own files, applied by Django.

What results is what `pillarbox migrate` makes, with the table that says which version it is. A database that
`pillarbox migrate` made before is adopted as it stands, and the other way round.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any

from django.db import ProgrammingError, connections, router, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations.base import Operation

from pillarbox import statements

# As the numbered files are called.
VERSIONS = ((1, "outbox"), (2, "desk"))
_TABLES = {
    1: (
        "outbox_audit",
        "outbox_paused",
        "outbox_figure",
        "outbox_lane",
        "outbox_relay",
        "outbox_attempt",
        "outbox_delivery",
        "outbox_event",
        "outbox_migration",
    ),
    2: ("outbox_session", "outbox_job"),
}
_FUNCTIONS = ("outbox_emit", "outbox_uuid7")
_SEQUENCES = ("outbox_idle_until",)


class ApplyOutbox(Operation):
    """One numbered step of the core's schema, unless it is there already."""

    reduces_to_sql = False
    reversible = True

    def __init__(self, version: int, name: str) -> None:
        self.version = version
        self.name = name

    def state_forwards(self, app_label: str, state: Any) -> None:
        """The model's state is told beside it."""

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        connection = schema_editor.connection
        if not router.allow_migrate(connection.alias, app_label, model_name="outboxevent"):
            return
        if schema_editor.collect_sql:
            # `sqlmigrate` looks at no database.
            schema_editor.collected_sql.append(self._file(connection))
        else:
            self.apply(connection)

    def apply(self, connection: BaseDatabaseWrapper) -> None:
        """In the current transaction."""
        with _only_schema(connection):
            _run(connection, statements.text(statements.folder(connection), "migrations_table"))
            if not self._is_there(connection):
                self._refuse_strangers(connection)
                _run(connection, self._file(connection))
                self._write_down(connection)

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        connection = schema_editor.connection
        if not router.allow_migrate(connection.alias, app_label, model_name="outboxevent"):
            return
        for table in _TABLES[self.version]:
            schema_editor.execute(f"DROP TABLE IF EXISTS {table}")
        if self.version > 1:
            schema_editor.execute("DELETE FROM outbox_migration WHERE version = %s", [self.version])
        elif connection.vendor == "postgresql":
            for function in _FUNCTIONS:
                schema_editor.execute(f"DROP FUNCTION IF EXISTS {function}")
            for sequence in _SEQUENCES:
                schema_editor.execute(f"DROP SEQUENCE IF EXISTS {sequence}")

    def describe(self) -> str:
        return f"Apply version {self.version} of the outbox's tables, unless they exist"

    def _file(self, connection: BaseDatabaseWrapper) -> str:
        return statements.text(statements.folder(connection), f"migrations/{self.version:04}_{self.name}")

    def _is_there(self, connection: BaseDatabaseWrapper) -> bool:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1 FROM outbox_migration WHERE version = %s", [self.version])
            return cursor.fetchone() is not None

    def _refuse_strangers(self, connection: BaseDatabaseWrapper) -> None:
        if self.version == 1 and "outbox_event" in connection.introspection.table_names():
            raise ProgrammingError(
                f'the database "{connection.alias}" has a table outbox_event that is not Pillarbox\'s; rename it, '
                "migrate, and copy over what is still pending"
            )

    def _write_down(self, connection: BaseDatabaseWrapper) -> None:
        lines = self._file(connection).splitlines()
        head = "-- Least program: "
        least = next((line.removeprefix(head).strip() for line in lines if line.startswith(head)), "0.1.0")
        with connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO outbox_migration (version, name, least_program) VALUES (%s, %s, %s)",
                [self.version, self.name, least],
            )


def make_without_migrations(sender: Any, using: str, **kwargs: Any) -> None:
    """A receiver of `pre_migrate`: without migrations (`pytest --nomigrations`) too the tables are the core's.

    Django makes from models only those tables that are not there.
    """
    module, _ = MigrationLoader.migrations_module(sender.label)
    if module is None and router.allow_migrate(using, sender.label, model_name="outboxevent"):
        with transaction.atomic(using=using):
            for version, name in VERSIONS:
                ApplyOutbox(version, name).apply(connections[using])


class _only_schema:
    """On PostgreSQL the functions remember the search_path under which they were made: the schema, and nothing else.

    And no two migrate at once, `pillarbox migrate` included.
    """

    def __init__(self, connection: BaseDatabaseWrapper) -> None:
        self.connection = connection
        self.before = ""

    def __enter__(self) -> None:
        if self.connection.vendor != "postgresql":
            return
        with self.connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(hashtext('pillarbox migrate'))")
            cursor.execute("SELECT current_setting('search_path')")
            self.before = cursor.fetchone()[0]
            cursor.execute("SELECT set_config('search_path', quote_ident(current_schema()), true)")

    def __exit__(self, kind: Any, *rest: Any) -> None:
        # After an error the transaction takes no more statements, and the setting ends with it.
        if self.connection.vendor == "postgresql" and kind is None:
            with self.connection.cursor() as cursor:
                cursor.execute("SELECT set_config('search_path', %s, true)", [self.before])


def _run(connection: BaseDatabaseWrapper, script: str) -> None:
    """Without parameters nothing in it is taken for a placeholder."""
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            for statement in _split(script):
                cursor.execute(statement)
        else:
            cursor.execute(script)


def _split(script: str) -> Iterator[str]:
    """SQLite takes one statement at a time; `executescript` would commit Django's transaction."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement.strip()
            statement = ""
    if statement.strip():
        yield statement.strip()
