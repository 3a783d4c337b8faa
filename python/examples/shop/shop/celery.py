"""The Celery app. That it is an OutboxCelery is all that differs from other projects."""

import os

from pillarbox.celery import OutboxCelery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")

app = OutboxCelery("shop")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
