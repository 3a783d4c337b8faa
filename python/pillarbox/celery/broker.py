"""The broker as a relay must know it: its URL, which is a secret, and the options of kombu's transports that matter."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from celery import Celery

_TLS = {"amqp": "amqps", "pyamqp": "amqps", "redis": "rediss", "amqps": "amqps", "rediss": "rediss"}
_CA = ("ca_certs", "ssl_ca_certs")
_CLIENT_CERTIFICATE = ("certfile", "keyfile", "ssl_certfile", "ssl_keyfile")


@dataclass
class Broker:
    """What a relay is told. ``problems`` are for people, and say nothing secret."""

    url: str
    sentinel_password: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def broker_of(app: Celery, url: str | None = None) -> Broker:
    """The broker that the app writes to, or the one of the URL with the app's options."""
    conf = app.conf
    given = url or conf.broker_write_url or conf.broker_url or ""
    urls = [part.strip() for part in (given.split(";") if isinstance(given, str) else given)]
    broker = Broker(";".join(filter(None, urls)))
    if not broker.url:
        broker.problems.append("the Celery app has no broker_url; in Django's settings it is usually CELERY_BROKER_URL")
    _add_transport_options(broker, conf.broker_transport_options or {})
    if conf.broker_use_ssl:
        _add_tls(broker, conf.broker_use_ssl)
    return broker


def _add_transport_options(broker: Broker, options: dict[str, Any]) -> None:
    scheme = broker.url.partition("://")[0]
    if scheme not in ("redis", "rediss", "redis+socket", "sentinel"):
        return
    for theirs, ours in (("global_keyprefix", "key_prefix"), ("sep", "separator"), ("master_name", "master_name")):
        if options.get(theirs):
            broker.options[ours] = str(options[theirs])
    if options.get("priority_steps"):
        broker.options["priority_steps"] = [int(step) for step in options["priority_steps"]]
    broker.sentinel_password = (options.get("sentinel_kwargs") or {}).get("password")


def _add_tls(broker: Broker, tls: Any) -> None:
    """Celery's ``broker_use_ssl``: true, or what Python's ssl is given."""
    parts = []
    for url in broker.url.split(";"):
        scheme, separator, rest = url.partition("://")
        parts.append(f"{_TLS.get(scheme, scheme)}{separator}{rest}")
    broker.url = ";".join(parts)
    if not isinstance(tls, dict):
        return
    for name in _CA:
        if tls.get(name):
            broker.options["ca_file"] = str(tls[name])
    if any(tls.get(name) for name in _CLIENT_CERTIFICATE):
        broker.problems.append("broker_use_ssl has a client certificate, which the relay does not support")
    required = tls.get("cert_reqs", tls.get("ssl_cert_reqs", 2))
    if str(required).lower() not in ("2", "required", "cert_required", "verifymode.cert_required"):
        broker.problems.append(
            "broker_use_ssl does not verify the broker's certificate, but the relay always does;"
            " set the certificate authority as ca_certs"
        )
