"""The blocks of code on a page of the guide, and the script that a reader would run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from tests.processes import ROOT

CODE_BLOCK = re.compile(r"^```([a-z]+)(,ignore)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INCLUDE = re.compile(r"^\{\{#include ([^}:]+)\}\}$", re.MULTILINE)
FILE = re.compile(r"\A(?:#|//|--) ([\w/.]+\.\w+)\n")


class Page:
    """A page of the guide.

    - `sh` blocks run one after another, in one shell.
    - A block whose first line is a comment with a file's name is that file.
    - `text` blocks are lines that are printed.
    - Blocks with `ignore` are not run: they install what the tests have.
    """

    def __init__(self, name: str) -> None:
        path = ROOT / name
        text = INCLUDE.sub(lambda match: (path.parent / match[1]).read_text().rstrip("\n"), path.read_text())
        self.blocks = [(kind, code) for kind, ignored, code in CODE_BLOCK.findall(text) if not ignored]

    def script(self) -> str:
        """Writes the files and runs the commands, in the order of the page, and stops at the first error."""
        lines = ["set -euo pipefail"]
        for kind, code in self.blocks:
            if kind == "sh":
                lines.append(code)
            elif match := FILE.match(code):
                lines.append(f"printf %s {shlex.quote(code)} > {match[1]}")
        return "\n".join(lines)

    def printed(self) -> list[str]:
        return [line for kind, code in self.blocks if kind == "text" for line in code.splitlines()]


def docs() -> list[Path]:
    """The README, and the pages of the guide that are written by hand, without those on the design."""
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "docs/start").glob("*.md")]
    return [page for page in pages if page.name != "command-line.md"]
