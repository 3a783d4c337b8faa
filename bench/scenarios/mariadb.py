"""MariaDB: a backlog with and without a held snapshot beside SQL alone, the cost of an emit, and single events."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

from frame.bench import Bench
from frame.mariadb import MariaDb
from frame.report import Aim, Section, Table
from frame.rounds import Sample

TITLE = "MariaDB"
AGGREGATES = 10_000
TEXT = """
The same events on MariaDB, durable settings. *SQL alone* reads due events by the index of due events in batches of
1000 and settles them, on one connection, and does nothing else; each read begins where the last one ended. *lock*
settles in the transaction that has locked the events, which a relay cannot do: it would hold locks while it sends.
*lease* writes a lease, commits, and settles in a second transaction, as Pillarbox does. *held* means that another
session has an open snapshot, older than the backlog's deletion. Emit is measured as on PostgreSQL. Single events are
20 to 120 ms apart; a watch in the relay finds them, as it finds events of another process.
"""
Measure = Callable[[], float]


def run(bench: Bench) -> Section:
    rows = bench.pick(200_000, 20_000)
    filled, drained = bench.mariadb("filled").create(), bench.mariadb("drained").create()
    bench.run_load(["fill", "--database", filled.url, "--count", str(rows), "--aggregates", str(AGGREGATES)])
    bench.run_load(["fill", "--database", drained.url, "--count", "1"])
    samples = bench.interleave(drains(bench, filled, drained, rows))
    emits = emit(bench)
    latency = bench.run_load(["latency", "--database", drained.url, "--count", str(bench.pick(500, 40))])
    drained.drop()
    filled.drop()
    return section(samples, emits, sorted(latency["latencies_ms"]), rows)


def drains(bench: Bench, filled: MariaDb, drained: MariaDb, rows: int) -> dict[str, Measure]:
    def measure(command: str, *args: str, held: bool = False) -> Measure:
        def rate() -> float:
            drained.fill_from(filled)
            with drained.snapshot() if held else nullcontext():
                report = bench.run_load([command, "--database", drained.url, "--count", str(rows), *args])
            left = drained.execute("SELECT count(*) FROM outbox_event WHERE status <> 'delivered'")
            if left:
                raise RuntimeError(f"{left} events are not delivered")
            return report["rate"]

        return rate

    found = {}
    for mode in ("keep", "delete"):
        flag = ["--delete"] if mode == "delete" else []
        for held in (False, True):
            name = f"{mode}.held" if held else mode
            found[f"ours.{name}"] = measure("drain", *flag, held=held)
            for design in ("lock", "lease"):
                found[f"{design}.{name}"] = measure("raw-mysql", "--design", design, "--floor", *flag, held=held)
        found[f"ordered.{mode}"] = measure("drain", "--order", "aggregate", *flag)
    return found


def emit(bench: Bench) -> dict[tuple[int, int], Sample]:
    """The cost of emit, by writers and events per transaction."""
    costs = {(writers, many): Sample() for writers in (1, 8) for many in (1, 50)}
    database = bench.mariadb("emits").create()
    for _ in range(bench.rounds):
        for (writers, many), sample in costs.items():
            args = ["emit", "--database", database.url, "--seconds", "1.2", "--writers", str(writers)]
            report = bench.run_load([*args, "--per-transaction", str(many)])
            sample.values.append(report["cost"])
            bench.log(f"emit, {writers} writers, {many} events: cost {report['cost']:.2f}")
            database.execute("TRUNCATE outbox_event")
    database.drop()
    return costs


def section(
    samples: dict[str, Sample], emits: dict[tuple[int, int], Sample], milliseconds: list[float], rows: int
) -> Section:
    names = {
        "ours": "Pillarbox",
        "lease": "SQL alone, lease",
        "lock": "SQL alone, lock",
        "ordered": "Pillarbox, ordered",
    }
    table = Table(
        ["events/s", "keep", "keep, held", "delete", "delete, held"],
        [
            [name, *(str(samples.get(f"{key}.{mode}", "")) for mode in ("keep", "keep.held", "delete", "delete.held"))]
            for key, name in names.items()
        ],
        title=f"Drain of {rows:,} events",
    )
    costs = Table(
        ["writers", "events per transaction", "cost, emit : bare"],
        [[str(writers), str(many), cost.show(2)] for (writers, many), cost in emits.items()],
        title="Emit",
    )
    p50, p99 = (milliseconds[int(len(milliseconds) * share)] for share in (0.5, 0.99))
    single = Table(["", "p50 ms", "p99 ms"], [["single events", f"{p50:.2f}", f"{p99:.2f}"]], title="Idle latency")
    return Section(TITLE, TEXT, [table, costs, single], [], {}, aims(samples, emits, p50, p99))


def aims(samples: dict[str, Sample], emits: dict[tuple[int, int], Sample], p50: float, p99: float) -> list[Aim]:
    found = []
    for mode in ("keep", "delete"):
        ours = samples[f"ours.{mode}"].median
        share, held = ours / samples[f"lock.{mode}"].median, samples[f"ours.{mode}.held"].median / ours
        of_lease = ours / samples[f"lease.{mode}"].median
        note = f"{of_lease:.0%} of SQL alone with leases"
        found.append(Aim(f"MariaDB, drain {mode} : SQL alone", f"{share:.0%}", "70 %", share >= 0.7, note))
        found.append(Aim(f"MariaDB, drain {mode}, snapshot held : not held", f"{held:.0%}", "80 %", held >= 0.8))
    cost = max(sample.median for sample in emits.values())
    found.append(Aim("MariaDB, emit : bare INSERT, the worst case", f"{cost:.2f}", "1.3", cost <= 1.3))
    found.append(Aim("MariaDB, idle latency, p50", f"{p50:.1f} ms", "under 12 ms", p50 < 12))
    found.append(Aim("MariaDB, idle latency, p99", f"{p99:.1f} ms", "under 30 ms", p99 < 30))
    return found
