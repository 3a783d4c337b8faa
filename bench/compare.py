"""Two builds of Pillarbox in turns, in one run: prints medians and ratios, fails if anything became slower."""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from frame.bench import Bench
from frame.database import Database
from scenarios import drain
from scenarios.latency import percentile
from scenarios.steady import highest_rate

BUILDS = ("before", "after")
# Medians of several rounds differ by this much on a machine of two processors that also runs the database.
NOISE = 0.05
Measure = Callable[[], float]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench/compare", description=__doc__)
    parser.add_argument("--before", type=Path, required=True, help="directory with the older pillarbox and load")
    parser.add_argument("--after", type=Path, required=True, help="directory with the newer ones")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=100_000, help="events of a drain")
    parser.add_argument("--only", default="", help="measures whose names begin so, separated by commas")
    return parser.parse_args()


def measures(bench: Bench, rows: int) -> Iterator[tuple[str, Measure]]:
    """The measures of the programs that `bench` has now: rates, or milliseconds where the name says so."""
    plain, celery = (fill(bench, rows if form == "plain" else rows // 4, form) for form in ("plain", "celery"))
    drains = drain.ours(bench, plain, celery, rows, rows // 4)
    yield from ((f"drain.{name}", measure) for name, measure in drains.items())
    latency = bench.outbox(f"latency_{bench.load.parent.name}")
    taken: list[float] = []

    def p50() -> float:
        report = bench.run_load(["latency", "--database", latency.url, "--count", "100", "--apart", "20", "60"])
        taken[:] = sorted(report["latencies_ms"])
        return percentile(taken, 0.5)

    yield "latency.p50 (ms)", p50
    yield "latency.p95 (ms)", lambda: percentile(taken, 0.95)
    emit = bench.outbox(f"emit_{bench.load.parent.name}")
    for writers, many in ((1, 1), (8, 1), (8, 50)):
        yield f"emit.{writers}x{many}", emits(bench, emit, writers, many)
    yield "steady.highest", lambda: highest_rate(bench, 5)


def fill(bench: Bench, rows: int, form: str) -> Database:
    name = f"filled_{form}_{bench.load.parent.name}"
    database = bench.outbox(name)
    args = ["--database", database.url, "--count", str(rows), "--form", form, "--aggregates", str(drain.AGGREGATES)]
    bench.run_load(["fill", *args])
    database.rest("outbox_event")
    return database


def emits(bench: Bench, database: Database, writers: int, many: int) -> Measure:
    def measure() -> float:
        database.execute("TRUNCATE outbox_event")
        args = ["emit", "--database", database.url, "--seconds", "1"]
        args += ["--writers", str(writers), "--per-transaction", str(many)]
        return bench.run_load(args)["emit"]["events"]

    return measure


def main() -> int:
    options = arguments()
    directories = {"before": options.before.resolve(), "after": options.after.resolve()}
    taken: dict[str, dict[str, list[float]]] = {}
    with Bench.start(quick=True) as bench:

        def use(build: str) -> None:
            bench.program, bench.load = (directories[build] / name for name in ("pillarbox", "load"))

        found: dict[str, dict[str, Measure]] = {}
        for build in BUILDS:
            use(build)
            found[build] = dict(measures(bench, options.rows))
        only = tuple(options.only.split(","))
        names = [name for name in found["before"] if name in found["after"] and name.startswith(only)]
        for number in range(options.rounds):
            for name in names:
                # Each build begins every other round: the second one finds warmer caches.
                for build in BUILDS if number % 2 == 0 else reversed(BUILDS):
                    use(build)
                    value = found[build][name]()
                    taken.setdefault(name, {}).setdefault(build, []).append(value)
                    bench.log(f"round {number + 1}: {name}, {build}: {value:,.2f}")
    slower = report(taken)
    print(f"slower by more than {NOISE:.0%}: {', '.join(slower) or 'none'}")
    return 1 if slower else 0


def report(taken: dict[str, dict[str, list[float]]]) -> list[str]:
    """Prints the table; returns the names of what became slower."""
    slower = []
    print("| | before | after | after : before |\n|---|---|---|---|")
    for name, builds in taken.items():
        before, after = (statistics.median(builds[build]) for build in BUILDS)
        shown = [f"{value:,.2f}" if "(ms)" in name else f"{value:,.0f}" for value in (before, after)]
        print(f"| {name} | {shown[0]} | {shown[1]} | {after / before:.2f} |")
        loss = after / before - 1 if "(ms)" in name else 1 - after / before
        if loss > NOISE:
            slower.append(name)
    return slower


if __name__ == "__main__":
    sys.exit(main())
