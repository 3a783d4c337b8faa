"""What people read of a task's arguments: redacted where the project says so, and never a reason to refuse a task."""

from __future__ import annotations

import json

import pytest

from pillarbox.testing import decode
from tests.django.test_mask import SECRET, broken, redact

PAY = ("shop.failed", [42, SECRET], {"card": "5555 4444", "n": 1})


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [(["a\0b"], {}), (["\ud800"], {"k": "\udfff\0"}), ([{"\0": ["x\ud800"]}], {}), (["😀"], {})],
)
@pytest.mark.parametrize("serializer", ["json", "pickle"])
def test_any_text_that_the_body_can_carry_is_recorded(outbox, recorded, args, kwargs, serializer):
    outbox.send_task("shop.failed", args, kwargs, serializer=serializer)
    (payload,) = recorded()
    received_args, received_kwargs, _ = decode(payload)
    assert (list(received_args), received_kwargs) == (args, kwargs)
    for name in ("argsrepr", "kwargsrepr"):
        assert "\0" not in payload["headers"][name]


def test_the_shown_arguments_are_redacted_and_the_worker_gets_the_real_ones(outbox, recorded, settings):
    settings.CELERY_OUTBOX_PII_REDACTOR = redact
    outbox.send_task(*PAY)
    outbox.tasks["shop.failed"].apply_async(tuple(PAY[1]), PAY[2])
    for payload in recorded():
        assert decode(payload)[:2] == (PAY[1], PAY[2])
        assert SECRET not in json.dumps(payload["headers"])
        assert "5555" not in json.dumps(payload["headers"])
    listed, tupled = (payload["headers"] for payload in recorded())
    assert (listed["argsrepr"], tupled["argsrepr"]) == ("[42, '<hidden>']", "(42, '<hidden>')")
    assert listed["kwargsrepr"] == tupled["kwargsrepr"] == "{'card': '<card>', 'n': 1}"


def test_what_the_caller_shows_is_kept(outbox, recorded, settings):
    settings.CELERY_OUTBOX_PII_REDACTOR = redact
    outbox.send_task(*PAY, argsrepr="(<mine>)")
    headers = recorded()[0]["headers"]
    assert (headers["argsrepr"], headers["kwargsrepr"]) == ("(<mine>)", "{'card': '<card>', 'n': 1}")


def test_a_redactor_that_fails_shows_nothing_and_stops_nobody(outbox, recorded, settings, caplog):
    settings.CELERY_OUTBOX_PII_REDACTOR = broken
    outbox.send_task(*PAY)
    headers = recorded()[0]["headers"]
    assert (headers["argsrepr"], headers["kwargsrepr"]) == ("•••", "•••")
    assert decode(recorded()[0])[:2] == (PAY[1], PAY[2])
    assert "celery_outbox_redaction_failed task_name=shop.failed" in caplog.text
    assert SECRET not in caplog.text
