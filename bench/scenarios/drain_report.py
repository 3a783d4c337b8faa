"""What is made of a drain's figures: tables, plots, the figures' names and the aims."""

from __future__ import annotations

from collections.abc import Sequence

from frame.plots import OURS, PEER, RAW, Bar, bars
from frame.report import Aim, Plot, Section, Table
from frame.rounds import Sample
from peers import celery_outbox
from peers.peer import Peer
from raw.contenders import BATCH, LARGE, key
from raw.designs import DESIGNS

Samples = dict[str, Sample]
NOTHING = Sample()
SINKS = {"http": "HTTP (nginx 204)", "rabbitmq": "Celery on RabbitMQ, confirms", "redis": "Celery on Redis"}
# As in the aims: what a figure is called, and whose it is.
FIGURES = {
    "drain.noop.keep.ours": "noop.keep.ours.1",
    "drain.noop.keep.ours_two": "noop.keep.ours.2",
    "drain.noop.delete.ours": "noop.delete.ours.1",
    "drain.noop.delete.ours_two": "noop.delete.ours.2",
    "drain.noop.delete.graphile": "graphile.1",
    "drain.noop.delete.raw_g": key("g"),
    "drain.noop.keep.raw_h": key("h"),
    "drain.ordered.keep.ours": "ordered.keep.ours.1",
    "drain.ordered.delete.ours": "ordered.delete.ours.1",
    "drain.http.keep.ours": "http.keep.ours.1",
    "drain.http.delete.ours": "http.delete.ours.1",
    "drain.http.raw": "raw.http",
    "drain.rabbitmq.keep.ours": "rabbitmq.keep.ours.1",
    "drain.rabbitmq.delete.ours": "rabbitmq.delete.ours.1",
    "drain.rabbitmq.raw": "raw.rabbitmq",
    "drain.rabbitmq.celery_outbox": "celery_outbox.rabbitmq.1",
    "drain.redis.keep.ours": "redis.keep.ours.1",
    "drain.redis.delete.ours": "redis.delete.ours.1",
    "drain.redis.raw": "raw.redis",
    "drain.redis.celery_outbox": "celery_outbox.redis.1",
}
TEXT = """
A table with {rows:,} events of about 490 B of JSON is drained (slow peers: {few:,}; to brokers: {tasks:,} tasks).
Every drain starts from a copy of the same filled database, after ANALYZE and a checkpoint. Each contender runs once
in each round. The rate is measured **from the first job that is handed to a handler or a destination to the last job
that the database stores as completed**, so the start of a process does not count. Pillarbox takes the end time in its
own process after the commit of the settle. For peers, the table is queried every 10 ms once all jobs were handled;
with two processes every 50 ms, after a pause without jobs (100 ms, awa 500 ms). The end of a peer is therefore seen
up to that much too late. django-celery-outbox is timed from the first message on the broker to the last. Its rows are
copied back into its table before each drain; its database is not replaced. *One* and *two* are processes on the same
table.

Settings of the peers: graphile-worker has the settings that its documentation recommends for many small jobs, with a
batch delay of 0. The number of awa's workers was chosen from a few short runs on a busy machine. No peer was tuned
systematically. Pillarbox runs with its defaults.

The client of the SQL designs calls libpq with prepared statements and binary results, and reads only ids and the
floor from them. It has one process per connection. With two connections, design d gives each one half of the table.
"""


def section(
    title: str, peers: Sequence[Peer], samples: Samples, heaps: dict[str, float], *, rows: int, few: int, tasks: int
) -> Section:
    figures = {name: samples[of].median for name, of in FIGURES.items() if of in samples and samples[of].values}
    return Section(
        title,
        TEXT.format(rows=rows, few=few, tasks=tasks),
        [
            noop(peers, samples, rows, few),
            destinations(samples, few),
            designs(samples, heaps),
            contestants(peers),
        ],
        plots(peers, samples),
        figures,
        aims(figures),
    )


def cell(samples: Samples, name: str) -> str:
    return samples.get(name, NOTHING).show()


