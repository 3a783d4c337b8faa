"""An event as a handler receives it, and the names that the inbox accepts as keys. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

_NAME = re.compile(r"[\x21-\x7e]+")
_LONGEST_ID, _LONGEST_CONSUMER = 255, 100
#: The beginning of the id of a test event, which the signature covers. No other event of Pillarbox has such an id.
_TEST_ID = "70696c6c-7465-8"


@dataclass(frozen=True)
class Event:
    """A verified event. The signature covers `id`, `timestamp` and `body`, and none of the other headers."""

    id: str
    timestamp: int
    body: bytes
    #: By names in lower case.
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def type(self) -> str:
        return unquote(self.headers.get("pillarbox-event-type", ""))

    @property
    def aggregate_type(self) -> str:
        return unquote(self.headers.get("pillarbox-aggregate-type", ""))

    @property
    def aggregate_id(self) -> str:
        return unquote(self.headers.get("pillarbox-aggregate-id", ""))

    @property
    def is_test(self) -> bool:
        """Whether this is a test event of Pillarbox, which a person has sent to see whether the receiver works.

        An inbox answers it without the handler. The header alone would not do: the signature does not cover it.
        """
        return self.id.startswith(_TEST_ID) and self.headers.get("pillarbox-test") == "true"

    def json(self) -> Any:
        """Returns the body, parsed. Raises ValueError."""
        return json.loads(self.body)


def is_id(text: str) -> bool:
    """Returns whether every database stores and compares this id as it is."""
    return len(text) <= _LONGEST_ID and _NAME.fullmatch(text) is not None


def check_id(text: str) -> str:
    """Returns the id, or raises ValueError."""
    if not isinstance(text, str) or not is_id(text):
        raise ValueError(f"the id of an event has 1 to {_LONGEST_ID} visible ASCII characters, but is {text!r}")
    return text


def check_consumer(text: str) -> str:
    """Returns the name of a consumer, or raises ValueError."""
    if not isinstance(text, str) or len(text) > _LONGEST_CONSUMER or not _NAME.fullmatch(text):
        raise ValueError(
            f"the name of a consumer has 1 to {_LONGEST_CONSUMER} visible ASCII characters, but is {text!r}"
        )
    return text
