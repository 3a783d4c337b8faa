"""Who sends: plain Celery is what the others are compared with."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """A producer, and the worker that runs what it sends."""

    name: str
    title: str
    app: str
    """Whose application class the producer has: `plain`, `outbox` or `adopted`."""
    worker: str = "plain"
    """And the worker, which sends, too: what comes next in a chain, retries, and whatever tasks ask for."""

    database: str = "postgres"
    """Where its outbox is."""

    @property
    def tag(self) -> str:
        """What the tags of its calls end with. All have the same length, so that reprs are cut at the same place."""
        return f"@{self.name[0]}"


PLAIN = Kind("plain", "Celery", "plain")
KINDS = [
    PLAIN,
    Kind("outbox", "OutboxCelery", "outbox"),
    Kind("within", "OutboxCelery, also in the worker", "outbox", worker="outbox"),
    Kind("mariadb", "OutboxCelery on MariaDB, also in the worker", "outbox", worker="outbox", database="mariadb"),
    Kind("adopted", "django-celery-outbox 0.4.3", "adopted"),
]
