"""Producers and a relay on one machine, at half and at nine tenths of what both together can do."""

from __future__ import annotations

from typing import Any

from frame.bench import Bench
from frame.database import Database
from frame.plots import Series, lines
from frame.report import Section, Table

TITLE = "Steady load"
# Of the rate that producers and relay reach together.
SHARES = (50, 90)
WRITERS, PER_TRANSACTION = 8, 10
STATE = """SELECT n_dead_tup, pg_table_size('outbox_event') / 1e6, pg_indexes_size('outbox_event') / 1e6
    FROM pg_stat_user_tables WHERE relname = 'outbox_event'"""
TEXT = f"""
{WRITERS} writers emit {PER_TRANSACTION} events per transaction, through the library, in a separate process. A relay
with its defaults (delivered events are kept) calls a handler that does nothing. Both share the machine's processors
with the database. First, the highest rate that they reach together is measured in {{calibration}} s with writers that
do not pause: the committed events divided by the time until the last one was handled. Then the writers keep a share
of that rate for {{seconds}} s. The latency is from the return of the commit to the call of the handler. The database
CPU is that of all PostgreSQL processes, in seconds per second (at most 2 with two processors). Dead rows and sizes
are those at the end.
"""


def run(bench: Bench) -> Section:
    calibration, seconds = bench.pick(15, 3), bench.pick(120, 6)
    most = highest_rate(bench, calibration)
    rows, series = [], []
    figures = {"steady.most": most}
    for share in SHARES:
        database = bench.outbox("steady")
        before = bench.server_cpu()
        report = steady(bench, database, most * share / 100, seconds)
        cpu = (bench.server_cpu() - before) / report["seconds"]
        rows.append(row(f"{share} %", report, cpu, database))
        series.append(Series(f"p99 at {share} %", points(report, "p99")))
        series.append(Series(f"p50 at {share} %", points(report, "p50")))
        name = f"steady.{share}"
        figures |= {f"{name}.rate": report["rate"], f"{name}.cpu": cpu}
        figures |= {f"{name}.{part}": report["latency"][part] for part in ("p50", "p99", "p999")}
        bench.log(f"{share} %: {report['rate']:,.0f}/s, {report['latency']}")
        database.drop()
    header = ["load", "asked, events/s", "delivered, events/s", "p50 ms", "p99 ms", "p99.9 ms", "most ms"]
    header += ["database CPU", "relay CPU", "dead rows", "table MB", "indexes MB"]
    for cells, share in zip(rows, SHARES, strict=True):
        cells.insert(1, f"{most * share / 100:,.0f}")
    plot = lines("steady", "Commit to handler, in each second", "seconds", "milliseconds", series)
    text = TEXT.format(calibration=calibration, seconds=seconds)
    text += f"\nThe highest rate of both together: {most:,.0f} events/s."
    return Section(TITLE, text, [Table(header, rows)], [plot], figures)


def highest_rate(bench: Bench, seconds: int) -> float:
    """Of producers and relay together: what was committed, by the time until the last of it was handled."""
    database = bench.outbox("steady")
    report = steady(bench, database, 0, seconds)
    database.drop()
    bench.log(f"highest rate: {report['rate']:,.0f}/s; written at {report['produced']['rate']:,.0f}/s")
    return report["rate"]


def steady(bench: Bench, database: Database, rate: float, seconds: float, *more: str) -> dict[str, Any]:
    """A relay and producers that keep this pace for so long; a pace of 0 is as fast as they can."""
    args = ["steady", "--database", database.url, "--rate", f"{rate:.0f}", "--seconds", str(seconds)]
    args += ["--writers", str(WRITERS), "--per-transaction", str(PER_TRANSACTION), *more]
    report = bench.run_load(args)
    if report["repeated"]:
        raise RuntimeError(f"{report['repeated']} of {report['count']} events were delivered twice")
    return report


def points(report: dict[str, Any], part: str) -> list[tuple[float, float]]:
    """A figure of each second; the last seconds may be without commits."""
    return [(second, each[part]) for second, each in enumerate(report["each"]) if each["produced"]]


def row(name: str, report: dict[str, Any], cpu: float, database: Database) -> list[str]:
    latency, relay = report["latency"], report["usage"]["cpu_seconds"] / report["seconds"]
    dead, table, indexes = database.query(STATE)[0]
    return [
        name,
        f"{report['rate']:,.0f}",
        *(f"{latency[part]:,.1f}" for part in ("p50", "p99", "p999", "max")),
        f"{cpu:.2f}",
        f"{relay:.2f}",
        f"{dead:,}",
        f"{table:,.0f}",
        f"{indexes:,.0f}",
    ]
