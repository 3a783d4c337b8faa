"""How the relays of the matrix are configured."""

from __future__ import annotations


def configuration(app: str, database: str, broker: str, queue: str) -> str:
    """What the producer of an outbox resolved needs no more; rows of django-celery-outbox need the routes."""
    return (OUTBOX if app == "outbox" else ADOPTED).format(database=database, broker=broker, queue=queue)


OUTBOX = """
[database]
url = "{database}"

[destinations.celery]
kind = "celery"
broker = "{broker}"
declare = true

[[routes]]
events = "*"
to = ["celery"]
"""

ADOPTED = """
[database]
url = "{database}"

[source]
kind = "django-celery-outbox"

[destinations.celery]
kind = "celery"
broker = "{broker}"
default_queue = "{queue}"
declare = true

[destinations.celery.queues."{queue}"]
arguments = {{ x-max-priority = 10 }}

[destinations.celery.queues."{queue}.topic"]
exchange_type = "topic"
routing_key = "orders.#"

[[destinations.celery.routes]]
tasks = "matrix.routed.*"
queue = "{queue}.other"
"""
