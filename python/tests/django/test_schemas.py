"""PILLARBOX_SCHEMAS: emit refuses what violates its schema, and the transaction stays usable."""

from __future__ import annotations

import decimal
import json
import sys

import pytest
from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured
from django.db import transaction

import pillarbox
from pillarbox.models import OutboxEvent

ORDER = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "required": ["items"],
    "properties": {"items": {"items": {"$ref": "#/$defs/item"}}, "card": {"maxLength": 4}, "a b": {"type": "null"}},
    "$defs": {"item": {"type": "object", "properties": {"price": {"type": "string"}}}},
}


@pytest.fixture
def order(tmp_path, settings):
    """A schema for orders, one for the rest, and what to do to write another one."""

    def write(name: str, schema: object) -> str:
        file = tmp_path / name
        file.write_text(schema if isinstance(schema, str) else json.dumps(schema))
        return str(file)

    settings.PILLARBOX_SCHEMAS = [
        {"events": "order.*", "file": write("order.json", ORDER)},
        {"file": write("rest.json", {"type": "object"})},
    ]
    return write


def test_a_violation_names_the_path_and_no_value_and_the_transaction_stays_usable(order, alias):
    def emit(payload, event_type="order.placed"):
        return pillarbox.emit_event("Order", 1, event_type, payload, using=alias)

    with transaction.atomic(using=alias):
        emit({"items": [{"price": decimal.Decimal("1.50")}]})
        with pytest.raises(pillarbox.SchemaViolation) as refused:
            emit({"items": [{"price": "1"}, {"price": 773311}], "card": "4111111111111111", "a b": 1})
        told = str(refused.value)
        assert 'order.json: payload.items[1].price: value does not satisfy type: "string"' in told
        assert "payload.card: value does not satisfy maxLength: 4" in told
        assert 'payload["a b"]: ' in told
        assert "773311" not in told
        assert "4111" not in told
        with pytest.raises(pillarbox.InvalidEvent, match="payload: 'items' is a required property"):
            emit({})
        with pytest.raises(ValueError, match="rest.json: payload: value does not satisfy type"):
            emit([], "invoice.paid")
        with pytest.raises(pillarbox.SchemaViolation):
            events = [("Order", "1", "order.placed", {"items": []}), ("Order", "2", "order.placed", {})]
            names = ("aggregate_type", "aggregate_id", "event_type", "payload")
            pillarbox.emit_events([dict(zip(names, event, strict=True)) for event in events], using=alias)
        emit({"anything": 1}, "invoice.paid")
    assert OutboxEvent.objects.using(alias).count() == 2


@pytest.mark.django_db(databases="__all__")
@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ("{", "the file is not JSON"),
        ({"properties": {"total": {"type": "numbr"}}}, "#/properties/total/type: 'numbr' is not valid"),
        ({"$ref": "https://schemas.example/order.json"}, "is not a place in the file"),
        ({"properties": {"money": {"$ref": "#/$defs/money"}}}, '"#/$defs/money" is not a place in the file'),
        ({"properties": {"default": {"$ref": "#/$defs/money"}}}, '"#/$defs/money" is not a place in the file'),
    ],
)
def test_a_broken_file_is_reported_when_the_project_starts(order, settings, schema, expected):
    settings.PILLARBOX_SCHEMAS = [{"events": "order.*", "file": order("broken.json", schema)}]
    found = {message.id: message.msg for message in run_checks()}
    assert expected in found["pillarbox.E015"]
    with pytest.raises(ImproperlyConfigured):
        pillarbox.emit_event("Order", 1, "order.placed", {})


@pytest.mark.django_db(databases="__all__")
@pytest.mark.parametrize(
    "value",
    ["order.json", {"order.*": "order.json"}, ["order.json"], [{"event": "*", "file": "x"}], [{"file": "none.json"}]],
)
def test_a_wrong_setting_is_reported_when_the_project_starts(settings, value):
    settings.PILLARBOX_SCHEMAS = value
    assert "pillarbox.E015" in [message.id for message in run_checks()]


@pytest.mark.django_db(databases="__all__")
def test_without_the_package_the_check_names_it(order, settings, monkeypatch):
    settings.PILLARBOX_SCHEMAS = [{"file": order("other.json", {})}]
    monkeypatch.setitem(sys.modules, "jsonschema", None)
    assert any("pip install 'pillarbox[schemas]'" in message.msg for message in run_checks())


@pytest.mark.django_db(databases="__all__")
def test_a_file_may_be_relative_to_the_project(order, settings, tmp_path):
    settings.BASE_DIR = tmp_path
    order("beside.json", {"type": "array"})
    settings.PILLARBOX_SCHEMAS = [{"file": "beside.json"}]
    with pytest.raises(pillarbox.SchemaViolation, match="schema beside.json: payload: "):
        pillarbox.emit_event("Order", 1, "order.placed", {})
