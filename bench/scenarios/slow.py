"""Two destinations, one of which answers late or never: what the other one gets meanwhile."""

from __future__ import annotations

from typing import Any

from frame.bench import Bench
from frame.plots import OTHER, OURS, PEER, Bar, bars
from frame.report import Aim, Section, Table

TITLE = "Slow destination"
TEXT = """
{count:,} events for each of two destinations, in turn, all preloaded; one relay with its defaults. One destination
responds at once. The other one responds at once, after 5 s or never, or it is paused, so that all of its events are
parked without an attempt, which is the least work possible. The rate is that of the fast destination, from its first
event to its last. The undisturbed rate is measured on the same table when both respond at once: the events of the
slow destination are in the same claims and cost one write in each case, whether they are delivered or parked.
"""
CASES = {
    "at once": ([], OURS),
    "after 5 s": (["--answers-after", "5"], OTHER),
    "never": (["--never"], PEER),
    "paused": (["--paused"], OTHER),
}
# Of those that have an aim, the names of their figures.
KEYS = {"after 5 s": "late", "never": "never"}


def run(bench: Bench) -> Section:
    count = bench.pick(100_000, 10_000)
    template = bench.postgres("slow_full")
    bench.run_load(["fill", "--database", template.url, "--count", str(2 * count), "--types", "fast,slow"])
    template.rest("outbox_event")
    reports: dict[str, dict[str, Any]] = {}

    def measure(name: str) -> float:
        database = bench.postgres("slow", template)
        args = ["slow", "--database", database.url, "--count", str(count), *CASES[name][0]]
        reports[name] = bench.run_load(args)
        database.drop()
        return reports[name]["rate"]

    samples = bench.interleave({name: lambda name=name: measure(name) for name in CASES})
    template.drop()
    undisturbed = samples["at once"].median
    section = Section(TITLE, TEXT.format(count=count))
    rows = []
    for name, sample in samples.items():
        share = sample.median / undisturbed
        rows.append([name, str(sample), f"{share:.0%}", f"{reports[name]['usage']['peak_rss_mb']:.0f}"])
        if name in KEYS:
            key = KEYS[name]
            section.figures[f"slow.{key}"] = share
            text = f"slow destination, responds {name}: the other one's rate"
            section.aims.append(Aim(text, f"{share:.0%}", "keeps its rate (at least 90 %)", share >= 0.9))
    section.tables.append(
        Table(["the slow one responds", "the fast one's events/s", "of undisturbed", "memory, MB"], rows)
    )
    bar = [Bar(f"the other responds {name}", sample, CASES[name][1]) for name, sample in samples.items()]
    section.plots.append(bars("slow", "Rate of the fast one of two destinations", "events/s", bar))
    return section
