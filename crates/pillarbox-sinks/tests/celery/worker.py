"""The application of the worker in producers.rs: plain Celery, told by its environment where to consume and to answer."""

import os

from celery import Celery

app = Celery("worker")
app.conf.task_default_queue = os.environ["QUEUE"]
SHOWN = ("id", "group", "group_index", "root_id", "parent_id", "retries", "timelimit", "eta", "expires", "shadow")


@app.task(name="add")
def add(x, y):
    return x + y


@app.task(name="total")
def total(numbers):
    return sum(numbers)


@app.task(name="fail")
def fail():
    raise ValueError("on purpose")


@app.task(name="show", bind=True)
def show(self, *args, **kwargs):
    """What the task was called with, and what it knows of its message."""
    request = self.request
    told = {name: getattr(request, name) for name in SHOWN}
    properties = request.properties or {}
    headers = request.headers or {}
    return {
        "args": args,
        "kwargs": kwargs,
        **told,
        "stamps": request.stamps,
        "tenant": headers.get("tenant"),
        "priority": properties.get("priority"),
    }


@app.task(name="explain")
def explain(failed):
    """With one argument an errback is a task as any other; with three a worker would call it on the spot."""
    return f"{failed} failed"
