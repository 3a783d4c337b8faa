"""Retry and replace: the successor of a task is recorded when the task's code has ended.

``self.retry()`` and ``self.replace()`` leave the task by an exception, which rolls back the transaction around them. A
row in that transaction would be undone, and the task would be lost. So the row waits here until the code of the task
has ended, successfully or not. If the process dies earlier, nothing is recorded: the broker redelivers the task if it
is acknowledged late.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from celery import Task
from celery.app.trace import task_has_custom

#: The rows that wait for the end of the running task. None if no task of an outbox runs.
_waiting: ContextVar[list[Any] | None] = ContextVar("pillarbox_waiting_for_the_end", default=None)

#: Set while a task sends its successor.
_leaving: ContextVar[bool] = ContextVar("pillarbox_leaving", default=False)


def waiting() -> list[Any] | None:
    """Returns the list for the successor of the running task; None for every other message."""
    return _waiting.get() if _leaving.get() else None


def prepare(task: Task, write: Callable[[list[Any]], None]) -> Task:
    """Wraps a task of any base class so that ``write`` is called with the waiting rows at the end of its code."""
    if getattr(task, "_pillarbox_prepared", False):
        return task
    task._pillarbox_prepared = True
    # On the instance, as Celery's own autoretry does.
    task.run = _to_its_end(task.run, write)
    task.retry = _leaves(task.retry)
    task.replace = _leaves(task.replace)
    if task_has_custom(task, "__call__"):
        # It runs around ``run``, perhaps in a transaction. Python looks it up in the class only.
        cls = type(task)
        names = {"__call__": _to_its_end(cls.__call__, write), "__module__": cls.__module__, "__doc__": cls.__doc__}
        task.__class__ = type(cls.__name__, (cls,), names)
    return task


def _to_its_end(run: Callable[..., Any], write: Callable[[list[Any]], None]) -> Callable[..., Any]:
    @functools.wraps(run)
    def run_to_its_end(*args: Any, **kwargs: Any) -> Any:
        rows: list[Any] = []
        outer = _waiting.get()
        tokens = _waiting.set(rows if outer is None else outer), _leaving.set(False)
        try:
            return run(*args, **kwargs)
        finally:
            _waiting.reset(tokens[0])
            _leaving.reset(tokens[1])
            if rows:
                # A database error replaces Retry here: the task fails with it.
                write(rows)

    return run_to_its_end


def _leaves(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def leave(*args: Any, **kwargs: Any) -> Any:
        token = _leaving.set(True)
        try:
            return method(*args, **kwargs)
        finally:
            _leaving.reset(token)

    return leave
