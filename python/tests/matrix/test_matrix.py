"""Each call through plain Celery and through an outbox and Pillarbox: what tasks receive is equal."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

import pytest

from .calls import CALLS
from .cells import CELLS, Cell, Run
from .folding import folded
from .kinds import KINDS, PLAIN, Kind


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    run = Run(tmp_path_factory.mktemp("matrix"))
    try:
        run.complete()
        yield run
    finally:
        run.processes.stop()


ROWS = [
    pytest.param(cell, kind, name, id=f"{cell}-{kind.name}-{name}")
    for cell in CELLS
    for kind in KINDS
    if kind is not PLAIN
    for name, call in CALLS.items()
    if call.adopted or kind.app != "adopted"
]


@pytest.mark.parametrize(("cell", "kind", "name"), ROWS)
def test_received_is_equal(run: Run, cell: Cell, kind: Kind, name: str) -> None:
    plain, other = (told(run, cell, sender, name, adopted=kind.app == "adopted") for sender in (PLAIN, kind))
    difference = difflib.unified_diff(plain.splitlines(), other.splitlines(), "plain", kind.name, lineterm="", n=4)
    assert plain == other, "\n".join(difference)


def told(run: Run, cell: Cell, kind: Kind, name: str, *, adopted: bool) -> str:
    records = run.records[cell, f"{name}{kind.tag}"]
    runs = sum(record["event"] == "run" for record in records)
    results = sum(record["event"] == "result" for record in records)
    call = CALLS[name]
    logs = f"logs are in {run.processes.directory}"
    assert runs == call.runs, f"{kind.title}: {runs} of {call.runs} runs; {logs}"
    assert results == call.result, f"{kind.title}: {results} of {call.result:d} results; {logs}"
    return folded(records, run.moment, adopted=adopted)
