"""The project's Celery app."""

from __future__ import annotations

from pillarbox.celery import OutboxCelery

app = OutboxCelery("project")
app.config_from_object("django.conf:settings", namespace="CELERY")
