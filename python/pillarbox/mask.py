"""Masking: Django's admin shows secret values of a payload as `•••`.

The setting `PILLARBOX_MASK` names them by JSON paths, as `[admin] mask` names them for the program's pages. For Celery
tasks the function `CELERY_OUTBOX_PII_REDACTOR` decides. A value that is masked must not come out another way: errors
may quote it, so each text about an event is scrubbed. When it cannot be told what is to be masked, everything is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from django.conf import settings

from pillarbox import json_path, redact
from pillarbox.models import CELERY, OutboxEvent

MASKED = redact.MASKED

#: Headers that let somebody in, whatever the paths say.
CREDENTIALS = {"authorization", "proxy-authorization", "cookie", "set-cookie", "x-api-key", "x-auth-token"}

# In characters, as the program has them.
#: Shorter values are in too many words.
_SHORTEST = 3
#: Shorter values are hidden only where they stand alone.
_SHORTEST_WITHIN = 6
#: The beginning of a value at the very end of a text, where that was cut.
_SHORTEST_CUT = 4


class Shown:
    """An event as it may be shown."""

    def __init__(self, event: OutboxEvent) -> None:
        self._values: list[str] = []
        try:
            self.payload = self._masked(event)
        except (json_path.InvalidPath, RecursionError):
            self.payload = MASKED
            self._hide(event.payload)

    def _masked(self, event: OutboxEvent) -> Any:
        payload = event.payload
        is_task = event.aggregate_type == CELERY and isinstance(payload, dict)
        if is_task and redact.is_wanted():
            payload, hidden = redact.redacted_message(event.event_type, payload)
            self._hide(hidden)
        if paths := parsed(tuple(configured())):
            if event.is_opaque:
                # Paths do not reach into bytes.
                self._hide(payload)
                return MASKED
            before, payload = payload, self._replaced(payload, list(paths))
            if is_task and isinstance(payload, dict) and payload.get("body") != before.get("body"):
                payload = redact.without_reprs(payload)
        return payload

    def _replaced(self, value: Any, paths: list[json_path.Path]) -> Any:
        if not all(paths):
            self._hide(value)
            return MASKED
        if not paths or not isinstance(value, dict | list):
            return value
        below = [
            (key, self._replaced(child, json_path.below(paths, key, len(value))))
            for key, child in json_path.children(value)
        ]
        return dict(below) if isinstance(value, dict) else [child for _, child in below]

    def _hide(self, value: Any) -> None:
        for leaf in leaves(value):
            # As JSON and as Python quote it.
            forms = {leaf, json.dumps(leaf, ensure_ascii=False)[1:-1], json.dumps(leaf)[1:-1], repr(leaf)[1:-1]}
            self._values += [form for form in forms if len(form) >= _SHORTEST]

    def headers(self, headers: dict[str, Any]) -> dict[str, Any]:
        """Those of the event, without credentials."""
        return {
            name: MASKED if name.lower() in CREDENTIALS else self._scrubbed(value) for name, value in headers.items()
        }

    def _scrubbed(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: self._scrubbed(item) for name, item in value.items()}
        if isinstance(value, list):
            return [self._scrubbed(item) for item in value]
        return self.text(value) if isinstance(value, str) else value

    def text(self, text: str) -> str:
        """A text about the event, with `•••` in place of what is masked."""
        found = [place for value in self._values for place in _places(value, text)]
        scrubbed, end = "", 0
        for start, stop in sorted(found):
            if start >= end:
                scrubbed += text[end:start] + MASKED
            end = max(end, stop)
        return scrubbed + text[end:]


def configured() -> list[Any]:
    """The setting `PILLARBOX_MASK`."""
    paths = getattr(settings, "PILLARBOX_MASK", None) or []
    if isinstance(paths, str) or not isinstance(paths, list | tuple | set | frozenset):
        raise json_path.InvalidPath("PILLARBOX_MASK is not a list of JSON paths")
    for path in paths:
        if not isinstance(path, str):
            json_path.parse(path)  # raises
    return list(paths)


def is_wanted() -> bool:
    """Whether anything is masked."""
    return bool(getattr(settings, "PILLARBOX_MASK", None)) or redact.is_wanted()


@cache
def parsed(paths: tuple[Any, ...]) -> tuple[json_path.Path, ...]:
    """The paths, ready to be followed. Raises InvalidPath."""
    return tuple(map(json_path.parse, paths))


def leaves(value: Any) -> Iterator[str]:
    """All texts and numbers in it, as text, without the names of members."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield json.dumps(value)
    else:
        for _, child in json_path.children(value):
            yield from leaves(child)


def _places(value: str, text: str) -> Iterator[tuple[int, int]]:
    """Where a value stands in a text, and where it was cut off at the end."""
    for found in re.finditer(f"(?=({re.escape(value)}))", text, re.IGNORECASE):
        start, stop = found.span(1)
        around = text[max(start - 1, 0) : start] + text[stop : stop + 1]
        if stop - start >= _SHORTEST_WITHIN or not any(map(str.isalnum, around)):
            yield start, stop
    for length in range(min(len(value) - 1, len(text)), _SHORTEST_CUT - 1, -1):
        if text.endswith(value[:length]):
            yield len(text) - length, len(text)
            return
