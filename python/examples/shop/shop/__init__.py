"""A shop: its tasks and events leave by the outbox."""

from shop.celery import app as celery_app

__all__ = ["celery_app"]
