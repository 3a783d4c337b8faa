"""A database router that puts the outbox into SQLite, and everything else where it is."""

from __future__ import annotations

from typing import Any


class OutboxInLite:
    def db_for_read(self, model: Any, **hints: Any) -> str | None:
        return "lite" if model._meta.app_label == "pillarbox" else None

    db_for_write = db_for_read
