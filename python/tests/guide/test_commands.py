"""Runs every command of the guide, and refuses those that are neither run nor listed with a reason."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from contextlib import suppress

import pytest

from tests.adopted.test_tables import migrate
from tests.guide.commands import (
    ATTENDED,
    FAILS,
    NAMED,
    NOT_RUN,
    OTHER,
    PRINTS,
    SUBSTITUTIONS,
    Unit,
    command,
    left_out,
    script,
    units,
)
from tests.guide.lab import ROUTES, Lab, Place, amqp
from tests.guide.page import Page, everything
from tests.processes import ROOT, pillarbox

PATIENCE = 60
UNITS = units()
RUN = [unit for unit in UNITS if not all(left_out(line) or not line.strip() for line in unit.lines)]
WAL = '[source]\nkind = "wal"\n'


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    lab = Lab(tmp_path_factory.mktemp("guide"))
    try:
        lab.prepare()
        yield lab
    finally:
        lab.stop()


@pytest.fixture
def place(lab: Lab, request: pytest.FixtureRequest):
    """Has what the unit finds: routes of its page, the write-ahead log, a relay, files."""
    unit = request.getfixturevalue("unit")
    text = "\n".join(unit.commands)
    routes, more = ROUTES, ""
    if unit.page == "docs/routing.md":
        routes = Page(unit.page).blocks_of("toml")[1]
    if "pillarbox wal" in text:
        more = WAL
    copied = re.search("pillarbox|psql|curl", text) is not None
    place = Place(lab, re.sub(r"\W+", "-", unit.place)[:80], copied, routes, more)
    try:
        before(unit, text, place)
        yield place
    finally:
        place.remove()


def before(unit: Unit, text: str, place: Place) -> None:
    """Does what the page expects to have been done before."""
    run = place.lab.run
    if "examples/" in text:
        place.examples()
    if text.startswith("python3 examples/emit.py"):
        run([pillarbox(), "migrate", "--config", "examples/amqp.toml"], place.work)
    if "git show origin/main:" in text:
        place.repository()
    if "pillarbox dev" in text:
        (place.work / "pillarbox.toml").unlink()
        run([pillarbox(), "emit", "Order", "42", "order.placed", '{"total": "19.90"}'], place.work)
    if "celery-relay" in text:
        (place.work / "pillarbox.toml").write_text(Page("docs/from-django-celery-outbox.md").blocks_of("toml")[0])
        migrate(place.database)
    if re.search("pillarbox wal (status|disable)", text):
        run([pillarbox(), "wal", "enable"], place.work)
    if text == "pillarbox wal disable" or re.search("pillarbox (health|top|stats)|curl", text):
        relay(place)


def relay(place: Place) -> None:
    """Starts a relay that serves the pages and the metrics."""
    running = place.processes.start("relay", [pillarbox(), "relay"], place.lab.variables())
    deadline = time.monotonic() + PATIENCE
    while "relay started" not in place.processes.log("relay"):
        assert running.poll() is None, place.processes.log("relay")
        assert time.monotonic() < deadline, place.processes.log("relay")
        time.sleep(0.02)


@pytest.mark.parametrize("unit", RUN, ids=[unit.place for unit in RUN])
def test_commands_of_the_guide_run(unit: Unit, place: Place) -> None:
    values = {**place.values(), "mariadb": place.mariadb, "amqp": amqp, "brokers": ROOT / ".venv-brokers/bin"}
    status, printed = run(script(unit, values), place)
    expected = max((FAILS.get(one, 0) for one in unit.commands), default=0)
    assert status == expected, printed
    if PRINTS & set(unit.commands):
        assert following(unit) in printed
    for heads in unit.heads:
        assert heads in words(printed), f"{heads} is not printed: {words(printed)}"


def run(lines: str, place: Place) -> tuple[int, str]:
    """Returns the exit code of a script, and what it printed. Ends what it started in the background."""
    if not re.search(r"^(?!export)\S", lines, re.MULTILINE):
        # Nothing but variables, such as addresses of databases: each must be one that works.
        lines = re.sub(r"$", "\npillarbox migrate", lines, flags=re.MULTILINE)
    log = place.work / "output.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["bash", "-c", f"set -euo pipefail\n{lines}"],
            cwd=place.work,
            env=place.lab.variables(),
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        # A password, or the answer to a question.
        with suppress(BrokenPipeError):
            process.stdin.write(b"yes\n")
            process.stdin.close()
        return process.wait(PATIENCE), f"{lines}\n{log.read_text(errors='replace')}"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)


def words(printed: str) -> str:
    """What a person reads: without colours and movements of the cursor."""
    return " ".join(re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", " ", printed).split())


def following(unit: Unit) -> str:
    """The block of text after a block of commands."""
    page, line = unit.place.split(":")
    return next(block.code for block in Page(page).fences if block.tag == "text" and block.line > int(line))


@pytest.mark.parametrize("named", sorted(NAMED))
def test_commands_that_are_only_named_are_of_the_program(named: str) -> None:
    asked = subprocess.run([pillarbox(), *named.split()[1:], "--help"], capture_output=True, text=True)
    assert asked.returncode == 0, asked.stderr
    spans = {span for page in everything() if page.name not in OTHER for span in page.spans()}
    assert named in spans, "no page names it"


def test_no_entry_of_the_tables_is_left_over() -> None:
    lines = [line for unit in UNITS for line in unit.lines]
    commands = {command(line) for line in lines}
    kept = [line for line in lines if not left_out(line)]
    unused = [pattern for pattern in NOT_RUN if not any(left_out(line) == pattern for line in lines)]
    unused += [pattern for pattern in SUBSTITUTIONS if not any(re.search(pattern, line) for line in kept)]
    unused += [pattern for pattern in ATTENDED if not any(re.fullmatch(pattern, one) for one in commands)]
    unused += [one for one in {*FAILS, *PRINTS} if one not in commands]
    assert unused == []
