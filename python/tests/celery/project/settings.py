"""A Django project that runs in processes of its own, on a database of the tests."""

from __future__ import annotations

import json
import os

from tests.outboxes import install_driver

DATABASES = {"default": json.loads(os.environ["PROJECT_DATABASE"])}
if DATABASES["default"]["ENGINE"].endswith(".mysql"):
    install_driver()
INSTALLED_APPS = ["pillarbox", *json.loads(os.environ.get("PROJECT_APPS", "[]"))]
SECRET_KEY = "for tests only"
USE_TZ = True
CELERY_OUTBOX_APP = "tests.celery.project.celery.app"
CELERY_OUTBOX_STALE_TIMEOUT_SECONDS = 301
CELERY_BROKER_URL = os.environ.get("PROJECT_BROKER", "amqp://guest:hunter2@127.0.0.1:1//")
CELERY_TASK_DEFAULT_QUEUE = os.environ.get("PROJECT_QUEUE", "celery")
if _tick := os.environ.get("PROJECT_TICK_SECONDS"):
    CELERY_BEAT_SCHEDULE = {"tick": {"task": "tick", "schedule": float(_tick)}}
OTHER_BROKER = "redis://:hunter3@127.0.0.1:1/0"
PILLARBOX_PROGRAM = os.environ["PROJECT_PROGRAM"]
MONITORING_METRICS_ENABLED = False
