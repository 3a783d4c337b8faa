"""Shops for the tests with real parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from .shop import Shop


@pytest.fixture
def open_shop(tmp_path: Path) -> Iterator[Callable[..., Shop]]:
    """Opens a shop with an outbox of this kind, with this broker and database server; it is closed with the test."""
    with ExitStack() as stack:

        def open_shop(kind: str, broker: str, server: str = "postgres") -> Shop:
            return stack.enter_context(Shop(tmp_path, kind, broker, server))

        yield open_shop
