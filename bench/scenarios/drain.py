"""Drain: a backlog, and how fast it is gone. Ours, the peers and the raw limits take turns in each round."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from frame import processes
from frame.bench import Bench
from frame.database import Database
from frame.report import Section
from frame.rounds import DidNotRun
from peers import awa, graphile, pgboss, procrastinate
from peers.celery_outbox import CeleryOutbox, depth
from peers.peer import Peer
from raw import contenders as raw
from scenarios import drain_report

TITLE = "Drain"
PEERS = (graphile.PEER, pgboss.WORK, pgboss.FETCH, awa.PEER, procrastinate.PEER)
AGGREGATES = 10_000
QUEUE = "ours"
Measure = Callable[[], float]


def run(bench: Bench) -> Section:
    rows, few = bench.pick(200_000, 20_000), bench.pick(10_000, 2_000)
    # RabbitMQ is slow, too.
    tasks = bench.pick(60_000, 20_000)
    bench.log("filling")
    plain, celery = fill(bench, rows, "plain"), fill(bench, tasks, "celery")
    heaps: dict[str, float] = {}
    measures: dict[str, Measure] = {
        **ours(bench, plain, celery, rows, tasks),
        **raw.sql(bench, plain, rows, heaps),
        **raw.sinks(bench, rows, tasks),
        **dict(peers(bench, rows, few)),
        **dict(celery_outbox(bench, few)),
    }
    samples = bench.interleave(measures)
    return drain_report.section(TITLE, PEERS, samples, heaps, rows=rows, few=few, tasks=tasks)


def fill(bench: Bench, rows: int, form: str) -> Database:
    """Events about ten thousand aggregates, or Celery messages: a template, that each drain copies."""
    database = bench.outbox(f"filled_{form}")
    args = ["--database", database.url, "--count", str(rows), "--form", form, "--aggregates", str(AGGREGATES)]
    bench.run_load(["fill", *args])
    database.rest("outbox_event")
    return database


def ours(bench: Bench, plain: Database, celery: Database, rows: int, tasks: int) -> dict[str, Measure]:
    """One relay in both modes, and two relays; to each kind of destination."""
    sinks: dict[str, tuple[Database, list[str]]] = {
        "noop": (plain, ["--sink", "noop"]),
        "http": (plain, ["--sink", "http", "--url", bench.http]),
        "rabbitmq": (celery, ["--sink", "celery", "--broker", bench.amqp, "--queue", QUEUE]),
        "redis": (celery, ["--sink", "celery", "--broker", bench.redis, "--queue", QUEUE]),
    }
    brokers = {"rabbitmq": bench.amqp, "redis": bench.redis}

    def contender(sink: str, mode: str, relays: int, *more: str) -> Measure:
        template, args = sinks[sink]
        count = tasks if sink in brokers else rows

        def measure() -> float:
            rate = relay(bench, template, count, relays, [*args, *(["--delete"] if mode == "delete" else []), *more])
            if sink in brokers and (arrived := depth(brokers[sink], QUEUE)) != count:
                raise RuntimeError(f"{sink} has {arrived} messages, not {count}")
            return rate

        return measure

    measures = {}
    for sink in sinks:
        two = (("delete", 2), ("keep", 2)) if sink == "noop" else ()
        for mode, relays in (("keep", 1), ("delete", 1), *two):
            measures[f"{sink}.{mode}.ours.{relays}"] = contender(sink, mode, relays)
    if "--order" in bench.run([str(bench.load), "drain", "--help"]):
        for mode in ("keep", "delete"):
            measures[f"ordered.{mode}.ours.1"] = contender("noop", mode, 1, "--order", "aggregate")
    return measures


def relay(bench: Bench, template: Database, rows: int, relays: int, args: list[str]) -> float:
    """Events a second, from the first that is handed to the destination to the last that is settled."""
    database = bench.postgres("drain", template)
    command = [str(bench.load), "drain", "--database", database.url, "--count", str(rows), *args]
    if relays > 1:
        command.append("--share")
    rate = processes.drain([command] * relays, rows, bench.directory / "load.log").rate
    left = database.value("SELECT count(*) FROM outbox_event WHERE status <> 'delivered'")
    if left:
        raise RuntimeError(f"{left} events are not delivered")
    database.drop()
    return rate


def peers(bench: Bench, rows: int, few: int) -> Iterable[tuple[str, Measure]]:
    """Each with one worker process and with two."""
    templates: dict[object, Database] = {}
    for peer in PEERS:
        count = few if peer.slow else rows
        try:
            if peer.fill not in templates:
                bench.log(f"filling {peer.name}")
                templates[peer.fill] = peer.template(bench, count)
            template = templates[peer.fill]
        except Exception as error:
            # Said in the results; the others are measured.
            reason = str(error) if isinstance(error, DidNotRun) else f"it could not be filled: {error}"
            yield f"{peer.key}.1", did_not_run(reason)
            continue
        for workers in (1,) if peer.slow else (1, 2):
            yield f"{peer.key}.{workers}", of_peer(bench, peer, template, count, workers)


def of_peer(bench: Bench, peer: Peer, template: Database, count: int, workers: int) -> Measure:
    return lambda: peer.drain(bench, template, count, workers)


def did_not_run(reason: str) -> Measure:
    def measure() -> float:
        raise DidNotRun(reason)

    return measure


def celery_outbox(bench: Bench, few: int) -> Iterable[tuple[str, Measure]]:
    """On both brokers, and on RabbitMQ with confirms, which it does not ask for by default."""
    bench.log("filling django-celery-outbox")
    theirs = CeleryOutbox(bench, few)
    for broker, url in (("rabbitmq", bench.amqp), ("redis", bench.redis)):
        yield f"celery_outbox.{broker}.1", lambda url=url: theirs.drain(url, relays=1)
    yield "celery_outbox.rabbitmq.confirms", lambda: theirs.drain(bench.amqp, confirms=True)