def noop(peers: Sequence[Peer], samples: Samples, rows: int, few: int) -> Table:
    """Into a handler that does nothing."""
    graphile = samples.get("graphile.1", NOTHING).median

    def line(name: str, count: int, one: str, two: str) -> list[str]:
        sample = samples.get(one, NOTHING)
        times = f"{sample.median / graphile:.2f}" if graphile and sample.values else "–"
        return [name, f"{count:,}", sample.show(), cell(samples, two), times]

    lines = [line(f"**Pillarbox**, {mode}", rows, f"noop.{mode}.ours.1", f"noop.{mode}.ours.2") for mode in MODES]
    for mode in MODES:
        if f"ordered.{mode}.ours.1" in samples:
            name = f"**Pillarbox**, {mode}, order = aggregate"
            lines.append(line(name, rows, f"ordered.{mode}.ours.1", ""))
    lines += [line(one.name, few if one.slow else rows, f"{one.key}.1", f"{one.key}.2") for one in peers]
    return Table(["no-op handler, per second", "jobs", "one", "two", "× graphile-worker, one"], lines)


MODES = ("delete", "keep")


def destinations(samples: Samples, few: int) -> Table:
    rows = []
    for sink, name in SINKS.items():
        rows += [
            [
                f"{name}: **Pillarbox**, {mode}",
                cell(samples, f"{sink}.{mode}.ours.1"),
                cell(samples, f"{sink}.{mode}.ours.2"),
            ]
            for mode in MODES
        ]
        theirs = f"{name.removesuffix(', confirms')}: {celery_outbox.NAME}"
        if sink != "http":
            confirms = ", no confirms" if sink == "rabbitmq" else ""
            one, two = (cell(samples, f"celery_outbox.{sink}.{relays}") for relays in (1, 2))
            rows.append([f"{theirs}{confirms} ({few:,})", one, two])
        if sink == "rabbitmq":
            rows.append([f"{theirs}, confirms ({few:,})", cell(samples, "celery_outbox.rabbitmq.confirms"), "–"])
        rows.append([f"{name}: raw, without a database", cell(samples, f"raw.{sink}"), "–"])
    return Table(["destination, per second", "one relay"], [row[:2] for row in rows])


def designs(samples: Samples, heaps: dict[str, float]) -> Table:
    rows = [
        [
            f"{name}: {design.text}",
            cell(samples, key(name)),
            cell(samples, key(name, batch=LARGE)),
            cell(samples, key(name, 2)),
            f"{heaps.get(name, 0):,.0f} MB",
        ]
        for name, design in sorted(DESIGNS.items())
    ]
    header = ["SQL alone, rows/s", f"batch {BATCH}", f"batch {LARGE}", f"two connections, batch {BATCH}", "heap after"]
    return Table(header, rows)


def contestants(peers: Sequence[Peer]) -> Table:
    rows = [["Pillarbox", "this tree", "`load drain`, an embedded relay with its default settings"]]
    rows += [[one.name, one.version() if not one.missing() else "–", one.settings] for one in peers]
    rows.append([celery_outbox.NAME, celery_outbox.version(), celery_outbox.SETTINGS])
    return Table(["contender", "version", "settings"], rows, words=True)


