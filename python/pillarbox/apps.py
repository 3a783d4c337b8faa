"""The Django app `pillarbox`."""

from __future__ import annotations

from importlib.util import find_spec

from django.apps import AppConfig, apps
from django.conf import settings
from django.core import checks
from django.db.backends.signals import connection_created
from django.db.models.signals import pre_migrate


class PillarboxConfig(AppConfig):
    name = "pillarbox"
    label = "pillarbox"
    verbose_name = "Outbox"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from pillarbox.checks import check_settings
        from pillarbox.databases.sqlite import teach_moments
        from pillarbox.schema import make_without_migrations

        checks.register(check_settings)
        connection_created.connect(teach_moments, dispatch_uid="pillarbox.sqlite")
        pre_migrate.connect(make_without_migrations, sender=self, dispatch_uid="pillarbox.schema")
        _guard_shared_tasks()


def _guard_shared_tasks() -> None:
    """Tasks of a project with an outbox are never sent by Celery's default app."""
    if not getattr(settings, "CELERY_OUTBOX_APP", None) or find_spec("celery") is None:
        return
    if apps.is_installed("django_celery_outbox"):
        return  # the app may be of that package, and nothing is known of it before it is imported
    from pillarbox.celery.default import refuse_default_app

    refuse_default_app()
