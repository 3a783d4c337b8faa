"""Another session keeps a snapshot open, so that nothing dead can be removed: steady load and drains meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from itertools import pairwise
from typing import Any

from frame.bench import Bench
from frame.database import Database
from frame.plots import Series, lines
from frame.report import Aim, Section, Table
from frame.rounds import Sample
from scenarios.steady import highest_rate, steady

TITLE = "Held horizon"
# Of what producers and relay can do together: enough to show a loss, and not the brink.
PACE = 0.7
QUARTERS = 4
TEXT = """
Another session keeps a snapshot of the table open (REPEATABLE READ), as a long report or a dump does. Until it ends,
dead row versions stay in the table and in the indexes. *Drain*: {count:,} preloaded events and a handler that does
nothing, with a snapshot taken before and without one, in turns in the same run. *Steady load*: {seconds:.0f} s at
{pace:.0%} of the highest rate of producers and relay together (as in the scenario *steady load*), and {short:.0f} s
without the snapshot for comparison. Rates are given per quarter of the events (drain) or of the time (steady load).
"""


@contextmanager
def snapshot(database: Database) -> Iterator[None]:
    with database.connect() as connection:
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        connection.execute("SELECT 1 FROM outbox_event LIMIT 1")
        yield


def run(bench: Bench) -> Section:
    count = bench.pick(200_000, 20_000)
    seconds, short = bench.pick(600, 20), bench.pick(60, 8)
    section = Section(TITLE, TEXT.format(count=count, seconds=seconds, pace=PACE, short=short))
    drains(bench, section, count)
    steadily(bench, section, seconds, short)
    return section


def drains(bench: Bench, section: Section, count: int) -> None:
    template = bench.postgres("horizon_full")
    bench.run_load(["fill", "--database", template.url, "--count", str(count)])
    template.rest("outbox_event")
    samples: dict[tuple[str, bool], list[Sample]] = {}
    series: dict[tuple[str, bool], Series] = {}
    for _ in range(bench.rounds):
        for mode in ("keep", "delete"):
            for held in (False, True):
                rates, curve = drain(bench, template, count, mode, held)
                each = samples.setdefault((mode, held), [Sample() for _ in range(QUARTERS + 1)])
                for sample, rate in zip(each, rates, strict=True):
                    sample.values.append(rate)
                label = f"{mode}, {'snapshot held' if held else 'undisturbed'}"
                series[mode, held] = Series(label, curve)
                bench.log(f"drain, {label}: {', '.join(f'{rate:,.0f}' for rate in rates)}")
    template.drop()
    header = ["drain, events/s", "1st quarter", "2nd", "3rd", "4th", "all"]
    section.tables.append(Table(header, [[series[key].label, *map(str, each)] for key, each in samples.items()]))
    title = "Drain with a snapshot held and without"
    section.plots.append(lines("horizon_drain", title, "events delivered", "events/s", list(series.values())))
    for mode in ("keep", "delete"):
        held, undisturbed = samples[mode, True][QUARTERS - 1].median, samples[mode, False][QUARTERS].median
        section.figures[f"horizon.drain.{mode}"] = held / undisturbed
        section.aims.append(aim(f"held horizon, drain, {mode}, last quarter", held / undisturbed))


def drain(
    bench: Bench, template: Database, count: int, mode: str, held: bool
) -> tuple[list[float], list[tuple[float, float]]]:
    """The rate of each quarter and of all, and the rates along the way."""
    database = bench.postgres("horizon", template)
    args = ["drain", "--database", database.url, "--count", str(count), "--every", "20"]
    with snapshot(database) if held else nullcontext():
        report = bench.run_load([*args, "--delete"] if mode == "delete" else args)
    database.drop()
    passed = [(0.0, 0), *((at, settled) for at, settled in report["timeline"]), (report["seconds"], report["settled"])]
    marks = [moment(passed, count * part / 20) for part in range(21)]
    step = 20 // QUARTERS
    quarters = [count / QUARTERS / (marks[end] - marks[end - step]) for end in range(step, 21, step)]
    curve = [(count * part / 20, count / 20 / max(marks[part] - marks[part - 1], 1e-6)) for part in range(1, 21)]
    return [*quarters, report["rate"]], curve


def moment(passed: list[tuple[float, int]], wanted: float) -> float:
    """When so many were settled: between two looks, by how far it was."""
    for (at, before), (then, after) in pairwise(passed):
        if after >= wanted:
            return at + (then - at) * (wanted - before) / max(after - before, 1)
    return passed[-1][0]


def steadily(bench: Bench, section: Section, seconds: int, short: int) -> None:
    pace = PACE * highest_rate(bench, bench.pick(15, 3))
    reports = {}
    for label, held, duration in (("undisturbed", False, short), ("snapshot held", True, seconds)):
        database = bench.outbox("horizon")
        with snapshot(database) if held else nullcontext():
            reports[label] = steady(bench, database, pace, duration)
        database.drop()
    rows = []
    for label, report in reports.items():
        shown = [f"{rate:,.0f} ({p99:,.0f} ms)" for rate, p99 in map(rate_and_p99, quarters(report))]
        rows.append([label, *shown, f"{report['latency']['p50']:.1f}", f"{report['latency']['p99']:.1f}"])
    header = ["steady, events/s (worst p99 of a second)", "1st quarter", "2nd", "3rd", "4th", "p50 ms", "p99 ms"]
    section.tables.append(Table(header, rows))
    series = [Series(label, curve(report)) for label, report in reports.items()]
    title = "Steady load with a snapshot held and without"
    section.plots.append(lines("horizon_steady", title, "seconds", "events/s", series))
    held = rate_and_p99(quarters(reports["snapshot held"])[-1])[0]
    share = held / reports["undisturbed"]["rate"]
    section.figures["horizon.steady"] = share
    section.aims.append(aim("held horizon, steady load, last quarter", share))


def quarters(report: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """The whole seconds in which something was produced, in four parts."""
    each = [second for second in report["each"] if second["produced"]][:-1] or report["each"]
    return [each[len(each) * part // QUARTERS : len(each) * (part + 1) // QUARTERS] for part in range(QUARTERS)]


def rate_and_p99(seconds: list[dict[str, Any]]) -> tuple[float, float]:
    count = max(len(seconds), 1)
    return sum(each["delivered"] for each in seconds) / count, max((each["p99"] for each in seconds), default=0.0)


def curve(report: dict[str, Any], step: int = 5) -> list[tuple[float, float]]:
    """The rate of every few seconds."""
    delivered = [second["delivered"] for part in quarters(report) for second in part]
    return [
        (at, sum(delivered[at : at + step]) / len(delivered[at : at + step])) for at in range(0, len(delivered), step)
    ]


def aim(text: str, share: float) -> Aim:
    return Aim(text, f"{share:.0%}", "at least 90 % of the undisturbed rate", share >= 0.9)
