"""Opaque payloads: bytes of any content type. The row holds their base64 as a JSON string, and a header their type.

Pure: the core's `event/opaque.rs` is the same.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any

#: The header that marks an opaque payload.
HEADER = "pillarbox-content-type"
JSON = "application/json"

_LONGEST = 255
_WORD = r"[A-Za-z0-9!#$%&'*+\-.^_`|~]+"
_CONTENT_TYPE = re.compile(rf"{_WORD}/{_WORD} *(;[ -~]*)?")
#: `encode()` of PostgreSQL and `TO_BASE64()` of MariaDB break lines.
_SPACES = str.maketrans("", "", " \t\r\n")
_SHOWN, _PER_LINE = 256, 16


def is_content_type(text: Any) -> bool:
    return isinstance(text, str) and len(text) <= _LONGEST and _CONTENT_TYPE.fullmatch(text) is not None


def is_opaque(headers: Any) -> bool:
    """Whether these headers mark an opaque payload."""
    return isinstance(headers, Mapping) and HEADER in headers


def encode(payload: bytes | bytearray | memoryview) -> str:
    return base64.b64encode(payload).decode()


def decode(payload: Any) -> bytes:
    """Returns the bytes of a stored payload. Raises ValueError if it is not base64 in a string."""
    if not isinstance(payload, str):
        raise ValueError("the payload is marked as opaque, but is not base64 in a JSON string: it is not a string")
    try:
        return base64.b64decode(payload.translate(_SPACES), validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"the payload is marked as opaque, but is not base64 in a JSON string: {error}") from None


def shown(payload: Any, content_type: str) -> str:
    """What people see of an opaque payload: its content type, its size, and its first bytes in hexadecimal."""
    try:
        payload = decode(payload)
    except ValueError as error:
        return f"{content_type}: {error}"
    lines = [f"{content_type}, {len(payload)} bytes"]
    for start in range(0, min(len(payload), _SHOWN), _PER_LINE):
        part = payload[start : min(start + _PER_LINE, _SHOWN)]
        halves = "  ".join(f"{part[half : half + 8].hex(' '):<23}" for half in (0, 8))
        letters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append(f"{start:08x}  {halves}  |{letters}|")
    if len(payload) > _SHOWN:
        lines.append("…")
    return "\n".join(lines)
