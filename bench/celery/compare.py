"""Side by side on the same rows: django-celery-outbox's relay, and Pillarbox in its place.

    bench/celery/run [--rows 20000] [--rounds 3] [--samples 300]

The rows are written once by django-celery-outbox's own producer and copied back before each drain. A drain's rate
counts from the first message that the broker has to the last, so that the start of a Python interpreter is not held
against anybody. For the latency single tasks are committed at random moments to a relay that is idle, and a consumer
notes when each arrives.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
PATIENCE = 180.0
SECTION = "## Results\n\n"


@dataclass
class Figures:
    """What was measured of one relay on one broker."""

    relay: str
    broker: str
    rates: list[float]
    latencies: list[float]
    memory: float

    def row(self, baseline: float) -> str:
        rate = statistics.median(self.rates)
        spread = f"{min(self.rates):,.0f}–{max(self.rates):,.0f}"
        ordered = sorted(self.latencies)
        p50, p99 = ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.99)]
        return (
            f"| {self.broker} | {self.relay} | {rate:,.0f} ({spread}) | {rate / baseline:.1f} | "
            f"{p50 * 1000:.1f} / {p99 * 1000:.1f} | {self.memory:.0f} |"
        )


def main() -> None:
    options = arguments()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop")
    sys.path.insert(0, str(HERE))
    figures: list[Figures] = []
    for url in (options.amqp, options.redis):
        figures += compare(url, options)
    report(figures, options)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--samples", type=int, default=300, help="single tasks for the latency")
    parser.add_argument("--program", required=True, help="a release build of pillarbox")
    parser.add_argument("--database", required=True)
    parser.add_argument("--amqp", required=True)
    parser.add_argument("--redis", required=True)
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--results", type=Path, help="where to write the table, as Markdown")
    return parser.parse_args()


def compare(url: str, options: argparse.Namespace) -> list[Figures]:
    """All relays on one broker, their rounds interleaved."""
    import brokers
    import relays

    queue = "compare"
    os.environ.update(COMPARE_DATABASE_URL=options.database, COMPARE_BROKER_URL=url, COMPARE_QUEUE=queue)
    prepare(options.rows)
    broker = brokers.connect(url, queue)
    environment = {"PILLARBOX_DATABASE_URL": options.database, "PILLARBOX_BROKER_URL": url}
    config = options.log.parent / "compare.toml"
    config.write_text(
        '[source]\nkind = "django-celery-outbox"\n[destinations.celery]\nkind = "celery"\n'
        f'broker = "env:PILLARBOX_BROKER_URL"\ndefault_queue = "{queue}"\n'
    )
    environment["PILLARBOX_CONFIG"] = str(config)
    contestants = [relays.theirs(100), relays.theirs(1000)]
    if broker.name == "RabbitMQ":
        contestants.append(relays.theirs(1000, confirms=True))
    ours = relays.ours(options.program, 500)
    contestants.append(relays.Relay(ours.name, (*ours.command, "--config", str(config))))

    results = [Figures(relay.name, broker.name, [], [], 0.0) for relay in contestants]
    for _ in range(options.rounds):
        for relay, figures in zip(contestants, results, strict=True):
            broker.purge()
            refill()
            with relays.Running(relay, environment, options.log) as running:
                rate = drain(broker, running, options.rows)
                figures.memory = max(figures.memory, running.peak_memory())
            figures.rates.append(rate)
            print(f"{broker.name}: {relay.name}: {rate:,.0f}/s", flush=True)
    for relay, figures in zip(contestants, results, strict=True):
        broker.purge()
        with relays.Running(relay, environment, options.log) as running:
            figures.latencies = latencies(broker, running, options.samples)
            figures.memory = max(figures.memory, running.peak_memory())
        print(f"{broker.name}: {relay.name}: p50 {statistics.median(figures.latencies) * 1000:.1f} ms", flush=True)
    return results


def prepare(rows: int) -> None:
    """Their tables by their migrations, and the rows by their producer, once."""
    import django
    from django.core.management import call_command
    from django.db import connection, transaction

    django.setup()
    call_command("migrate", verbosity=0)
    import shop

    with connection.cursor() as cursor:
        if "compare_rows" not in connection.introspection.table_names():
            with transaction.atomic():
                for number in range(rows):
                    shop.process.delay(order(number))
            cursor.execute("CREATE TABLE compare_rows AS SELECT * FROM celery_outbox")
        for table in ("celery_outbox", "celery_outbox_dead_letter"):
            cursor.execute(f"TRUNCATE TABLE {table}")


def order(number: int) -> dict:
    """About 490 bytes of JSON."""
    lines = [{"sku": f"SKU-{number:06}-{line}", "quantity": line + 1, "price": "19.90"} for line in range(6)]
    return {"id": number, "customer": f"customer-{number % 997}", "note": "x" * 60, "lines": lines}


def refill() -> None:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE TABLE celery_outbox")
        if connection.vendor == "mysql":
            cursor.execute("INSERT INTO celery_outbox SELECT * FROM compare_rows")
            cursor.execute("ANALYZE TABLE celery_outbox")
            return
        cursor.execute("INSERT INTO celery_outbox OVERRIDING SYSTEM VALUE TABLE compare_rows")
        cursor.execute("VACUUM ANALYZE celery_outbox")
        cursor.execute("CHECKPOINT")


def drain(broker, running, rows: int) -> float:
    """Messages a second, from the first one on the broker to the last, with an empty table at the end."""
    from django.db import connection

    deadline = time.monotonic() + PATIENCE
    first, seen = 0.0, 0
    while (depth := broker.depth()) < rows:
        now = time.monotonic()
        if depth and not first:
            first, seen = now, depth
        if now > deadline:
            raise SystemExit(f"{running.relay.name}: {depth} of {rows} after {PATIENCE} s")
        running.check()
        # Asking costs the broker, too.
        time.sleep(0.02)
    last = time.monotonic()
    with connection.cursor() as cursor:
        while time.monotonic() < deadline:
            cursor.execute("SELECT count(*) FROM celery_outbox")
            if cursor.fetchone()[0] == 0:
                return (rows - seen) / (last - first)
    raise SystemExit(f"{running.relay.name}: rows are left in the table")


def latencies(broker, running, samples: int) -> list[float]:
    """From the commit to the arrival at a consumer, in seconds, of single tasks at random moments."""
    import shop
    from django.db import transaction

    arrived: dict[str, float] = {}
    stop = threading.Event()
    consumer = threading.Thread(target=broker.consume, args=(arrived.__setitem__, stop))
    consumer.start()
    chance = random.Random(42)
    committed: dict[str, float] = {}
    deadline = time.monotonic() + PATIENCE
    try:
        # The first one finds the relay starting.
        for number in range(samples + 1):
            with transaction.atomic():
                task = shop.process.delay(order(number)).id
            committed[task] = time.time()
            while number == 0 and task not in arrived and time.monotonic() < deadline:
                running.check()
                time.sleep(0.01)
            time.sleep(chance.uniform(0.02, 0.15))
        while len(arrived) < len(committed) and time.monotonic() < deadline:
            time.sleep(0.01)
    finally:
        stop.set()
        consumer.join()
    _first, *rest = committed
    return [arrived[task] - committed[task] for task in rest]


def report(figures: list[Figures], options: argparse.Namespace) -> None:
    lines = [
        f"{options.rows:,} rows of about 490 B, {options.rounds} rounds, {options.samples} single tasks.",
        "",
        "| broker | relay | tasks/s, median (min–max) | × the first | commit to broker, p50 / p99 ms | memory, MB |",
        "|---|---|---|---|---|---|",
    ]
    for broker in dict.fromkeys(one.broker for one in figures):
        of_broker = [one for one in figures if one.broker == broker]
        baseline = statistics.median(of_broker[0].rates)
        lines += [one.row(baseline) for one in of_broker]
    text = "\n".join(lines) + "\n"
    print(text)
    if options.results:
        # What people have written about it stays.
        written = options.results.read_text() if options.results.exists() else ""
        options.results.write_text(written.split(SECTION)[0] + SECTION + text)


if __name__ == "__main__":
    main()
