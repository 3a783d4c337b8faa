"""A large backlog, many events that wait for a retry, and a relay with nothing to do: rates, memory, CPU."""

from __future__ import annotations

import time
from typing import Any

from frame.bench import Bench
from frame.database import Database
from frame.plots import OTHER, OURS, PEER, Bar, bars
from frame.relays import relay
from frame.report import Aim, Section, Table
from frame.rounds import Sample

TITLE = "Backlog"
TEXT = """
A handler that does nothing, one relay. *{base:,} due*: the drain of the other scenarios, {rounds} times. *{pending:,}
due*: as many events as can be drained in {window} s, first with deletes, then with kept events. *{base:,} due,
{waiting:,} waiting*: the table also has this many events that have failed once and are due tomorrow. Every table is
vacuumed, analysed and written to disk after it is filled. Memory is the largest resident size of the relay's process.
*Idle*: the program `pillarbox relay` with its defaults for {idle} s, on an empty table and on the table with waiting
events.
"""
DAY = 86_400
MODES = ("delete", "keep")


def run(bench: Bench) -> Section:
    pending, waiting = bench.pick(10_000_000, 300_000), bench.pick(1_000_000, 50_000)
    base, window, idle = bench.pick(200_000, 20_000), bench.pick(30, 4), bench.pick(30, 5)
    about = {"pending": pending, "waiting": waiting, "base": base, "window": window, "idle": idle}
    section = Section(TITLE, TEXT.format(rounds=bench.rounds, **about))
    few, some, many = f"{base:,} due", f"{base:,} due, {waiting:,} waiting", f"{pending:,} due"
    samples = {(name, mode): Sample() for name in (few, some, many) for mode in MODES}
    memory = dict.fromkeys(samples, 0.0)

    def note(name: str, mode: str, report: dict[str, Any]) -> None:
        samples[name, mode].values.append(report["rate"])
        memory[name, mode] = max(memory[name, mode], report["usage"]["peak_rss_mb"])
        bench.log(f"{name}, {mode}: {report['rate']:,.0f}/s, {report['usage']['peak_rss_mb']:.0f} MB")

    filled = fill(bench, "backlog_few", base)
    patient = fill(bench, "backlog_some", base, waiting)
    for _ in range(bench.rounds):
        for name, template in ((few, filled), (some, patient)):
            for mode in MODES:
                database = bench.postgres("backlog", template)
                note(name, mode, drain(bench, database, mode, base))
                database.drop()
    filled.drop()
    patient.drop()
    idle_relay(bench, section, waiting, idle)
    large = fill(bench, "backlog_many", pending)
    for mode in MODES:
        note(many, mode, drain(bench, large, mode, pending, window))
    large.drop()
    rows = [[name, mode, str(sample), f"{memory[name, mode]:.0f}"] for (name, mode), sample in samples.items()]
    section.tables.insert(0, Table(["backlog", "", "events/s", "memory, MB"], rows))
    colours = {few: OURS, some: OTHER, many: PEER}
    bar = [Bar(f"{name}, {mode}", sample, colours[name]) for (name, mode), sample in samples.items()]
    section.plots.append(bars("backlog", "Drain with a large backlog", "events/s", bar))
    for mode in MODES:
        for key, name in (("many", many), ("waiting", some)):
            share = samples[name, mode].median / samples[few, mode].median
            section.figures[f"backlog.{key}.{mode}"] = share
            section.aims.append(rate_aim(f"backlog, {name}, {mode}", share))
    most = max(memory[many, mode] for mode in MODES)
    section.figures["backlog.memory"] = most
    section.aims.append(Aim(f"backlog, {many}: memory", f"{most:.0f} MB", "under 100 MB", most < 100))
    return section


def fill(bench: Bench, name: str, count: int, waiting: int = 0) -> Database:
    database = bench.postgres(name)
    for rows, more in ((waiting, ["--due-in", str(DAY)]), (count, [])):
        if rows:
            report = bench.run_load(["fill", "--database", database.url, "--count", str(rows), *more])
            bench.log(f"filled with {rows:,} at {report['rate']:,.0f}/s")
    database.rest("outbox_event")
    return database


def drain(bench: Bench, database: Database, mode: str, count: int, seconds: int | None = None) -> dict[str, Any]:
    args = ["drain", "--database", database.url, "--count", str(count)]
    if mode == "delete":
        args.append("--delete")
    if seconds is not None:
        args += ["--seconds", str(seconds)]
    return bench.run_load(args)


def idle_relay(bench: Bench, section: Section, waiting: int, seconds: int) -> None:
    """Memory and share of a processor of a relay with nothing to do."""
    found = {}
    tables = {"an empty table": bench.outbox("idle_empty"), f"{waiting:,} waiting": fill(bench, "idle", 0, waiting)}
    for name, database in tables.items():
        with relay(bench, database) as running:
            # What it does once at the start is over.
            time.sleep(3)
            before, began = running.cpu(), time.monotonic()
            time.sleep(seconds)
            share = (running.cpu() - before) / (time.monotonic() - began)
            found[name] = (running.memory(), share)
            bench.log(f"idle, {name}: {found[name][0]:.1f} MB, {share:.2%} CPU")
        database.drop()
    memory, share = (max(values) for values in zip(*found.values(), strict=True))
    section.figures |= {"idle.memory": memory, "idle.cpu": share}
    note = f"{seconds} s, in steps of a hundredth of a second"
    section.aims += [
        Aim("idle relay: memory", f"{memory:.1f} MB", "under 25 MB", memory < 25),
        Aim("idle relay: CPU", f"{share:.2%}", "under 0.2 %", share < 0.002, note),
    ]
    rows = [[name, f"{memory:.1f}", f"{share:.2%}"] for name, (memory, share) in found.items()]
    section.tables.append(Table(["idle relay on", "memory, MB", "CPU"], rows))


def rate_aim(text: str, share: float) -> Aim:
    return Aim(text, f"{share:.0%} of the rate without", "within 15 %", share >= 0.85)
