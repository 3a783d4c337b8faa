"""The project's Celery app, by the setting ``CELERY_OUTBOX_APP``."""

from __future__ import annotations

from celery import Celery
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string

_EXAMPLE = 'set it to the dotted path of your Celery app, for example "shop.celery.app"'


def load_app() -> Celery:
    """The app, finalized: its tasks and queues are known."""
    path = getattr(settings, "CELERY_OUTBOX_APP", None)
    if not path:
        raise ImproperlyConfigured(f"CELERY_OUTBOX_APP is not set; {_EXAMPLE}")
    if not isinstance(path, str):
        raise ImproperlyConfigured(f"CELERY_OUTBOX_APP is a {type(path).__name__}; {_EXAMPLE}")
    try:
        app = import_string(path.replace(":", "."))
    except ImportError as error:
        raise ImproperlyConfigured(f'CELERY_OUTBOX_APP "{path}" cannot be imported: {error}; {_EXAMPLE}') from error
    if not isinstance(app, Celery):
        kind = type(app).__name__
        raise ImproperlyConfigured(f'CELERY_OUTBOX_APP "{path}" is a {kind}, not a Celery app; {_EXAMPLE}')
    app.finalize()
    return app
