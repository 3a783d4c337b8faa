"""What is masked in Django's admin, and what stays as it was; the cases of the program's own masking, and Celery's."""

from __future__ import annotations

import json

import pytest
from django.contrib.auth.models import User
from django.core.checks import run_checks
from django.test import Client

import pillarbox
from pillarbox import handlers, json_path
from pillarbox.mask import Shown
from pillarbox.models import OutboxEvent
from tests.outboxes import routers

EVENTS = "/admin/pillarbox/outboxevent/"
DEAD = "/admin/pillarbox/deadletter/"
SECRET = "4111 1111 1111"


def shown(settings, paths, payload) -> Shown:
    settings.PILLARBOX_MASK = paths
    return Shown(OutboxEvent(aggregate_type="Order", event_type="order.placed", payload=payload))


def complaints() -> set[str]:
    return {message.id for message in run_checks()}


@pytest.mark.parametrize(
    ("paths", "payload", "masked"),
    [
        (
            ["$.card.number", "$.items[*].price", "$..token"],
            {"card": {"number": "4", "name": "Ann"}, "items": [{"price": 1, "sku": "a"}, {"price": 2}], "token": "t"},
            {"card": {"number": "•••", "name": "Ann"}, "items": [{"price": "•••", "sku": "a"}, {"price": "•••"}]}
            | {"token": "•••"},
        ),
        (["$['card']", "$.items[1]"], {"card": [1], "items": [1, 2]}, {"card": "•••", "items": [1, "•••"]}),
        (["$.a['b c'].d"], {"a": {"b c": {"d": 1}}}, {"a": {"b c": {"d": "•••"}}}),
        (["$[\"a\\\"b\", 'c\\'d']"], {'a"b': 1, "c'd": 2, "e": 3}, {'a"b': "•••", "c'd": "•••", "e": 3}),
        (["$"], [1], "•••"),
        (["$.a", "$.a.b"], {"a": {"b": 1}}, {"a": "•••"}),
        (["$[-1]", "$[0:4:2]"], [0, 1, 2, 3, 4, 5], ["•••", 1, "•••", 3, 4, "•••"]),
        (["$..*"], {"a": [1, {"b": 2}]}, {"a": "•••"}),
        (["$..[0]"], {"a": [1, [2, 3]]}, {"a": ["•••", ["•••", 3]]}),
        (["$.größe", "$.*.x"], {"größe": 1, "o": {"x": 1, "y": 2}}, {"größe": "•••", "o": {"x": "•••", "y": 2}}),
        (["$.missing", "$[0]"], {"total": 1.5, "0": 2}, {"total": 1.5, "0": 2}),
        ([], {"card": 1}, {"card": 1}),
    ],
)
def test_paths_find_names_items_and_whatever_is_below(settings, paths, payload, masked):
    assert shown(settings, paths, payload).payload == masked


@pytest.mark.parametrize(
    ("path", "complaint"),
    [
        ("card.number", "does not begin with \\$"),
        ("", "does not begin with \\$"),
        (7, "does not begin with \\$"),
        ("$.card[", "it ends too early"),
        ("$.items[*", "it ends too early"),
        ("$.", "it ends too early"),
        ("$..", "it ends too early"),
        ("$[name]", "'name]' is not valid"),
        ("$.card-number", "'-number' is not valid"),
        ("$.[0]", "'\\[0]' is not valid"),
        ("$.a[?@.b == 1]", "has a filter"),
    ],
)
def test_a_wrong_path_says_what_and_masks_everything(settings, path, complaint):
    with pytest.raises(json_path.InvalidPath, match=complaint):
        json_path.parse(path)
    event = shown(settings, ["$.fine", path], {"card": {"number": SECRET}})
    assert event.payload == "•••"
    assert event.text(f"refused {SECRET}") == "refused •••"


