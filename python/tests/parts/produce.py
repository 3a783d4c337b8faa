"""A producer: `python -m tests.parts.produce COMMAND …`; the environment says for which outbox.

migrate         makes the tables
send N          sends N tasks, a hundred in a transaction
trace           sends one inside a transaction of Sentry's
"""

from __future__ import annotations

import contextlib
import sys

from django.core.management import call_command
from django.db import transaction

from .app import KIND, RUN, count, marks, when

BATCH = 100


def migrate() -> None:
    call_command("migrate", verbosity=0)


def send(number: int) -> None:
    for start in range(0, number, BATCH):
        with transaction.atomic():
            sent = [count.delay(task).id for task in range(start, min(start + BATCH, number))]
        marks().sadd(f"{RUN}-sent", *sent)


def trace() -> None:
    import sentry_sdk

    with sentry_sdk.start_transaction(name="producer"), transaction.atomic():
        count.delay(1)
    sentry_sdk.flush()


def delay(seconds: int) -> None:
    with transaction.atomic() if KIND != "plain" else contextlib.nullcontext():
        when.apply_async(countdown=seconds)


match sys.argv[1:]:
    case ["migrate"]:
        migrate()
    case ["send", number]:
        send(int(number))
    case ["trace"]:
        trace()
    case ["delay", seconds]:
        delay(int(seconds))
    case _:
        sys.exit(__doc__)
