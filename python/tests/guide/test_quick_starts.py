"""Runs the quick starts of the guide as they are printed, on another database and another port of the receiver."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.guide.page import COMPILES, QUICK_STARTS, Page
from tests.processes import NEWEST, ROOT, environment, pillarbox, python
from tests.servers import create_database, free_port

PATIENCE = 60
PRINTED_DATABASE = "postgres://app@localhost/shop"


@pytest.mark.parametrize("language", QUICK_STARTS)
def test_a_quick_start_runs_as_printed(language: str, tmp_path: Path) -> None:
    page = Page(f"docs/start/{language}.md")
    script = page.script().replace("8080", str(free_port()))
    if language != "django":
        assert PRINTED_DATABASE in script
        script = script.replace(PRINTED_DATABASE, create_database())
    assert page.printed(), "the page says what is printed at the end"

    output = run(script, tmp_path, page.printed())
    received = [line for line in output.splitlines() if line.startswith("received")]
    assert len(received) == 1, "the other order was rolled back"


def test_the_five_steps_of_the_readme(tmp_path: Path) -> None:
    page = Page("README.md")
    # Commands that compile, and the tests themselves.
    page.blocks = [(kind, code) for kind, code in page.blocks if not code.startswith(COMPILES)]
    receiver = ("sh", "python3 receiver.py &\n")
    page.blocks[:0] = [("python", (ROOT / "docs/start/receiver.py").read_text()), receiver]
    for index, (kind, code) in enumerate(page.blocks):
        if kind == "sql":
            statements = f"CREATE TABLE orders (id bigint); {code}"
            page.blocks[index] = ("sh", f'psql "$PILLARBOX_DATABASE_URL" -v ON_ERROR_STOP=1 <<"SQL"\n{statements}SQL\n')
    script = page.script().replace("8080", str(free_port())).replace(PRINTED_DATABASE, create_database())
    # The last command runs until it is stopped.
    assert script.rstrip().endswith("pillarbox relay")
    output = run(script.rstrip() + " &\n", tmp_path, ['received order.placed {"total": "19.90"}'])
    assert "configuration is valid" in output


def run(script: str, directory: Path, expected: list[str]) -> str:
    """Returns what was printed, after all expected lines were. Ends what the script has started."""
    programs, work = directory / "programs", directory / "work"
    programs.mkdir()
    (programs / "pillarbox").symlink_to(pillarbox())
    work.mkdir()
    (work / "node_modules").symlink_to(ROOT / ".tools/node_modules")
    variables = environment(PATH=f"{programs}:{Path(python(NEWEST)).parent}:{os.environ['PATH']}")
    log = directory / "output.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["bash", "-c", script],
            env=variables,
            cwd=work,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + PATIENCE
        while not set(expected) <= set((printed := log.read_text(errors="replace")).splitlines()):
            assert process.poll() in (None, 0), printed
            assert time.monotonic() < deadline, f"{expected} was not printed:\n{printed}"
            time.sleep(0.05)
        assert process.wait(PATIENCE) == 0, printed
        return printed
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
