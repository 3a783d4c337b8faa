"""Celery through the outbox: tasks that are sent if, and only if, the transaction commits."""

from pillarbox.celery.app import OutboxCelery

__all__ = ["OutboxCelery"]
