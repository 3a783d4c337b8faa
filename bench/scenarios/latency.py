"""Single events at random moments, and nobody else: from the return of the commit to the call of the handler."""

from __future__ import annotations

import statistics

from frame.bench import Bench
from frame.plots import Series, lines
from frame.report import Aim, Section, Table
from peers import graphile

TITLE = "Idle latency"
TEXT = """
Single events, 20 to 150 ms apart, each in its own transaction, on an otherwise idle machine. The latency is from the
return of the commit to the call of the handler. Pillarbox and graphile-worker take turns, {count} events in each of
{turns} turns. The database's notification wakes Pillarbox's relay, as it would wake a relay in another process.
graphile-worker has the settings of its drain.
"""


def run(bench: Bench) -> Section:
    turns, count = bench.pick(3, 1), bench.pick(180, 40)
    took: dict[str, list[float]] = {"Pillarbox": [], "graphile-worker": []}
    missing = graphile.PEER.missing() or ""
    database, theirs = bench.outbox("latency"), bench.postgres("latency_graphile")
    for _ in range(turns):
        report = bench.run_load(["latency", "--database", database.url, "--count", str(count), "--apart", "20", "150"])
        took["Pillarbox"] += report["latencies_ms"]
        if not missing:
            took["graphile-worker"] += graphile.latency(bench, theirs, count)["latencies_ms"]
    database.drop()
    theirs.drop()
    rows, figures = [], {}
    for name, milliseconds in took.items():
        if not milliseconds:
            rows.append([name, f"did not run: {missing}", "", "", "", ""])
            continue
        ordered = sorted(milliseconds)
        parts = [percentile(ordered, share) for share in (0.5, 0.9, 0.99, 1.0)]
        rows.append([name, str(len(ordered)), *(f"{part:.2f}" for part in parts)])
        key = "ours" if name == "Pillarbox" else "graphile"
        figures |= {f"latency.{key}.p50": parts[0], f"latency.{key}.p99": parts[2]}
        bench.log(f"{name}: p50 {parts[0]:.2f} ms, p99 {parts[2]:.2f} ms, mean {statistics.mean(ordered):.2f} ms")
    table = Table(["", "events", "p50 ms", "p90 ms", "p99 ms", "most ms"], rows)
    series = [Series(name, curve(milliseconds)) for name, milliseconds in took.items() if milliseconds]
    plot = lines(
        "latency", "Commit to handler when idle, by percentile (up to 99)", "percent of events", "milliseconds", series
    )
    return Section(TITLE, TEXT.format(count=count, turns=turns), [table], [plot], figures, aims(figures))


def percentile(ordered: list[float], share: float) -> float:
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


def curve(milliseconds: list[float]) -> list[tuple[float, float]]:
    ordered = sorted(milliseconds)
    return [(percent, percentile(ordered, percent / 100)) for percent in range(100)]


def aims(figures: dict[str, float]) -> list[Aim]:
    p50, p99 = figures["latency.ours.p50"], figures["latency.ours.p99"]
    found = [
        Aim("idle latency, commit to handler, p50", f"{p50:.2f} ms", "under 1 ms", p50 < 1),
        Aim("idle latency, commit to handler, p99", f"{p99:.2f} ms", "under 4 ms", p99 < 4),
    ]
    if "latency.graphile.p50" in figures:
        other50, other99 = figures["latency.graphile.p50"], figures["latency.graphile.p99"]
        shown = f"{p50:.2f} / {p99:.2f} ms against {other50:.2f} / {other99:.2f} ms"
        ahead = p50 < other50 and p99 < other99
        found.append(Aim("idle latency beside graphile-worker, p50 / p99", shown, "ahead", ahead))
    return found
