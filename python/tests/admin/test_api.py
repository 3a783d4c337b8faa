"""The API against its own OpenAPI document: whatever fits it, or does not, is answered as the document says."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import processes, servers

from .program import Admin, Users

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "unsupported_method",
    "allow_header_conformance",
    "ignored_auth",
)
PHASES = ("coverage", "fuzzing", "stateful")
EXAMPLES = 10
"""Of each operation, in each phase but the one that goes through all corners of the schema."""
AT_MOST = 120
"""Seconds. It takes about fifteen."""


@pytest.fixture(params=["postgres", "sqlite"])
def fuzzed(request: pytest.FixtureRequest, tmp_path: Path, users: Users) -> Iterator[Admin]:
    """An admin of its own: jobs over everything would touch the events of other tests."""
    database = servers.create_database() if request.param == "postgres" else f"sqlite://{tmp_path}/outbox.db"
    with Admin(tmp_path, database, users) as admin:
        yield admin
        admin.processes.check()


def fuzz(admin: Admin, report: Path) -> dict[str, Any]:
    """Runs Schemathesis on all operations; what it reports."""
    admin.receiver.answer("/orders", 410)
    for payload in ({"card": {"number": "4111"}}, {"<script>": 1}):
        admin.emit("orders.placed", payload)
        admin.emit("mail.sent", payload)
    done = subprocess.run(
        [
            processes.python(processes.NEWEST, "schemathesis"),
            "run",
            f"{admin.url}/api/v1/openapi.json",
            f"--header=Authorization: Bearer {admin.users.token}",
            f"--checks={','.join(CHECKS)}",
            f"--phases={','.join(PHASES)}",
            f"--max-examples={EXAMPLES}",
            "--generation-database=none",
            "--suppress-health-check=all",
            "--continue-on-failure",
            "--no-color",
            f"--report-json-path={report}",
        ],
        capture_output=True,
        text=True,
        timeout=AT_MOST,
        cwd=report.parent,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(report.read_text())


def test_every_operation_answers_as_its_document_says(fuzzed: Admin, tmp_path: Path) -> None:
    report = fuzz(fuzzed, tmp_path / "report.json")
    operations = report["operations"]
    assert operations["tested"] == operations["total"] >= 20
    assert (operations["skipped"], operations["errored"], report["failures"]) == (0, 0, [])
    assert [report["phases"][phase]["status"] for phase in PHASES] == ["success"] * len(PHASES)
