"""The databases of the tests that have an outbox, by their aliases, and the routers that put the outbox there."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

#: Which database an alias of `tests.django.settings` is.
ALIASES = {"default": "postgres", "lite": "sqlite", "maria": "mariadb"}
#: Those that are servers.
SERVERS = {alias: name for alias, name in ALIASES.items() if alias != "lite"}

each_outbox = pytest.mark.parametrize("alias", ALIASES, ids=ALIASES.values())

_ENGINES = {"postgres": "django.db.backends.postgresql", "mysql": "django.db.backends.mysql"}


class InLite:
    """Everything else is where it is."""

    alias = "lite"

    def db_for_read(self, model: Any, **hints: Any) -> str | None:
        return self.alias if model._meta.app_label == "pillarbox" else None

    db_for_write = db_for_read


class InMaria(InLite):
    alias = "maria"


def routers(alias: str) -> list[str]:
    """The setting DATABASE_ROUTERS that puts the outbox into a database."""
    return {"default": [], "lite": ["tests.outboxes.InLite"], "maria": ["tests.outboxes.InMaria"]}[alias]


def database(address: str) -> dict[str, Any]:
    """Django's settings of a database on a server, by its URL."""
    url = urlsplit(address)
    if url.scheme == "mysql":
        install_driver()
    return {
        "ENGINE": _ENGINES[url.scheme],
        "NAME": url.path.lstrip("/"),
        "USER": unquote(url.username or ""),
        "PASSWORD": unquote(url.password or ""),
        "HOST": url.hostname,
        "PORT": url.port,
        # The default of Django 5.2 and later.
        "OPTIONS": {"charset": "utf8mb4"} if url.scheme == "mysql" else {},
    }


def install_driver() -> None:
    """Where mysqlclient is not installed, PyMySQL stands in for it, with the version that it is compatible with."""
    if find_spec("MySQLdb") is None:
        import pymysql

        pymysql.install_as_MySQLdb()


def address(variable: str) -> str:
    """The URL of a server, from the environment."""
    found = os.environ.get(variable)
    if not found:
        raise RuntimeError(f'{variable} is not set; run eval "$(scripts/servers start)" first')
    return found
