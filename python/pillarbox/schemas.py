"""JSON Schemas of payloads: emit checks by the setting `PILLARBOX_SCHEMAS`, patterns of event types with their files.

The relay checks by `[[schemas]]` of its configuration; the setting has the same keys. It needs the package jsonschema
(draft 2020-12, unless a schema's `$schema` names another draft). References lead to places inside of their file, and
nothing is fetched.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from pillarbox.handlers import matches

_LISTED = 3
_LONGEST = 300
_HINT = 'write [{"events": "order.*", "file": "schemas/order.json"}]'
# Their messages quote names of properties, and no values.
_ABOUT_NAMES = ("required", "additionalProperties", "unevaluatedProperties", "dependentRequired")


def violation(event_type: str, payload: str) -> str | None:
    """What is wrong with a payload, given as JSON, without its values. The first schema whose pattern fits decides."""
    for pattern, file in configured():
        if matches(pattern, event_type):
            errors = _validator(file).iter_errors(json.loads(payload))
            told = [_told(error) for error in islice(errors, _LISTED)]
            if not told:
                return None
            more = sum(1 for _ in errors)
            return f"schema {file}: {'; '.join(told)}" + (f"; and {more} more" if more else "")
    return None


def configured() -> Iterator[tuple[str, str]]:
    """The patterns with their files, in order."""
    given = getattr(settings, "PILLARBOX_SCHEMAS", None) or []
    if isinstance(given, str | Mapping):
        raise ImproperlyConfigured(f"PILLARBOX_SCHEMAS is not a list; {_HINT}")
    for schema in given:
        if not isinstance(schema, Mapping) or not set(schema) <= {"events", "file"} or "file" not in schema:
            raise ImproperlyConfigured(f"PILLARBOX_SCHEMAS has {schema!r}; {_HINT}")
        yield schema.get("events", "*"), str(schema["file"])


def load_all() -> None:
    """Reads every file; raises ImproperlyConfigured for the first one that cannot be used."""
    for _, file in configured():
        _validator(file)


@cache
def _validator(file: str) -> Any:
    try:
        from jsonschema import Draft202012Validator, SchemaError
        from jsonschema.validators import validator_for
        from referencing import Registry
    except ImportError as error:
        raise ImproperlyConfigured(
            f"PILLARBOX_SCHEMAS needs the package jsonschema: pip install 'pillarbox[schemas]' ({error})"
        ) from error
    try:
        schema = json.loads((Path(getattr(settings, "BASE_DIR", "")) / file).read_text(encoding="utf-8"))
    except OSError as error:
        raise ImproperlyConfigured(f"schema {file}: the file cannot be read: {error}") from error
    except ValueError as error:
        raise ImproperlyConfigured(f"schema {file}: the file is not JSON: {error}") from error
    kind = validator_for(schema, default=Draft202012Validator)
    try:
        kind.check_schema(schema)
    except SchemaError as error:
        place = "/".join(["#", *map(str, error.absolute_path)])
        raise ImproperlyConfigured(f"schema {file}: {place}: {error.message}") from error
    for reference in _references(schema):
        if not _leads_inside(schema, reference):
            raise ImproperlyConfigured(
                f'schema {file}: "{reference}" is not a place in the file; write a reference like "#/$defs/money"'
            )
    # An empty registry fetches nothing.
    return kind(schema, registry=Registry())


_DATA = ("const", "default", "enum", "examples")
_NAMED = ("$defs", "definitions", "dependentSchemas", "patternProperties", "properties")
"""Keywords whose values are schemas by name. A name may be that of a keyword."""


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, Mapping):
        if isinstance(schema.get("$ref"), str):
            yield schema["$ref"]
        for key, value in schema.items():
            if key in _NAMED and isinstance(value, Mapping):
                for named in value.values():
                    yield from _references(named)
            elif key not in _DATA:
                yield from _references(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _references(value)


def _leads_inside(schema: Any, reference: str) -> bool:
    """Anchors are left to the validator; a pointer must lead somewhere."""
    if not reference.startswith("#"):
        return False
    if not reference.startswith("#/") or "%" in reference:
        return True
    for part in reference[2:].split("/"):
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(schema, list) and name.isdecimal() and int(name) < len(schema):
            schema = schema[int(name)]
        elif isinstance(schema, Mapping) and name in schema:
            schema = schema[name]
        else:
            return False
    return True


def _told(error: Any) -> str:
    path = "payload" + "".join(_part(part) for part in error.absolute_path)
    if error.validator in _ABOUT_NAMES:
        what = error.message
    else:
        what = f"value does not satisfy {error.validator}: {json.dumps(error.validator_value, ensure_ascii=False)}"
    return f"{path}: {what[:_LONGEST]}" + ("…" if len(what) > _LONGEST else "")


def _part(part: str | int) -> str:
    if isinstance(part, int):
        return f"[{part}]"
    plain = part.replace("_", "a").replace("-", "a")
    return f".{part}" if plain.isascii() and plain.isalnum() else f"[{json.dumps(part, ensure_ascii=False)}]"
