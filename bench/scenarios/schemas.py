"""Schemas: what the check of payloads costs a drain. With and without it take turns."""

from __future__ import annotations

from frame.bench import Bench
from frame.plots import OTHER, OURS, Bar, bars
from frame.report import Aim, Section, Table
from scenarios import drain

TITLE = "Schema check"
TEXT = """
{rows:,} events with payloads of 490 bytes are drained by one relay to a handler that does nothing, where a check weighs
most. The payload is an order with a customer, an address and two items; the schema declares each property, with enums,
patterns, limits and a reference, and allows no others. The cost per event is the difference of the time per event.
"""
CASES = {"unchecked": [], "checked": ["--schema"]}
LIMIT = 0.05


def run(bench: Bench) -> Section:
    rows = bench.pick(200_000, 20_000)
    template = drain.fill(bench, rows, "order")
    samples = bench.interleave(
        {
            f"{case}.{mode}": lambda args=args, mode=mode: drain.relay(
                bench, template, rows, 1, [*args, *(["--delete"] if mode == "delete" else [])]
            )
            for mode in ("keep", "delete")
            for case, args in CASES.items()
        }
    )
    template.drop()
    section = Section(TITLE, TEXT.format(rows=rows))
    table = []
    for mode in ("keep", "delete"):
        without, checked = samples[f"unchecked.{mode}"], samples[f"checked.{mode}"]
        lost = 1 - checked.median / without.median
        cost = 1e6 / checked.median - 1e6 / without.median
        table.append([mode, str(without), str(checked), f"{lost:.1%}", f"{cost:.2f}"])
        section.figures[f"schemas.{mode}"] = lost
        text = f"schema check, {mode}: what it takes of the drain rate"
        section.aims.append(Aim(text, f"{lost:.1%}", "under 5 %", lost < LIMIT))
    head = ["mode", "events/s without", "events/s with", "lost", "cost per event, µs"]
    section.tables.append(Table(head, table))
    colours = {"unchecked": OURS, "checked": OTHER}
    bar = [Bar(name, sample, colours[name.split(".")[0]]) for name, sample in samples.items()]
    section.plots.append(bars("schemas", "Drain with and without a schema check", "events/s", bar))
    return section
