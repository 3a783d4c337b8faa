"""The settings of a Django project with an outbox, for the processes that tests start; the environment says which."""

import os

from tests.outboxes import database

SECRET_KEY = "project"
USE_TZ = True
INSTALLED_APPS = [{"outbox": "pillarbox", "adopted": "django_celery_outbox"}[os.environ["PROJECT_KIND"]]]
DATABASES = {"default": database(os.environ["PROJECT_DATABASE"])}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
CELERY_OUTBOX_APP = os.environ["PROJECT_APP"]
