"""What an event costs its writer: in the table, and in the write-ahead log."""

from __future__ import annotations

import re
from itertools import product

from frame.bench import Bench
from frame.logged import logged
from frame.plots import OURS, RAW, Bar, bars
from frame.report import Aim, Section, Table
from frame.rounds import Sample
from frame.servers import program

TABLE, LOG = "table", "log"
WRITERS = (8, 32)
MODES = {"bare": "a bare INSERT", "emit": "emit", "function": "outbox_emit"}
SERVER_TIME = """
**Server time of an event, without the commit.** CPU time of the server's process for many statements in one
transaction, by `/proc`: a bare prepared INSERT, the library's `emit` or `emit_all`, and the function `outbox_emit`,
in turns on one connection. BEGIN and COMMIT are not counted. *Without the round trip*: less the time of
`SELECT 1`. A call of `outbox_emit` is one event; fifty are fifty
calls in one statement.
"""
COMMITS = """
**Commits a second**, {seconds} s each, one event per transaction, no relay. `pgbench` calls `outbox_emit`,
prepared, with two threads; the library's `emit` runs in `load emit`, in BEGIN and COMMIT of its own: three round
trips.
"""
SCRIPT = (
    "SELECT outbox_emit('Order', '42', 'order.placed', '{{\"order\": 42, \"filler\": \"{filler}\"}}'::jsonb, "
    "repeatable => true);\n"
)


def server_time(bench: Bench, section: Section) -> None:
    cases = list(product((TABLE, LOG), (1, 50)))
    took = {(way, many, mode): Sample() for way, many in cases for mode in MODES}
    # Beside the bare INSERT of the same run: they take turns.
    costs = {(way, many, mode): Sample() for way, many in cases for mode in MODES}
    net = {(way, many, mode): Sample() for way, many in cases for mode in MODES}
    with logged(bench, "wal_cost") as outbox:
        for _ in range(bench.rounds):
            for way, many in cases:
                outbox.database.execute("TRUNCATE outbox_event")
                outbox.gate(is_open=way == LOG)
                args = ["cost", "--database", outbox.url, "--per-statement", str(many)]
                args += ["--statements", str(200 if many == 1 else 20), "--turns", str(bench.pick(15, 5))]
                report = bench.run_load(args)
                empty = report["nothing"]["micros"]
                for mode in MODES:
                    took[way, many, mode].values.append(report[mode]["micros"])
                    own = (report[mode]["micros"] - empty) / max(report["bare"]["micros"] - empty, 0.1)
                    net[way, many, mode].values.append(own)
                    costs[way, many, mode].values.append(report[mode]["micros"] / report["bare"]["micros"])
                bench.log(f"server time, {way}, {many}: " + ", ".join(f"{m} {report[m]['micros']:.1f}" for m in MODES))
    rows = []
    for many in (1, 50):
        bare = Sample([value for way in (TABLE, LOG) for value in took[way, many, "bare"].values])
        rows.append([MODES["bare"], str(many), bare.show(1), "1", "1"])
        for way, mode in product((TABLE, LOG), ("emit", "function")):
            cost = costs[way, many, mode]
            rows.append([f"{MODES[mode]}, {way}", str(many), took[way, many, mode].show(1), cost.show(2)])
            rows[-1].append(net[way, many, mode].show(2))
            section.figures[f"wal.cost.{way}.{mode}.{many}"] = cost.median
            # A call of the function is one event, so many of them are not to be compared with one INSERT of many rows.
            if way == LOG and (mode == "emit" or many == 1):
                text = f"log: server time of {MODES[mode]} beside a bare INSERT, {many} per statement"
                note = f"{net[way, many, mode].median:.2f} x without the round trip of an empty statement"
                section.aims.append(Aim(text, f"{cost.median:.2f} x", "at most 0.5 x", cost.median <= 0.5, note))
    section.text += SERVER_TIME
    section.tables.append(
        Table(
            ["server time", "events per statement", "µs per event", "of a bare INSERT", "without the round trip"], rows
        )
    )


def commits(bench: Bench, section: Section) -> None:
    seconds = bench.pick(4, 1)
    ways = list(product(("function", "emit"), WRITERS, (TABLE, LOG)))
    rates = {case: Sample() for case in ways}
    script = bench.directory / "emit.sql"
    script.write_text(SCRIPT.format(filler="x" * 464))
    with logged(bench, "wal_commits") as outbox:
        for _ in range(bench.rounds):
            for mode, writers, way in ways:
                outbox.database.execute("TRUNCATE outbox_event")
                outbox.gate(is_open=way == LOG)
                if mode == "function":
                    rate = pgbench(bench, outbox.url, str(script), writers, seconds)
                else:
                    args = ["emit", "--database", outbox.url, "--modes", "emit", "--writers", str(writers)]
                    rate = bench.run_load([*args, "--seconds", str(seconds)])["emit"]["events"]
                written = outbox.database.value("SELECT count(*) FROM outbox_event")
                # The program's own first event may be in the table.
                if (written > 1) == (way == LOG):
                    raise RuntimeError(f"{written:,} events went into the table, where they were to go into the {way}")
                rates[mode, writers, way].values.append(rate)
                bench.log(f"commits, {MODES[mode]}, {writers} writers, {way}: {rate:,.0f}/s")
    rows, plot = [], []
    for mode, writers in product(("function", "emit"), WRITERS):
        table, log = (rates[mode, writers, way] for way in (TABLE, LOG))
        ratio = log.median / table.median
        program_name = "pgbench, outbox_emit" if mode == "function" else "load, emit"
        rows.append([program_name, str(writers), str(table), str(log), f"{ratio:.2f}"])
        plot += [
            Bar(f"{program_name}, {writers} writers, {way}", rates[mode, writers, way], OURS if way == LOG else RAW)
            for way in (TABLE, LOG)
        ]
        section.figures[f"wal.commits.{mode}.{writers}"] = ratio
        text = f"log: commits a second, {program_name}, {writers} writers"
        section.aims.append(Aim(text, f"{ratio:.2f} x", "at least 2.5 x the table", ratio >= 2.5))
    section.text += COMMITS.format(seconds=seconds)
    section.tables.append(Table(["commits a second", "writers", "table", "log", "log : table"], rows))
    section.plots.append(bars("wal_commits", "One event per transaction: the table and the log", "commits/s", plot))


def pgbench(bench: Bench, url: str, script: str, writers: int, seconds: int) -> float:
    command = [
        program("pgbench"),
        "-n",
        "-M",
        "prepared",
        "-c",
        str(writers),
        "-j",
        "2",
        "-T",
        str(seconds),
        "-f",
        script,
        url,
    ]
    said = bench.run(command)
    found = re.search(r"^tps = ([0-9.]+)", said, re.MULTILINE)
    if found is None:
        raise RuntimeError(f"pgbench: no rate in {said[-300:]!r}")
    return float(found[1])
