"""A receiver in Django, on its own server: python -m tests.inbox.receive_django"""

import os

import django
from django.conf import settings
from django.core.management import call_command
from django.core.servers.basehttp import run
from django.core.wsgi import get_wsgi_application
from django.db import connection
from django.urls import path

from tests.inbox import handling
from tests.outboxes import database

ADDRESS = os.environ["DATABASE_URL"]
SQLITE = {
    "ENGINE": "django.db.backends.sqlite3",
    "NAME": ADDRESS.removeprefix("sqlite://"),
    "OPTIONS": {"timeout": float(os.environ.get("INBOX_WAIT", 5))},
}

settings.configure(
    SECRET_KEY="tests",
    ALLOWED_HOSTS=["*"],
    ROOT_URLCONF=__name__,
    INSTALLED_APPS=["pillarbox.inbox.django"],
    # The view must not be in a transaction of Django's.
    DATABASES={
        "default": {**(SQLITE if ADDRESS.startswith("sqlite:") else database(ADDRESS)), "ATOMIC_REQUESTS": True}
    },
)
django.setup()

from pillarbox.inbox.django import receiver  # noqa: E402


def execute(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


@receiver(**handling.settings())
def events(event):
    handling.handle(event, execute, lambda: connection.connection.rollback())


urlpatterns = [path("events", events)]

if __name__ == "__main__":
    call_command("migrate", verbosity=0)
    run("127.0.0.1", int(os.environ["PORT"]), get_wsgi_application(), threading=True)
