"""The program ``pillarbox``: where it is, and what it needs."""

from __future__ import annotations

import shutil
import sysconfig
from importlib.util import find_spec

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured


def find_program() -> str:
    """The setting ``PILLARBOX_PROGRAM``, else the one that came with this package, else the one on the PATH."""
    given = getattr(settings, "PILLARBOX_PROGRAM", None)
    if given:
        if found := shutil.which(given):
            return found
        raise ImproperlyConfigured(f"PILLARBOX_PROGRAM {str(given)!r} is not an executable program")
    if found := shutil.which("pillarbox", path=sysconfig.get_path("scripts")) or shutil.which("pillarbox"):
        return found
    raise ImproperlyConfigured(
        "the program pillarbox was not found: it comes with `pip install pillarbox`; if it is somewhere else, set"
        " PILLARBOX_PROGRAM to its path"
    )


def require_celery() -> None:
    """Who only emits events needs no Celery; who asks for the rest without it is told."""
    if find_spec("celery") is None:
        raise ImproperlyConfigured("Celery is not installed: pip install 'pillarbox[celery]'")
