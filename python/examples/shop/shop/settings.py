"""Settings of the shop. The database is one SQLite file, the outbox in it included."""

import os
from pathlib import Path

ROOM = Path(os.environ.get("SHOP_ROOM", Path(__file__).parents[1]))

SECRET_KEY = "an example has no secrets"  # noqa: S105
USE_TZ = True
TIME_ZONE = "UTC"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = ["pillarbox", "orders"]
DATABASES = {
    "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ROOM / "shop.db", "OPTIONS": {"timeout": 30}},
}

CELERY_BROKER_URL = os.environ.get("SHOP_BROKER", "redis://localhost:6379/0")
CELERY_TASK_IGNORE_RESULT = True
# What a task prints is shown as it is.
CELERY_WORKER_REDIRECT_STDOUTS = False
CELERY_TASK_ROUTES = {"orders.pack": {"queue": "warehouse"}}

CELERY_OUTBOX_APP = "shop.celery.app"
# No DogStatsD server listens here.
MONITORING_METRICS_ENABLED = False
if os.environ.get("SHOP_PROGRAM"):
    PILLARBOX_PROGRAM = os.environ["SHOP_PROGRAM"]
