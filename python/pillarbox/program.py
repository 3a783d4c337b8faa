"""The program ``pillarbox`` and what it must know of the project: where it is, and the database as a URL."""

from __future__ import annotations

import os
import shutil
import sysconfig
from importlib.util import find_spec
from typing import Any
from urllib.parse import quote, urlencode

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import connections

#: What the program's URLs know of the options that Django hands to PostgreSQL's drivers.
_POSTGRES_OPTIONS = (
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
    "application_name",
    "options",
    "target_session_attrs",
    "connect_timeout",
)


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


def database_url(alias: str) -> str:
    """The database of the settings, password included."""
    wrapper = connections[alias]
    database = wrapper.settings_dict
    if wrapper.vendor == "sqlite":
        if wrapper.is_in_memory_db() or str(database["NAME"]).startswith("file:"):
            raise ImproperlyConfigured(f'the database "{alias}" is not a file, but the relay needs one')
        return f"sqlite://{os.path.abspath(database['NAME'])}"
    if wrapper.vendor != "postgresql":
        raise ImproperlyConfigured(
            f'the database "{alias}" is {wrapper.vendor}, but the relay supports only PostgreSQL and SQLite;'
            " route the app pillarbox to such a database with a database router"
        )
    return _postgres_url(alias, database)


def _postgres_url(alias: str, database: dict[str, Any]) -> str:
    options = database.get("OPTIONS") or {}
    if options.get("service"):
        raise ImproperlyConfigured(
            f'the database "{alias}" is configured by a service file, which the relay does not support; set'
            " HOST and NAME, or PILLARBOX_DATABASE_URL"
        )
    host = database.get("HOST") or ""
    query = {name: str(options[name]) for name in _POSTGRES_OPTIONS if options.get(name)}
    user, password, port = (str(database.get(name) or "") for name in ("USER", "PASSWORD", "PORT"))
    place = ""
    if host:
        login = quote(user, safe="") + (f":{quote(password, safe='')}" if password else "")
        # A directory, where a socket is, stands for a host when its slashes are quoted.
        place = (f"{login}@" if login else "") + _hosts(host, port)
    else:
        # Without a host a URL has no room for the others.
        given = {"user": user, "password": password, "port": port}
        query |= {name: value for name, value in given.items() if value}
    name = quote(str(database.get("NAME") or ""), safe="")
    # A space in a parameter is %20 there, not a plus.
    return f"postgres://{place}/{name}" + (f"?{urlencode(query, quote_via=quote)}" if query else "")


def _hosts(host: str, port: str) -> str:
    """Several hosts, as libpq has them, share one port or have one each."""
    hosts, ports = host.split(","), port.split(",")
    if len(ports) == 1:
        ports *= len(hosts)
    if len(ports) != len(hosts):
        raise ImproperlyConfigured(
            f"HOST names {len(hosts)} hosts and PORT {len(ports)} ports; give one port for each host, or one for all"
        )
    places = (f"[{host}]" if ":" in host else quote(host, safe="") for host in hosts)
    return ",".join(place + (f":{port}" if port else "") for place, port in zip(places, ports, strict=True))


def schema_of(alias: str, table: str) -> str | None:
    """The PostgreSQL schema in which the project finds the table, whatever its search_path is."""
    connection = connections[alias]
    if connection.vendor != "postgresql":
        return None
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE c.oid = to_regclass(%s)",
            [table],
        )
        row = cursor.fetchone()
    if row is None:
        raise ImproperlyConfigured(f'there is no table {table} in the database "{alias}"; run manage.py migrate')
    return row[0]
