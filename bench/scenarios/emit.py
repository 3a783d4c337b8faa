"""What an event costs in the caller's transaction, beside a bare INSERT into the same table."""

from __future__ import annotations

from contextlib import ExitStack
from itertools import product
from typing import Any

from frame.bench import Bench
from frame.plots import OURS, RAW, Bar, bars
from frame.relays import relay
from frame.report import Aim, Plot, Section, Table
from frame.rounds import Sample

TITLE = "Emit"
WRITERS, MODES = (1, 8, 32), ("bare", "emit")
# How many in a transaction, and whether they have given keys, which emit looks for.
KINDS = ((1, False), (1, True), (50, False), (50, True))
NONE, BUSY, IDLE = "no relay", "busy relay", "idle relay"
# An hour later than anything here: a relay is told of them and has nothing to do.
LATER = "3600"
TEXT = f"""
Each writer has its own connection and repeats BEGIN, one statement, COMMIT. *bare* is a prepared INSERT into the same
table with the same driver (sqlx) and the same generated events; many rows are inserted by `unnest`. It leaves the
columns that `emit` writes itself (order, headers, times) to the table's defaults, does not check for duplicates and
reads nothing back. *emit* is the library's `emit`, or `emit_all` for many events. Each connection has run a prepared
statement of the application before, so that emit prepares its statement, too: because of poolers, it does so only on
such connections. Both take turns of 100 ms on the same connections, {{seconds}} s each, with the same table, relay
and commits (`synchronous_commit` is on). A transaction that has begun in a turn ends in it. The cost is that of a
writer's whole transaction per event: the ratio of the medians of the turns' rates. Events with keys of *their own*
(`repeatable`) cannot be duplicates. *Given* keys are looked up, and many such events are written under a savepoint,
two more statements, so that all or none are written. {NONE}: no relay is running. {BUSY}: the program `pillarbox
relay` delivers the events of both on the same processors; the bare rates with and without it show its own cost.
{IDLE}: the events are due in an hour, so the relay sleeps and every emit may wake it. The table is emptied before
each run.
"""
# Who delivers, writers, events per transaction, given keys.
Case = tuple[str, int, int, bool]


class Measured:
    """What the runs of a case said."""

    def __init__(self) -> None:
        self.cost = Sample()
        self.rates = {mode: Sample() for mode in MODES}
        self.micros = {mode: Sample() for mode in MODES}

    def add(self, report: dict[str, Any]) -> None:
        self.cost.values.append(report["cost"])
        for mode in MODES:
            self.rates[mode].values.append(report[mode]["events"])
            self.micros[mode].values.append(report[mode]["micros_per_event"])


def run(bench: Bench) -> Section:
    seconds = 0.7 if bench.quick else 1.2
    cases: list[Case] = [(state, writers, *kind) for state, writers, kind in product((NONE, BUSY), WRITERS, KINDS)]
    cases.append((IDLE, 8, 1, False))
    measured = {case: Measured() for case in cases}
    with ExitStack() as stack:
        databases = {state: bench.outbox(f"emit_{state.split()[0]}") for state in (NONE, BUSY, IDLE)}
        for state in (BUSY, IDLE):
            stack.enter_context(relay(bench, databases[state]))
        for number, case in product(range(bench.rounds), cases):
            state, writers, many, keyed = case
            databases[state].execute("TRUNCATE outbox_event")
            args = ["emit", "--database", databases[state].url, "--seconds", str(seconds)]
            args += ["--writers", str(writers), "--per-transaction", str(many)]
            args += ["--keyed"] if keyed else []
            args += ["--due-in", LATER] if state == IDLE else []
            report = bench.run_load(args)
            measured[case].add(report)
            rates = ", ".join(f"{mode} {report[mode]['events']:,.0f}" for mode in MODES)
            bench.log(f"round {number + 1}: {case}: {rates} events/s, cost {report['cost']:.2f}")
    for database in databases.values():
        database.drop()
    header = ["", "writers", "events per transaction", "keys", "bare, events/s", "emit, events/s"]
    header += ["bare, µs", "emit, µs", "cost, emit : bare"]
    table = Table(header, [row(case, measured[case]) for case in cases])
    section = Section(TITLE, TEXT.format(seconds=seconds), [table], [plot(measured)])
    for case in cases:
        state, writers, many, keyed = case
        name = ".".join(("emit", state.split()[0], str(writers), str(many), *(["keyed"] if keyed else [])))
        section.figures[name] = measured[case].cost.median
    section.aims = aims(measured)
    return section


def row(case: Case, measured: Measured) -> list[str]:
    state, writers, many, keyed = case
    events = [str(measured.rates[mode]) for mode in MODES]
    micros = [measured.micros[mode].show(1 if many > 1 else 0) for mode in MODES]
    keys = "given" if keyed else "their own"
    return [state, str(writers), str(many), keys, *events, *micros, measured.cost.show(2)]


def plot(measured: dict[Case, Measured]) -> Plot:
    return bars(
        "emit",
        "One event per transaction",
        "events/s",
        [
            Bar(
                f"{mode}, {writers} writers, {state}",
                measured[state, writers, many, keyed].rates[mode],
                OURS if mode == "emit" else RAW,
            )
            for state, writers, many, keyed in measured
            for mode in MODES
            if many == 1 and not keyed
        ],
    )


def aims(measured: dict[Case, Measured]) -> list[Aim]:
    found = []
    for many, keyed in KINDS:
        worst = max(measured[NONE, writers, many, keyed].cost.median for writers in WRITERS)
        keys = "given keys" if keyed else "keys of their own"
        text = f"emit, {many} per transaction, {keys}: cost beside the bare INSERT"
        note = f"the worst of {', '.join(map(str, WRITERS))} writers, no relay"
        found.append(Aim(text, f"{worst:.2f} x", "at most 1.15 x", worst <= 1.15, note))
    busy, alone = measured[BUSY, 32, 1, False], measured[NONE, 32, 1, False].rates["bare"].median
    kept = 1 / busy.cost.median
    shared, ours = (busy.rates[mode].median / alone for mode in MODES)
    note = f"of bare beside the same relay; of bare with no relay, bare beside it has {shared:.0%} and emit {ours:.0%}"
    found.append(
        Aim("emit, 32 writers, busy relay", f"{kept:.0%}", "at least 90 % of the bare rate", kept >= 0.9, note)
    )
    return found
