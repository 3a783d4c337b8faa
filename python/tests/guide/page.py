"""The blocks of code on a page of the guide, and the script that a reader would run."""

from __future__ import annotations

import re
import shlex
import subprocess
import textwrap
from dataclasses import dataclass

from tests.processes import ROOT

FENCE = re.compile(r"^( *)(`{3,}|~{3,})(.*)$")
INCLUDE = re.compile(r"^\{\{#include ([^}:]+)(?::(\d+):(\d*))?\}\}$", re.MULTILINE)
FILE = re.compile(r"\A(?:#|//|--) ([\w/.]+\.\w+)\n")
SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
COMPILES = ("cargo ", "make ")
"""How the blocks begin that compile, which the README's test leaves out."""
QUICK_STARTS = ("sql", "node", "python", "django")
"""The pages of docs/start that are run as they are printed."""


@dataclass(frozen=True)
class Block:
    """A fenced block of code. `tag` is its language, `ignored` says that the quick starts leave it out."""

    page: str
    line: int
    tag: str
    ignored: bool
    code: str

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


class Page:
    """A page of the guide.

    - `sh` blocks run one after another, in one shell.
    - A block whose first line is a comment with a file's name is that file.
    - `text` blocks are lines that are printed.
    - Blocks with `ignore` are not run: they install what the tests have.
    """

    def __init__(self, name: str) -> None:
        self.name, self.path = name, ROOT / name
        self.fences, self.prose = split(name, self.path.read_text())
        self.blocks = [(block.tag, self.included(block.code)) for block in self.fences if not block.ignored]

    def included(self, code: str) -> str:
        """A block's code, with the files that mdBook includes."""

        def content(match: re.Match) -> str:
            lines = (self.path.parent / match[1]).read_text().rstrip("\n").split("\n")
            return "\n".join(lines[int(match[2] or 1) - 1 : int(match[3] or len(lines))])

        return INCLUDE.sub(content, code)

    def blocks_of(self, kind: str) -> list[str]:
        return [code for tag, code in self.blocks if tag == kind]

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

    def spans(self) -> list[str]:
        """Code between backquotes in the text."""
        return SPAN.findall(self.prose)


def split(name: str, text: str) -> tuple[list[Block], str]:
    """Returns the fenced blocks of a text, and the text without them."""
    blocks, prose, code = [], [], []
    opened = None
    for number, line in enumerate(text.split("\n"), 1):
        fence = FENCE.match(line)
        if opened is None and fence:
            opened, start, code = fence, number, []
        elif opened is None:
            prose.append(line)
        elif fence and fence[2].startswith(opened[2]) and not fence[3].strip():
            tag, *attributes = opened[3].strip().split(",")
            code = textwrap.dedent("\n".join(code)) + "\n"
            blocks.append(Block(name, start, tag, bool({"ignore", "no_run"} & set(attributes)), code))
            opened = None
        else:
            code.append(line)
    assert opened is None, f"{name}:{start}: the block is not closed"
    return blocks, "\n".join(prose)


def everything() -> list[Page]:
    """The guide, then all other Markdown files of the repository, those that are not added yet too."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    pages = guide()
    known = {page.name for page in pages}
    return pages + [Page(name) for name in sorted({*listed} - known)]


def guide() -> list[Page]:
    """The README, and all pages of the guide with the files that they show, such as CONTRIBUTING.md."""
    names = ["README.md"]
    for page in re.findall(r"\]\(([^)]+\.md)\)", (ROOT / "docs/SUMMARY.md").read_text()):
        names.append(f"docs/{page}")
        for shown in re.findall(r"^\{\{#page (\S+)\}\}$", (ROOT / "docs" / page).read_text(), re.MULTILINE):
            names.append(str((ROOT / "docs" / page).parent.joinpath(shown).resolve().relative_to(ROOT)))
    return [Page(name) for name in names]
