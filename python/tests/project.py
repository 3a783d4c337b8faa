"""The settings of a Django project with an outbox, for the processes that tests start; the environment says which."""

import os
from urllib.parse import urlsplit

_database = urlsplit(os.environ["PROJECT_DATABASE"])

SECRET_KEY = "project"
USE_TZ = True
INSTALLED_APPS = [{"outbox": "pillarbox", "adopted": "django_celery_outbox"}[os.environ["PROJECT_KIND"]]]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": _database.path[1:],
        "USER": _database.username,
        "HOST": _database.hostname,
        "PORT": _database.port,
    }
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
CELERY_OUTBOX_APP = os.environ["PROJECT_APP"]
