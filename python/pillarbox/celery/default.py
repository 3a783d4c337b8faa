"""The app that sends the tasks of ``@shared_task``: the one that is current in the thread, else the default of all.

Celery makes a default app of its own where no app was imported. It would send tasks to the broker at once, also those
of transactions that are rolled back. So an app with an outbox takes its place, and until one is imported nothing is
sent.
"""

from __future__ import annotations

from typing import Any, NoReturn

from celery import Celery, _state
from django.core.exceptions import ImproperlyConfigured

HINT = (
    "import the app in the __init__.py of the project's package, as in "
    '"from .celery import app as celery_app", and set DJANGO_SETTINGS_MODULE before the app is made'
)


class NoApp(Celery):
    """Takes the place of Celery's default app until the project's app is imported. It sends nothing."""

    def __init__(self) -> None:
        super().__init__("no app", fixups=[], set_as_current=False, loader="default")

    def send_task(self, name: str, *args: Any, **options: Any) -> NoReturn:
        raise ImproperlyConfigured(
            f'the task "{name}" was sent by Celery\'s default app, past the outbox: the app of CELERY_OUTBOX_APP has'
            f" not been imported in this process; {HINT}"
        )


def refuse_default_app() -> None:
    """Called when Django starts. An app that was imported before stays."""
    become_default(NoApp())


def become_default(app: Celery) -> None:
    """Makes the app the default of all threads, unless another app of the project is."""
    if _state.default_app is None or is_nobodys(_state.default_app):
        app.set_default()


def is_nobodys(app: Celery) -> bool:
    """Whether this is not an app of the project but a default."""
    # Celery's own: see celery._state.
    return isinstance(app, NoApp) or (type(app) is Celery and app.main == "default" and not app.fixups)
