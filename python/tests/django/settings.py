"""A Django project for the tests, with three outboxes.

They are in PostgreSQL (`default`, PILLARBOX_TEST_POSTGRES), MariaDB (`maria`, PILLARBOX_TEST_MYSQL) and SQLite
(`lite`).
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import tempfile
from pathlib import Path

from tests.outboxes import address, database

ADDRESS, MYSQL = address("PILLARBOX_TEST_POSTGRES"), address("PILLARBOX_TEST_MYSQL")

# A directory of this process: several test runs may go on at once.
ROOM = Path(tempfile.mkdtemp(prefix="pillarbox-django."))
atexit.register(shutil.rmtree, ROOM, ignore_errors=True)

DATABASES = {
    "default": {
        **database(ADDRESS),
        "OPTIONS": json.loads(os.environ.get("PILLARBOX_TEST_OPTIONS", "{}")),
        "TEST": {"NAME": f"test_pillarbox_{os.getpid()}"},
    },
    "maria": {**database(MYSQL), "TEST": {"NAME": f"test_pillarbox_{os.getpid()}"}},
    "lite": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ.get("PILLARBOX_TEST_SQLITE") or ROOM / "lite.db",
        "OPTIONS": {"timeout": 30},
        # A file, because the program opens it too.
        "TEST": {"NAME": ROOM / "test_lite.db"},
    },
}

SECRET_KEY = "for tests only"
ALLOWED_HOSTS = ["*"]
DEBUG = False
USE_TZ = True
TIME_ZONE = "Europe/Berlin"
LANGUAGE_CODE = "en"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
ROOT_URLCONF = "tests.django.urls"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "pillarbox",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]
