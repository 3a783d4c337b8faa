"""A steady load through the write-ahead log and through the table, and single events when nothing else happens."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from frame.bench import Bench
from frame.database import Database
from frame.logged import logged
from frame.plots import Series, lines
from frame.report import Aim, Section, Table
from scenarios.horizon import quarters, rate_and_p99, snapshot
from scenarios.latency import curve, percentile
from scenarios.steady import PER_TRANSACTION, WRITERS, steady

STEADY = """
**Steady load**: {writers} writers emit {many} events per transaction in a process of their own, a relay calls a
handler that does nothing. The highest rate of both together is measured in {calibration} s. Then writers keep half
of the table's highest rate, through the table and through the log, and half of the log's highest rate through the
log, without and with a snapshot held by another session; {seconds} s each. The latency is from the return of the
commit to the call of the handler. *Server CPU per event* is that of all processes of PostgreSQL, for writers and
reader together.
"""
IDLE = """
**Idle latency**: single events, 20 to 150 ms apart, {count} in each of {turns} turns, from the return of the commit
to the call of the handler.
"""


@contextmanager
def outbox(bench: Bench, way: str) -> Iterator[Database]:
    """A fresh outbox, in the table or in the log."""
    if way == "log":
        with logged(bench, "wal_steady") as log:
            yield log.database
        return
    database = bench.outbox("wal_steady")
    yield database
    database.drop()


def arguments(way: str) -> list[str]:
    return ["--delete", "--wal"] if way == "log" else ["--delete"]


def steadily(bench: Bench, section: Section) -> None:
    calibration, seconds = bench.pick(12, 3), bench.pick(40, 5)
    most = {}
    for way in ("table", "log"):
        with outbox(bench, way) as database:
            most[way] = steady(bench, database, 0, calibration, *arguments(way))["rate"]
        bench.log(f"highest rate, {way}: {most[way]:,.0f}/s")
    cases = {
        "table, half of the table's most": ("table", most["table"] / 2, False),
        "log, the same rate": ("log", most["table"] / 2, False),
        "log, half of the log's most": ("log", most["log"] / 2, False),
        "log, the same, snapshot held": ("log", most["log"] / 2, True),
    }
    reports: dict[str, dict[str, Any]] = {}
    rows = []
    for name, (way, rate, held) in cases.items():
        with outbox(bench, way) as database, snapshot(database) if held else nullcontext():
            before = bench.server_cpu()
            report = reports[name] = steady(bench, database, rate, seconds, *arguments(way))
            report["cpu"] = (bench.server_cpu() - before) / report["count"] * 1e6
        latency, relay = report["latency"], report["usage"]["cpu_seconds"] / report["count"] * 1e6
        shown = [f"{latency[part]:,.2f}" for part in ("p50", "p99", "p999")]
        spilled = f"{report['log']['spilled']:,}" if way == "log" else ""
        rows.append(
            [name, f"{rate:,.0f}", f"{report['rate']:,.0f}", *shown, f"{report['cpu']:.1f}", f"{relay:.1f}", spilled]
        )
        bench.log(f"{name}: {report['rate']:,.0f}/s, {latency}, {report['cpu']:.1f} µs of server CPU per event")
    table, same, half, held = reports.values()
    text = STEADY.format(writers=WRITERS, many=PER_TRANSACTION, calibration=calibration, seconds=seconds)
    section.text += (
        text + f"The highest rates: {most['table']:,.0f}/s through the table, {most['log']:,.0f}/s through the log.\n"
    )
    header = ["steady load", "asked, events/s", "delivered, events/s", "p50 ms", "p99 ms", "p99.9 ms"]
    header += ["server CPU per event, µs", "relay CPU per event, µs", "spilled"]
    section.tables.append(Table(header, rows))
    share = same["cpu"] / table["cpu"]
    kept = rate_and_p99(quarters(held)[-1])[0] / half["rate"]
    p99 = half["latency"]["p99"]
    section.figures |= {
        "wal.steady.p99": p99,
        "wal.steady.most": most["log"],
        "wal.steady.cpu": share,
        "wal.steady.held": kept,
    }
    section.aims += [
        Aim("log: steady load at half the maximum, p99", f"{p99:.1f} ms", "under 10 ms", p99 < 10),
        Aim(
            "log: server CPU per event, writer and reader, at the table's half maximum",
            f"{share:.2f} x",
            "at most a third of the table",
            share <= 1 / 3,
        ),
        Aim(
            "log: steady load while a snapshot is held, last quarter",
            f"{kept:.0%}",
            "at least 98 % of the undisturbed rate",
            kept >= 0.98,
        ),
    ]


def idle(bench: Bench, section: Section) -> None:
    turns, count = bench.pick(3, 1), bench.pick(160, 30)
    took: dict[str, list[float]] = {"table": [], "log": []}
    for _ in range(turns):
        for way, milliseconds in took.items():
            with outbox(bench, way) as database:
                args = ["latency", "--database", database.url, "--count", str(count), "--apart", "20", "150"]
                milliseconds += bench.run_load([*args, *arguments(way)])["latencies_ms"]
    rows = []
    for way, milliseconds in took.items():
        milliseconds.sort()
        parts = [percentile(milliseconds, share) for share in (0.5, 0.9, 0.99, 1.0)]
        rows.append([way, str(len(milliseconds)), *(f"{part:.2f}" for part in parts)])
        section.figures |= {f"wal.latency.{way}.p50": parts[0], f"wal.latency.{way}.p99": parts[2]}
        bench.log(f"idle latency, {way}: p50 {parts[0]:.2f} ms, p99 {parts[2]:.2f} ms")
    section.text += IDLE.format(count=count, turns=turns)
    section.tables.append(Table(["idle", "events", "p50 ms", "p90 ms", "p99 ms", "most ms"], rows))
    series = [Series(way, curve(milliseconds)) for way, milliseconds in took.items()]
    title = "Commit to handler when idle, by percentile (up to 99): the table and the log"
    section.plots.append(lines("wal_latency", title, "percent of events", "milliseconds", series))
    p50, p99 = section.figures["wal.latency.log.p50"], section.figures["wal.latency.log.p99"]
    section.aims += [
        Aim("log: idle latency, commit to handler, p50", f"{p50:.2f} ms", "under 0.5 ms", p50 < 0.5),
        Aim("log: idle latency, commit to handler, p99", f"{p99:.2f} ms", "under 1.5 ms", p99 < 1.5),
    ]
