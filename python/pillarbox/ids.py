"""UUID v7, as the core makes them: 48 bits of milliseconds, then chance."""

from __future__ import annotations

import os
import time
import uuid
from typing import Any


def uuid7() -> uuid.UUID:
    """A new id. Its order follows time as far as this host's clock does; the column `seq` is the order."""
    value = ((time.time_ns() // 1_000_000) & (1 << 48) - 1) << 80 | int.from_bytes(os.urandom(10), "big")
    value = value & ~(0xF << 76) | 7 << 76
    value = value & ~(0x3 << 62) | 2 << 62
    return uuid.UUID(int=value)


def as_uuid(value: Any) -> uuid.UUID:
    """An id as a database returned it: as it is, as text or as its bytes."""
    if isinstance(value, uuid.UUID):
        return value
    return uuid.UUID(bytes=value) if isinstance(value, bytes) else uuid.UUID(value)
