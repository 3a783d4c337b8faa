"""A producer of the matrix: makes all calls, each in a transaction of its own, and tells what their results were.

`python -m tests.matrix.produce`; who sends, and to where, says the environment.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import Any

from celery.result import ResultBase, ResultSet

from . import app as world
from .calls import CALLS, Call

PATIENCE = 240
KIND = os.environ["MATRIX_TAG"]


def transaction() -> contextlib.AbstractContextManager[Any]:
    if world.APP == "plain":
        return contextlib.nullcontext()
    from django.db import transaction

    return transaction.atomic()


def migrate() -> None:
    if world.APP != "plain":
        from django.core.management import call_command

        call_command("migrate", verbosity=0)


def tag(call: Call) -> str:
    return f"{call.name}{KIND}"


def main() -> None:
    migrate()
    calls = [call for call in CALLS.values() if world.APP != "adopted" or call.adopted]
    results: list[tuple[Call, ResultBase]] = []
    for call in calls:
        submitted = time.time()
        with transaction():
            results.append((call, call.send(world, tag(call))))
        world.tell(tag(call), "submitted", at=submitted)
    world.tell(KIND, "produced")
    for call, result in results:
        if call.result:
            wait_for(result)
            world.tell(tag(call), "result", type=type(result).__name__, id=result.id, value=repr(value(result)))


def wait_for(result: ResultBase) -> None:
    """By asking the backend: `get` would do it through subscriptions, in steps of half a second."""
    deadline = time.monotonic() + PATIENCE
    while not result.ready():
        assert time.monotonic() < deadline, f"{result!r} is not ready after {PATIENCE} s"
        time.sleep(0.02)


def value(result: ResultBase) -> Any:
    return [value(part) for part in result.results] if isinstance(result, ResultSet) else result.result


if __name__ == "__main__":
    main()
