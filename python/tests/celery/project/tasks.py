"""Tasks of the project that leave their transactions by an exception."""

from __future__ import annotations

import django

django.setup()

from django.db import transaction  # noqa: E402

from pillarbox import emit_event  # noqa: E402
from tests.celery.project.celery import app  # noqa: E402

#: An argument that no database can hold as text.
ODD = "in\0stead\ud800"


@app.task(name="again", bind=True)
def again(self, times):
    """Retries itself so often, and is replaced then."""
    with transaction.atomic():
        emit_event("Run", self.request.retries, "ran")
        if self.request.retries < times:
            raise self.retry(countdown=0)
        return self.replace(instead.s(ODD))


@app.task(name="instead")
def instead(name):
    with transaction.atomic():
        emit_event("Run", ascii(name), "ran")
