"""Creates the inbox by the same file as the other kits."""

from __future__ import annotations

from typing import Any

from django.db import router
from django.db.migrations.operations.base import Operation

from pillarbox.inbox.databases import script
from pillarbox.inbox.django import session


class CreateInbox(Operation):
    """The table `inbox_event`, unless it exists."""

    reduces_to_sql = False
    reversible = True

    def state_forwards(self, app_label: str, state: Any) -> None:
        """There is no model: the table has a key of two columns."""

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        using = schema_editor.connection.alias
        if router.allow_migrate(using, app_label):
            for statement in script(session(using).folder, "create"):
                schema_editor.execute(statement, None)

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        if router.allow_migrate(schema_editor.connection.alias, app_label):
            schema_editor.execute("DROP TABLE IF EXISTS inbox_event")

    def describe(self) -> str:
        return "Create the table inbox_event, unless it exists"
