"""JSON paths (RFC 9535) without filters: `$.card.number`, `$.items[*].price`, `$..token`. Pure.

They name what is masked, as `[admin] mask` of the program does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_NAME = re.compile(r"[^\W\d]\w*")
_INTEGER = re.compile(r"0|-?[1-9]\d*")
_SLICE = re.compile(r"(-?\d+)?\s*:\s*(-?\d+)?\s*(?::\s*(-?\d+)?)?")
_STRING = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'")
_SPACE = re.compile(r"\s*")

EXAMPLES = '"$.card.number", "$.items[*].price" or "$..token"'


class InvalidPath(ValueError):
    """A path that cannot be followed, and why."""


class _All:
    """The selector `*`."""


Selector = str | int | slice | _All


@dataclass(frozen=True)
class Segment:
    """One step of a path: to children, or to all descendants (`..`)."""

    selectors: tuple[Selector, ...]
    descends: bool

    def selects(self, key: str | int, count: int) -> bool:
        """Whether it leads to this member of an object, or this item of a list of so many."""
        return any(_matches(selector, key, count) for selector in self.selectors)


Path = tuple[Segment, ...]


def parse(path: Any) -> Path:
    """The steps of a path. Raises InvalidPath."""
    if not isinstance(path, str) or not path.startswith("$"):
        raise InvalidPath(f"{path!r} is not a JSON path: it does not begin with $; write it like {EXAMPLES}")
    segments, place = [], 1
    while place < len(path):
        segment, place = _segment(path, place)
        segments.append(segment)
    return tuple(segments)


def _segment(path: str, place: int) -> tuple[Segment, int]:
    descends = path.startswith("..", place)
    if descends:
        place += 2
    elif path.startswith(".", place):
        place += 1
    elif not path.startswith("[", place):
        raise _not_understood(path, place)
    if path.startswith("[", place):
        if not descends and path[place - 1] == ".":
            raise _not_understood(path, place)
        selectors, place = _bracket(path, place + 1)
    elif path.startswith("*", place):
        selectors, place = (_All(),), place + 1
    elif found := _NAME.match(path, place):
        selectors, place = (found[0],), found.end()
    else:
        raise _not_understood(path, place)
    return Segment(selectors, descends), place


def _bracket(path: str, place: int) -> tuple[tuple[Selector, ...], int]:
    selectors: list[Selector] = []
    while True:
        selector, place = _selector(path, _SPACE.match(path, place).end())
        selectors.append(selector)
        place = _SPACE.match(path, place).end()
        if path.startswith("]", place):
            return tuple(selectors), place + 1
        if not path.startswith(",", place):
            raise _not_understood(path, place)
        place += 1


def _selector(path: str, place: int) -> tuple[Selector, int]:
    if path.startswith("*", place):
        return _All(), place + 1
    if path.startswith("?", place):
        raise InvalidPath(f"{path!r} has a filter ({path[place:]!r}), which Django's admin does not support")
    if found := _STRING.match(path, place):
        return _text(path, found[0]), found.end()
    if found := _SLICE.match(path, place):
        parts = [int(part) if part else None for part in found.groups()]
        return slice(*parts), found.end()
    if found := _INTEGER.match(path, place):
        return int(found[0]), found.end()
    raise _not_understood(path, place)


def _text(path: str, quoted: str) -> str:
    if quoted.startswith("'"):
        quoted = '"' + quoted[1:-1].replace("\\'", "'").replace('"', '\\"') + '"'
    try:
        return json.loads(quoted)
    except ValueError:
        raise InvalidPath(f"{path!r} is not a JSON path: {quoted} is not text; write it like {EXAMPLES}") from None


def _not_understood(path: str, place: int) -> InvalidPath:
    what = f"{path[place:]!r} is not valid" if place < len(path) else "it ends too early"
    return InvalidPath(f"{path!r} is not a JSON path: {what}; write it like {EXAMPLES}")


def _matches(selector: Selector, key: str | int, count: int) -> bool:
    if isinstance(selector, _All):
        return True
    if isinstance(selector, str) or isinstance(key, str):
        return selector == key
    if isinstance(selector, slice):
        return selector.step != 0 and key in range(*selector.indices(count))
    return selector in (key, key - count)


def children(value: Any) -> Iterator[tuple[str | int, Any]]:
    """The members of an object with their names, the items of a list with their numbers."""
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, list):
        yield from enumerate(value)


def below(paths: list[Path], key: str | int, count: int) -> list[Path]:
    """What is left of the paths after the step to a child."""
    left = []
    for path in paths:
        if path[0].selects(key, count):
            left.append(path[1:])
        if path[0].descends:
            left.append(path)
    return left