def plots(peers: Sequence[Peer], samples: Samples) -> list[Plot]:
    def bar(label: str, name: str, colour: str) -> Bar:
        return Bar(label, samples.get(name, NOTHING), colour)

    one = [
        *(bar(f"Pillarbox, {mode}", f"noop.{mode}.ours.1", OURS) for mode in MODES),
        *(bar(f"Pillarbox, {mode}, ordered", f"ordered.{mode}.ours.1", OURS) for mode in MODES),
        *(bar(peer.name, f"{peer.key}.1", PEER) for peer in peers),
        bar("SQL design g (delete)", key("g"), RAW),
        bar("SQL design h (keep)", key("h"), RAW),
    ]
    two = [
        *(bar(f"Pillarbox, {mode}", f"noop.{mode}.ours.2", OURS) for mode in MODES),
        *(bar(peer.name, f"{peer.key}.2", PEER) for peer in peers),
        bar("SQL design g (delete)", key("g", 2), RAW),
        bar("SQL design h (keep)", key("h", 2), RAW),
    ]
    to = []
    for sink, name in SINKS.items():
        short = name.removesuffix(", confirms")
        to.append(bar(f"{short}: Pillarbox", f"{sink}.delete.ours.1", OURS))
        to.append(bar(f"{short}: {celery_outbox.NAME}", f"celery_outbox.{sink}.1", PEER))
        to.append(bar(f"{short}: raw", f"raw.{sink}", RAW))
    return [
        bars("drain", "Drain into a no-op handler, one process", "jobs per second: median, least and most", one),
        bars("drain-two", "Drain into a no-op handler, two processes", "jobs per second: median, least and most", two),
        bars("drain-destinations", "Drain to a destination, one relay, delete", "messages per second", to),
        bars(
            "drain-designs",
            "SQL alone, one connection, batch 500",
            "rows per second",
            [Bar(f"{name}: {DESIGNS[name].short}", samples.get(key(name), NOTHING), RAW) for name in sorted(DESIGNS)],
        ),
    ]


def aims(figures: dict[str, float]) -> list[Aim]:
    """Those of issue 4 that are about draining. A ratio without both of its figures was not measured."""

    def ratio(text: str, ours: str, other: str, least: float, what: str, *, percent: bool = False) -> Aim:
        if ours not in figures or not figures.get(other):
            return Aim(text, "–", shown(least, percent) + what, None)
        value = figures[ours] / figures[other]
        note = f"{figures[ours]:,.0f}/s and {figures[other]:,.0f}/s"
        return Aim(text, shown(value, percent) + what, shown(least, percent) + what, value >= least, note)

    def shown(value: float, percent: bool) -> str:
        return f"{value * 100:.0f} %" if percent else f"{value:.1f} ×"

    delete, keep = "drain.noop.delete.ours", "drain.noop.keep.ours"
    rabbit, redis = "drain.rabbitmq.delete.ours", "drain.redis.delete.ours"
    no_op, on_rabbit = "drain, no-op, {} mode, one relay", "drain, Celery on RabbitMQ with confirms"
    return [
        ratio(no_op.format("delete"), delete, "drain.noop.delete.graphile", 3, " graphile-worker"),
        ratio(no_op.format("delete"), delete, "drain.noop.delete.raw_g", 0.7, " of SQL design g", percent=True),
        ratio(no_op.format("keep"), keep, "drain.noop.keep.raw_h", 0.8, " of SQL design h", percent=True),
        ratio(on_rabbit, rabbit, "drain.rabbitmq.raw", 0.8, " of the raw confirmed rate", percent=True),
        ratio(on_rabbit, rabbit, "drain.rabbitmq.celery_outbox", 15, " django-celery-outbox without confirms"),
        ratio("drain, Celery on Redis", redis, "drain.redis.celery_outbox", 25, " django-celery-outbox"),
        http(figures),
        ratio(
            "order on, 10k aggregates, delete mode",
            "drain.ordered.delete.ours",
            delete,
            0.6,
            " of unordered",
            percent=True,
        ),
        ratio(
            "order on, 10k aggregates, keep mode", "drain.ordered.keep.ours", keep, 0.6, " of unordered", percent=True
        ),
    ]


def http(figures: dict[str, float]) -> Aim:
    """One of two conditions is enough."""
    target = "20,000/s, or 50 % of the same client without a database"
    ours, alone = figures.get("drain.http.delete.ours"), figures.get("drain.http.raw")
    if not ours or not alone:
        return Aim("drain, HTTP", "–", target, None)
    met = ours >= 20_000 or ours >= 0.5 * alone
    return Aim("drain, HTTP", f"{ours:,.0f}/s, {ours / alone * 100:.0f} %", target, met, f"alone {alone:,.0f}/s")
