"""Prints the matrix as a table when its tests have run."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from .calls import CALLS
from .kinds import KINDS

Row = tuple[int, str, str]
"""Which producer, broker, version of Celery."""

passed: Counter[Row] = Counter()
failed: dict[Row, list[str]] = {}
rows: dict[str, tuple[Row, str]] = {}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        parameters: dict[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
        if {"cell", "kind", "name"} <= parameters.keys() and parameters["name"] in CALLS:
            cell = parameters["cell"]
            row = KINDS.index(parameters["kind"]), cell.broker, cell.version
            rows[item.nodeid] = row, parameters["name"]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.nodeid not in rows:
        return
    row, name = rows[report.nodeid]
    if report.failed:
        failed.setdefault(row, []).append(name)
    elif report.when == "call" and report.passed:
        passed[row] += 1


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not (passed or failed):
        return
    terminalreporter.section("what tasks receive, compared with plain Celery: calls that are equal")
    terminalreporter.write_line("| producer | broker | Celery | equal | different |")
    terminalreporter.write_line("|---|---|---|---|---|")
    for row in sorted({*passed, *failed}):
        kind, broker, version = row
        wrong = failed.get(row, [])
        total = passed[row] + len(wrong)
        terminalreporter.write_line(
            f"| {KINDS[kind].title} | {broker} | {version} | {passed[row]} of {total} | {', '.join(wrong) or '-'} |"
        )
