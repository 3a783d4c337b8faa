"""RESULTS.md: what a scenario hands over, and how it is written down."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path


@dataclass
class Table:
    """Cells are shown as they are; a column of figures is the caller's to format."""

    header: list[str]
    rows: list[list[str]]
    title: str = ""
    # Nothing is aligned to the right.
    words: bool = False

    def markdown(self) -> str:
        lines = [f"**{self.title}**", ""] if self.title else []
        # What comes first names the row; the rest are figures.
        marks = ["---"] + ["---" if self.words else "---:"] * (len(self.header) - 1)
        for cells in (self.header, marks, *self.rows):
            lines.append("| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |")
        return "\n".join(lines)


@dataclass
class Plot:
    """An SVG; its name becomes the file's."""

    name: str
    title: str
    svg: str


@dataclass
class Aim:
    """What issue 4 asks for, and what came of it. A quick run's figures decide nothing."""

    text: str
    figure: str
    target: str
    met: bool | None
    note: str = ""

    def cells(self) -> list[str]:
        verdict = "not measured" if self.met is None else "met" if self.met else "**missed**"
        return [self.text, self.figure, self.target, verdict, self.note]


@dataclass
class Section:
    """One scenario's part of the report. The text is Markdown: what was measured, and the settings."""

    title: str
    text: str
    tables: list[Table] = field(default_factory=list)
    plots: list[Plot] = field(default_factory=list)
    figures: dict[str, float] = field(default_factory=dict)
    aims: list[Aim] = field(default_factory=list)
    took: float = 0.0

    def markdown(self) -> str:
        parts = [f"## {self.title}", self.text.strip()]
        parts += [f"![{plot.title}](plots/{plot.name}.svg)" for plot in self.plots]
        parts += [table.markdown() for table in self.tables]
        return "\n\n".join(parts)


@dataclass
class About:
    """The machine and the programs of a run."""

    machine: list[str]
    versions: list[tuple[str, str]]
    settings: list[tuple[str, str]]

    def markdown(self) -> str:
        versions = Table(["program", "version"], [list(pair) for pair in self.versions], words=True).markdown()
        settings = Table(["server", "settings"], [list(pair) for pair in self.settings], words=True).markdown()
        machine = "\n".join(f"- {line}" for line in self.machine)
        return f"## Machine, versions, settings\n\n{machine}\n\n{versions}\n\n{settings}"


def write(out: Path, about: About, sections: list[Section], *, quick: bool, took: float) -> None:
    """RESULTS.md and plots/ in a directory; plots of an earlier run are removed."""
    plots = out / "plots"
    shutil.rmtree(plots, ignore_errors=True)
    plots.mkdir(parents=True)
    for section in sections:
        for plot in section.plots:
            (plots / f"{plot.name}.svg").write_text(plot.svg)
    aims = [aim for section in sections for aim in section.aims]
    took_each = ", ".join(f"{section.title} {section.took / 60:.1f}" for section in sections)
    when = datetime.now(UTC).strftime("%Y-%m-%d")
    head = [
        "# Results of the benchmark",
        f"One run of `make bench` on {when}, {took / 60:.0f} minutes, everything side by side on the same servers. "
        "Numbers are the median of the rounds, with the lowest and the highest in brackets. Absolute numbers depend on "
        "the machine: compare only within this page. How to run it, and the contenders: see [README.md](README.md).",
    ]
    if quick:
        head.append(
            "**A quick run:** one round, small counts. It shows that everything works; its numbers prove nothing."
        )
    if aims:
        table = Table(["aim", "result", "target", "", "note"], [aim.cells() for aim in aims], words=True)
        head += ["## Aims", table.markdown()]
    parts = [*head, *(section.markdown() for section in sections), about.markdown(), f"Minutes: {took_each}."]
    (out / "RESULTS.md").write_text("\n\n".join(parts) + "\n")
