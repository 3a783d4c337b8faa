"""Migrate: the core's own files, applied by Django.

What results is what `pillarbox migrate` makes, with the table that says which version it is. A database that
`pillarbox migrate` made before is adopted as it stands, and the other way round.
"""

from __future__ import annotations

from typing import Any

from django.db import ProgrammingError, connections, router, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations.base import Operation

from pillarbox import databases
from pillarbox.databases.base import Database

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
            # `sqlmigrate` changes no database.
            schema_editor.collected_sql.append(databases.of(connection).file(self._file))
        else:
            self.apply(connection)

    def apply(self, connection: BaseDatabaseWrapper) -> None:
        """In the current transaction, where the database has transactions for DDL."""
        database = databases.of(connection)
        with database.migrating():
            self._refuse_strangers(connection)
            database.script("migrations_table")
            if not self._is_there(connection):
                database.script(self._file)
                self._write_down(database)
            database.complete()

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        connection = schema_editor.connection
        if not router.allow_migrate(connection.alias, app_label, model_name="outboxevent"):
            return
        databases.of(connection).check_removal()
        for table in _TABLES[self.version]:
            schema_editor.execute(f"DROP TABLE IF EXISTS {table}")
        if self.version > 1:
            schema_editor.execute("DELETE FROM outbox_migration WHERE version = %s", [self.version])
        else:
            for kind, name in databases.kind_of(connection).beside_tables:
                schema_editor.execute(f"DROP {kind} IF EXISTS {name}")

    def describe(self) -> str:
        return f"Apply version {self.version} of the outbox's tables, unless they exist"

    @property
    def _file(self) -> str:
        return f"migrations/{self.version:04}_{self.name}"

    def _is_there(self, connection: BaseDatabaseWrapper) -> bool:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1 FROM outbox_migration WHERE version = %s", [self.version])
            return cursor.fetchone() is not None

    def _refuse_strangers(self, connection: BaseDatabaseWrapper) -> None:
        """The table of migrations is made first: one that was cut off, where DDL commits by itself, has left it."""
        tables = connection.introspection.table_names()
        if self.version == 1 and "outbox_event" in tables and "outbox_migration" not in tables:
            raise ProgrammingError(
                f'the database "{connection.alias}" has a table outbox_event that is not Pillarbox\'s; rename it, '
                "migrate, and copy over what is still pending"
            )

    def _write_down(self, database: Database) -> None:
        head = "-- Least program: "
        lines = database.file(self._file).splitlines()
        least = next((line.removeprefix(head).strip() for line in lines if line.startswith(head)), "0.1.0")
        with database.connection.cursor() as cursor:
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
