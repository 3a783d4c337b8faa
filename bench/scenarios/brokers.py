"""Each kind of broker: plainly, over TLS, in order, and while the broker or the relay is killed."""

from __future__ import annotations

from frame.bench import Bench
from frame.plots import OTHER, OURS, Bar, bars
from frame.report import Aim, Section, Table
from frame.rounds import Sample

TITLE = "Brokers"
TEXT = """
{count:,} events of 490 bytes (a tenth of it for SQS and SNS) go from PostgreSQL to a broker on this machine, through
the program with its defaults: plainly, over TLS with a client certificate, in order (the events of ten aggregates),
and while the broker or the relay is killed after a quarter of them. "Sink alone" is the same client without a
database and without a relay, two batches at once. Another client of each system reads what arrived. Kafka is tansu,
which keeps everything in memory; SQS and SNS are moto's server in Python, whose rate says nothing about AWS. What
would forget everything when killed has its connections cut instead.
"""
# An ordered drain must keep this share of the rate without order, where the broker keeps order itself.
ORDERED = {"Kafka": 0.8, "Nats": 0.8}


def run(bench: Bench) -> Section:
    count = bench.pick(20_000, 2_000)
    few = ["--events", str(count)] if count < 20_000 else []
    rows = cells(bench.run([str(bench.load.with_name("measure")), "brokers", *few]))
    section = Section(TITLE, TEXT.format(count=count))
    head = ["kind", "case", "events", "lost", "twice", "out of order", "failed", "events/s"]
    section.tables.append(Table(head, rows))
    rates = {(row[0], row[1]): float(row[7]) for row in rows}
    lost = sum(int(row[3]) for row in rows if row[3])
    section.figures["brokers.lost"] = lost
    section.aims.append(Aim("brokers: events lost", str(lost), "none", lost == 0))
    for kind, share in ORDERED.items():
        plain, ordered = rates.get((kind, "Plain")), rates.get((kind, "Ordered"))
        if plain and ordered:
            text = f"{kind}: in order, of the rate without order"
            section.figures[f"brokers.{kind.lower()}.ordered"] = ordered / plain
            section.aims.append(Aim(text, f"{ordered / plain:.0%}", f"at least {share:.0%}", ordered >= share * plain))
    bar = [
        Bar(f"{kind}, {case.lower()}", Sample([rate]), OURS if case == "Plain" else OTHER)
        for (kind, case), rate in rates.items()
        if case in ("Plain", "Ordered", "sink alone")
    ]
    section.plots.append(bars("brokers", "Drain to a broker, one relay", "events per second", bar))
    return section


def cells(said: str) -> list[list[str]]:
    """The rows of the table that the program prints, without its head."""
    lines = [line for line in said.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]
