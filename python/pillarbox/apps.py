"""The Django app `pillarbox`."""

from __future__ import annotations

from django.apps import AppConfig
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
        from pillarbox.schema import make_without_migrations
        from pillarbox.sqlite import teach_moments

        checks.register(check_settings)
        connection_created.connect(teach_moments, dispatch_uid="pillarbox.sqlite")
        pre_migrate.connect(make_without_migrations, sender=self, dispatch_uid="pillarbox.schema")
