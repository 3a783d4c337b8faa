"""Plots as small SVG files, written by hand: bars that lie, with the spread of the rounds, and lines over time.

A plot has a white ground of its own, so that it can be read on any page.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from frame.report import Plot
from frame.rounds import Sample

FONT = "font-family='Helvetica, Arial, sans-serif'"
INK = "#1b1f24"
# Ours, peers, raw limits: the same everywhere.
OURS, PEER, RAW, OTHER = "#1f6f5c", "#c27c2c", "#8a94a6", "#5a78b4"
LINES = (OURS, PEER, OTHER, "#a3475b", RAW, "#6d5aa8")
WIDTH, LABELS, RIGHT = 860, 300, 130


@dataclass
class Bar:
    """One contender."""

    label: str
    sample: Sample
    colour: str


def bars(name: str, title: str, unit: str, rows: Sequence[Bar]) -> Plot:
    """The medians as bars from zero, the least and the most as a thin line; those that did not run are left out."""
    shown = [bar for bar in rows if bar.sample.values]
    top, height = 64, 24
    scale = (WIDTH - LABELS - RIGHT) / (max((bar.sample.most for bar in shown), default=1.0) or 1.0)
    parts = []
    for position, bar in enumerate(shown):
        y, sample = top + position * height, bar.sample
        middle = y + height / 2
        parts.append(text(LABELS - 8, middle + 4, bar.label, anchor="end"))
        parts.append(rectangle(LABELS, y + 4, sample.median * scale, height - 8, bar.colour))
        if len(sample.values) > 1:
            parts.append(line(LABELS + sample.least * scale, middle, LABELS + sample.most * scale, middle, INK, 1.5))
        parts.append(text(LABELS + sample.most * scale + 8, middle + 4, brief(sample.median)))
    return Plot(name, title, frame(title, unit, top + len(shown) * height + 16, parts))


@dataclass
class Series:
    """A line: its points are (x, y)."""

    label: str
    points: Sequence[tuple[float, float]]
    colour: str = ""


def lines(name: str, title: str, x_label: str, y_label: str, series: Sequence[Series]) -> Plot:
    """Lines from zero on both axes, with a legend."""
    left, top, right, bottom = 72, 64, WIDTH - 24, 340
    most_x = max((x for one in series for x, _ in one.points), default=1.0) or 1.0
    most_y = nice(max((y for one in series for _, y in one.points), default=1.0) or 1.0)
    across, up = (right - left) / most_x, (bottom - top) / most_y
    parts = []
    for tick in range(5):
        value = most_y * tick / 4
        parts.append(line(left, bottom - value * up, right, bottom - value * up, "#e3e6ea", 1))
        parts.append(text(left - 8, bottom - value * up + 4, brief(value), anchor="end"))
        moment = most_x * tick / 4
        parts.append(text(left + moment * across, bottom + 18, brief(moment), anchor="middle"))
    parts.append(text((left + right) / 2, bottom + 38, x_label, anchor="middle"))
    for position, one in enumerate(series):
        colour = one.colour or LINES[position % len(LINES)]
        points = " ".join(f"{left + x * across:.1f},{bottom - y * up:.1f}" for x, y in one.points)
        parts.append(f"<polyline points='{points}' fill='none' stroke='{colour}' stroke-width='2'/>")
        y = bottom + 60 + position * 20
        parts.append(rectangle(left, y - 9, 18, 10, colour))
        parts.append(text(left + 26, y, one.label))
    return Plot(name, title, frame(title, y_label, bottom + 60 + len(series) * 20, parts))


def frame(title: str, unit: str, height: float, parts: Sequence[str]) -> str:
    head = (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {height:.0f}' width='{WIDTH}'"
        f" height='{height:.0f}'>"
        f"<rect width='100%' height='100%' fill='#ffffff'/>"
    )
    words = text(20, 28, title, size=17, weight="bold") + text(20, 48, unit, colour="#59636e")
    return head + words + "".join(parts) + "</svg>\n"


def text(
    x: float,
    y: float,
    words: str,
    *,
    anchor: str = "start",
    size: int = 13,
    weight: str = "normal",
    colour: str = INK,
) -> str:
    return (
        f"<text x='{x:.1f}' y='{y:.1f}' text-anchor='{anchor}' {FONT} font-size='{size}' font-weight='{weight}' "
        f"fill='{colour}'>{escape(words)}</text>"
    )


def rectangle(x: float, y: float, width: float, height: float, colour: str) -> str:
    return f"<rect x='{x:.1f}' y='{y:.1f}' width='{max(width, 1):.1f}' height='{height:.1f}' rx='2' fill='{colour}'/>"


def line(x1: float, y1: float, x2: float, y2: float, colour: str, width: float) -> str:
    return f"<line x1='{x1:.1f}' y1='{y1:.1f}' x2='{x2:.1f}' y2='{y2:.1f}' stroke='{colour}' stroke-width='{width}'/>"


def nice(value: float) -> float:
    """The next number above that divides well by four."""
    power = 10 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 4, 6, 8, 10) if step * power >= value)


def brief(value: float) -> str:
    """Three digits are enough in a plot."""
    if value >= 10_000:
        return f"{value / 1000:,.0f}k" if value >= 100_000 else f"{value / 1000:,.1f}k"
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.2g}"
