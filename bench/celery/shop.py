"""The Django project of the comparison, in one module: settings, the Celery app of django-celery-outbox, and one task.

It is django-celery-outbox's own world, with its defaults; Pillarbox only gets its tables to see.
"""

import os
from urllib.parse import urlsplit

from django_celery_outbox.app import OutboxCelery

_database = urlsplit(os.environ["COMPARE_DATABASE_URL"])
_engine = "mysql" if _database.scheme == "mysql" else "postgresql"
if _engine == "mysql":
    import pymysql

    # Django asks for mysqlclient by its version; PyMySQL says that it can stand in for it.
    pymysql.version_info = (2, 2, 1, "final", 0)
    pymysql.install_as_MySQLdb()

SECRET_KEY = "for a comparison"
INSTALLED_APPS = ["django_celery_outbox"]
DATABASES = {
    "default": {
        "ENGINE": f"django.db.backends.{_engine}",
        "NAME": _database.path.lstrip("/"),
        "USER": _database.username,
        "PASSWORD": _database.password or "",
        "HOST": _database.hostname,
        "PORT": _database.port,
    }
}
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
CELERY_OUTBOX_APP = "shop.app"

app = OutboxCelery("shop", broker=os.environ["COMPARE_BROKER_URL"])
app.conf.task_default_queue = os.environ["COMPARE_QUEUE"]
if os.environ.get("COMPARE_CONFIRMS"):
    app.conf.broker_transport_options = {"confirm_publish": True}


@app.task(name="shop.process")
def process(order: dict) -> None:
    """Nobody runs it: what is compared ends at the broker."""
