"""What an event costs in the caller's transaction, beside a bare INSERT into the same table."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from itertools import product

from frame.bench import Bench
from frame.plots import OURS, RAW, Bar, bars
from frame.relays import relay
from frame.report import Aim, Plot, Section, Table
from frame.rounds import Sample

TITLE = "Emit"
WRITERS, PER_TRANSACTION, MODES = (1, 8, 32), (1, 50), ("bare", "emit")
NONE, BUSY, IDLE = "no relay", "busy relay", "idle relay"
# An hour later than anything here: a relay is told of them and has nothing to do.
LATER = "3600"
TEXT = f"""
Writers with a connection each: BEGIN, one statement, COMMIT, again and again for {{seconds}} s. *bare* is a prepared
INSERT into the same table by the same driver (sqlx), its events made up in the same way, many rows by `unnest`; it
leaves to the table's defaults what `emit` writes itself (order, headers, times), checks no duplicates and reads
nothing back; *emit* is the library's `emit`, and `emit_all` for many. The cost is a writer's time per event, the
whole transaction counted. {NONE}: nobody delivers. {BUSY}: the program `pillarbox relay` delivers meanwhile what is
written, whoever writes it, on the same processors. {IDLE}: the events are due in an hour, so the relay sleeps on and
every emit may wake it. The table is emptied before each turn; all take turns.
"""
Case = tuple[str, int, int, str]


def run(bench: Bench) -> Section:
    seconds = 0.7 if bench.quick else 1.2
    cases: list[Case] = list(product((NONE, BUSY), WRITERS, PER_TRANSACTION, MODES))
    cases += product((IDLE,), (8,), (1,), MODES)
    rates, costs = ({case: Sample() for case in cases} for _ in range(2))
    statements = {case: Sample() for case in cases}
    with ExitStack() as stack:
        databases = {state: bench.outbox(f"emit_{state.split()[0]}") for state in (NONE, BUSY, IDLE)}
        for state in (BUSY, IDLE):
            stack.enter_context(relay(bench, databases[state]))
        for number, case in product(range(bench.rounds), cases):
            state, writers, many, mode = case
            databases[state].execute("TRUNCATE outbox_event")
            args = ["emit", "--database", databases[state].url, "--mode", mode, "--seconds", str(seconds)]
            args += ["--writers", str(writers), "--per-transaction", str(many)]
            report = bench.run_load([*args, "--due-in", LATER] if state == IDLE else args)
            rates[case].values.append(report["events"])
            costs[case].values.append(report["micros_per_event"])
            statements[case].values.append(report["statement_micros_per_event"])
            bench.log(f"round {number + 1}: {case}: {report['events']:,.0f} events/s")
    for database in databases.values():
        database.drop()
    pairs = [case[:3] for case in cases if case[3] == "bare"]
    rows = [row(*pair, rates, costs, statements) for pair in pairs]
    header = ["", "writers", "events per transaction", "bare, events/s", "emit, events/s", "bare, µs", "emit, µs"]
    table = Table([*header, "cost, emit : bare", "of the statement alone"], rows)
    section = Section(TITLE, TEXT.format(seconds=seconds), [table], [plot(rates)])
    for pair in pairs:
        name = ".".join(("emit", pair[0].split()[0], str(pair[1]), str(pair[2])))
        section.figures[name] = ratio(pair, costs)
    section.aims = aims(pairs, rates, costs)
    return section


def ratio(pair: tuple[str, int, int], costs: dict[Case, Sample]) -> float:
    """The cost of emit by that of the bare INSERT: the median of the rounds' ratios, as neighbours compare best."""
    emit, bare = costs[*pair, "emit"].values, costs[*pair, "bare"].values
    return Sample([ours / theirs for ours, theirs in zip(emit, bare, strict=True)]).median


def row(
    state: str,
    writers: int,
    many: int,
    rates: dict[Case, Sample],
    costs: dict[Case, Sample],
    statements: dict[Case, Sample],
) -> list[str]:
    pair = (state, writers, many)
    events = [str(rates[*pair, mode]) for mode in MODES]
    micros = [costs[*pair, mode].show(1 if many > 1 else 0) for mode in MODES]
    return [
        state,
        str(writers),
        str(many),
        *events,
        *micros,
        f"{ratio(pair, costs):.2f}",
        f"{ratio(pair, statements):.2f}",
    ]


def plot(rates: dict[Case, Sample]) -> Plot:
    shown: Iterable[Case] = (case for case in rates if case[2] == 1)
    return bars(
        "emit",
        "One event per transaction",
        "events/s",
        [
            Bar(
                f"{mode}, {writers} writers, {state}",
                rates[state, writers, many, mode],
                OURS if mode == "emit" else RAW,
            )
            for state, writers, many, mode in shown
        ],
    )


def aims(pairs: list[tuple[str, int, int]], rates: dict[Case, Sample], costs: dict[Case, Sample]) -> list[Aim]:
    found = []
    for many in PER_TRANSACTION:
        worst = max(ratio(pair, costs) for pair in pairs if pair[0] == NONE and pair[2] == many)
        text = f"emit, {many} per transaction, cost beside the bare INSERT"
        note = f"the worst of {', '.join(map(str, WRITERS))} writers, no relay"
        found.append(Aim(text, f"{worst:.2f} x", "at most 1.15 x", worst <= 1.15, note))
    busy = rates[BUSY, 32, 1, "emit"].median / rates[BUSY, 32, 1, "bare"].median
    alone = rates[BUSY, 32, 1, "emit"].median / rates[NONE, 32, 1, "bare"].median
    note = f"of bare with the same busy relay; {alone:.0%} of bare with no relay, which has the processors to itself"
    found.append(
        Aim("emit, 32 writers, busy relay", f"{busy:.0%}", "at least 90 % of the bare rate", busy >= 0.9, note)
    )
    return found
