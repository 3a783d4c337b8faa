"""What the tests of the inboxes share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.inbox.kits import Kit
from tests.processes import Processes


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    processes = Processes(tmp_path)
    yield processes
    processes.stop()


@pytest.fixture
def start(processes: Processes, tmp_path: Path) -> Callable[..., Kit]:
    """Starts a receiver by its name."""

    def start(name: str, **variables: str) -> Kit:
        kit = Kit(name, processes, tmp_path, **variables)
        kit.start()
        return kit

    return start
