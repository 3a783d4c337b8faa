"""An app whose receivers write what they are told to standard output, and fail if it is about a task named "bad"."""

from __future__ import annotations

import json

from django.apps import AppConfig

from pillarbox import signals


def receiver(name):
    def tell(sender, signal, **told):
        print(json.dumps({"signal": name, "sender": sender.__name__, **told}), flush=True)
        if told["task_name"] == "bad":
            raise RuntimeError("a bad receiver")

    return tell


class Listening(AppConfig):
    name = "tests.celery.project.listening"
    label = "listening"
    path = __file__

    def ready(self):
        for name in ("sent", "failed", "dead_lettered"):
            getattr(signals, f"outbox_message_{name}").connect(receiver(name), weak=False)