@pytest.mark.django_db(databases="__all__")
@pytest.mark.parametrize("paths", ["$.card", ["card"], [7], [["$.card"]], {"$.card": 1}])
def test_a_wrong_setting_is_found_by_the_check(settings, paths):
    settings.PILLARBOX_MASK = ["$.card"]
    assert "pillarbox.E012" not in complaints()
    settings.PILLARBOX_MASK = paths
    assert "pillarbox.E012" in complaints()
    assert shown(settings, paths, {"card": 1}).payload == "•••"


@pytest.mark.django_db(databases="__all__")
def test_what_only_the_relay_masks_is_found_by_the_check(settings, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pillarbox.toml").write_text('[admin]\nmask = ["$.card", "$..token"]\n')
    settings.PILLARBOX_MASK = ["$.card", "$.other"]
    (message,) = [message for message in run_checks() if message.id == "pillarbox.W005"]
    assert message.msg == "pillarbox.toml masks $..token, and Django's admin does not."
    settings.PILLARBOX_MASK = ["$.card", "$..token"]
    assert "pillarbox.W005" not in complaints()
    (tmp_path / "pillarbox.toml").write_text("[admin")
    assert "pillarbox.W005" not in complaints()


def test_texts_about_an_event_do_not_quote_what_is_masked(settings):
    payload = {"card": {"number": "4111 1111", "cvc": 123, "name": 'An "A" B'}, "id": "4111"}
    event = shown(settings, ["$.card"], payload)
    for text, scrubbed in {
        "the number 4111 1111 is refused": "the number ••• is refused",
        "4111 11114111 1111": "••••••",
        r'{"name":"An \"A\" B"} an "a" b': '{"name":"•••"} •••',
        "cvc 123, not 1234 and order 91230": "cvc •••, not 1234 and order 91230",
        "cut off: 4111 1": "cut off: •••",
        "nothing of it: 411, id": "nothing of it: 411, id",
        "": "",
    }.items():
        assert event.text(text) == scrubbed
    assert shown(settings, ["$.none"], payload).text("4111 1111") == "4111 1111"


@pytest.fixture
def page(alias, settings):
    """Reads a page of the admin as a superuser."""
    settings.DATABASE_ROUTERS = routers(alias)
    client = Client()
    client.force_login(User.objects.create_superuser("root", password="x"))
    return lambda address: client.get(address).content.decode()


def test_the_admin_shows_nothing_that_is_masked(page, settings, monkeypatch, caplog):
    def refuse(event):
        raise RuntimeError(f"the bank refuses {event.payload['card']['number']}")

    settings.PILLARBOX_MASK = ["$.card.number"]
    monkeypatch.setattr(handlers, "_registered", [("order.*", refuse)])
    headers = {"tenant": "acme", "Authorization": "Bearer hunter2", "x-card": SECRET}
    payload = {"card": {"number": SECRET, "name": "Ann"}}
    event = pillarbox.emit_event("Order", 1, "order.placed", payload, headers=headers, max_attempts=1)
    pillarbox.process_pending_events()
    row = OutboxEvent.objects.get(pk=event.pk)
    assert (row.status, row.payload) == ("failed", payload)
    assert row.error_message == "RuntimeError: the bank refuses •••"
    # As a relay without this setting would write it.
    OutboxEvent.objects.filter(pk=event.pk).update(error_message=f"the bank refuses {SECRET}")
    for address in (f"{EVENTS}{event.pk}/change/", f"{DEAD}{event.pk}/change/", DEAD):
        text = page(address)
        assert "the bank refuses •••" in text
        assert SECRET not in text
        assert "hunter2" not in text
    assert str(event.pk) not in page(f"{DEAD}?q=4111")
    settings.PILLARBOX_MASK = []
    assert str(event.pk) in page(f"{DEAD}?q=4111")
    settings.PILLARBOX_MASK = ["$.card.number"]
    assert "Ann" in page(f"{EVENTS}{event.pk}/change/")
    assert "acme" in page(f"{EVENTS}{event.pk}/change/")


def redact(task_name, args, kwargs):
    """Of all tasks, the second argument and what is called a card."""
    return [*args[:1], *("<hidden>" for _ in args[1:])], {**kwargs, **({"card": "<card>"} if "card" in kwargs else {})}


def broken(task_name, args, kwargs):
    raise LookupError(args)


def recorded(args, kwargs, *, content_type="application/json", body=None, **embed) -> OutboxEvent:
    payload = {
        "celery": 1,
        "body": body or json.dumps([args, kwargs, embed]),
        "content_type": content_type,
        "headers": {"task": "orders.pay", "id": "t1", "argsrepr": repr(args), "kwargsrepr": repr(kwargs)},
    }
    fields = {"aggregate_type": "celery", "aggregate_id": "t1", "event_type": "orders.pay", "payload": payload}
    return OutboxEvent(**fields, error_message=f"refused {args} {kwargs}")


def test_the_arguments_of_a_task_are_redacted(settings):
    settings.CELERY_OUTBOX_PII_REDACTOR = f"{__name__}.redact"
    inner = {"task": "orders.mail", "args": [7, "ann@example.com"], "kwargs": {}, "options": {"link": []}}
    event = recorded([42, SECRET], {"card": "5555 4444", "n": 1}, chain=[inner])
    masked = Shown(event)
    args, kwargs, embed = json.loads(masked.payload["body"])
    assert (args, kwargs) == ([42, "<hidden>"], {"card": "<card>", "n": 1})
    assert embed["chain"][0]["args"] == [7, "<hidden>"]
    assert masked.payload["headers"] == {"task": "orders.pay", "id": "t1", "argsrepr": "•••", "kwargsrepr": "•••"}
    assert masked.text(event.error_message) == "refused [42, '•••'] {'card': '•••', 'n': 1}"
    plain = recorded([42], {"n": 1})
    assert Shown(plain).payload == plain.payload


@pytest.mark.parametrize("redactor", [broken, "no.such.function", 7], ids=["broken", "missing", "a number"])
def test_a_redactor_that_fails_shows_nothing(settings, caplog, redactor):
    settings.CELERY_OUTBOX_PII_REDACTOR = redactor
    masked = Shown(recorded([42, SECRET], {}))
    assert (masked.payload["body"], masked.payload["headers"]["argsrepr"]) == ("•••", "•••")
    assert masked.text(f"refused {SECRET}") == "refused •••"
    assert "celery_outbox_redaction_failed task_name=orders.pay" in caplog.text
    assert SECRET not in caplog.text


def test_a_body_that_is_not_json_is_not_opened(settings):
    settings.CELERY_OUTBOX_PII_REDACTOR = redact
    pickled = recorded([], {}, content_type="application/x-python-serialize", body={"base64": "gASVdGVzdA=="})
    assert Shown(pickled).payload["body"] == "•••"


def test_a_masked_body_takes_the_shown_arguments_with_it(settings):
    settings.PILLARBOX_MASK = ["$.body"]
    masked = Shown(recorded([42, SECRET], {}))
    assert (masked.payload["body"], masked.payload["headers"]["argsrepr"]) == ("•••", "•••")
    assert masked.payload["headers"]["task"] == "orders.pay"


@pytest.mark.django_db(databases="__all__")
@pytest.mark.parametrize("redactor", ["no.such.function", 7, lambda task_name: None], ids=["missing", "number", "args"])
def test_a_wrong_redactor_is_found_by_the_check(settings, redactor):
    settings.CELERY_OUTBOX_PII_REDACTOR = redact
    assert "pillarbox.E013" not in complaints()
    settings.CELERY_OUTBOX_PII_REDACTOR = redactor
    assert "pillarbox.E013" in complaints()


def test_an_opaque_payload_is_hidden_as_a_whole_when_anything_is_masked(settings):
    event = OutboxEvent(payload="CCo=", headers={"pillarbox-content-type": "a/b"}, error_message="got CCo=")
    assert Shown(event).payload == "CCo="
    settings.PILLARBOX_MASK = ["$.card"]
    masked = Shown(event)
    assert (masked.payload, masked.text(event.error_message)) == ("•••", "got •••")
