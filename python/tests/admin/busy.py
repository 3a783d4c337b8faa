"""A busy shop, for pictures: six destinations, one of them down, dead letters of several kinds, an hour of figures.

Events are delivered and refused by the real relay. Only the past is written by SQL: nobody waits an hour for a picture.
"""

from __future__ import annotations

import json
import math
import random
import uuid
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import psycopg

from tests import servers

from .program import Admin, Users, wait_until

DESTINATIONS = ("billing", "crm", "fulfilment", "mail", "search", "warehouse")
ROUTES = {
    "order.*": ("fulfilment", "search"),
    "payment.*": ("billing",),
    "invoice.*": ("mail",),
    "customer.*": ("crm",),
    "product.*": ("search",),
    "stock.*": ("warehouse",),
}
KINDS = (
    ("order.placed", "Order"),
    ("payment.captured", "Payment"),
    ("invoice.sent", "Invoice"),
    ("product.renamed", "Product"),
    ("order.shipped", "Order"),
)
REFUSED = {
    # How often, the type, and what the receiver answers.
    "address": (23, "invoice.sent", 410, "no such mailbox"),
    "currency": (9, "payment.captured", 422, '{"error":"unknown currency XBT"}'),
    "overload": (41, "order.placed", 500, "java.lang.OutOfMemoryError: GC overhead limit exceeded"),
    "schema": (4, "product.renamed", 400, '{"field":"title","problem":"too long"}'),
}
PAST = (
    """
    UPDATE outbox_relay SET host = 'relay-' || n, started_at = started_at - interval '26 hours' * n
    FROM (SELECT id AS of, row_number() OVER (ORDER BY started_at) AS n FROM outbox_relay) AS numbered
    WHERE id = of
    """,
    """
    UPDATE outbox_event
    SET created_at = created_at - back, delivered_at = delivered_at - back, updated_at = updated_at - back
    FROM (SELECT id AS of, interval '26 seconds' * (max(seq) OVER () - seq) AS back
          FROM outbox_event WHERE status = 'delivered') AS older
    WHERE id = of
    """,
    """
    UPDATE outbox_event SET created_at = created_at - back, updated_at = updated_at - back
    FROM (SELECT id AS of, interval '1 day' * least(0.99, power(random(), 2) * (2 + length(event_type) % 5) / 4) AS back
          FROM outbox_event WHERE status = 'failed') AS older
    WHERE id = of
    """,
    """
    UPDATE outbox_event SET created_at = created_at - interval '1 second' * (13 * 60 + random() * 30)
    WHERE parked_on = 'crm'
    """,
    """
    UPDATE outbox_attempt SET attempted_at = updated_at, took_ms = 8 + number * 3 + length(error) % 40
    FROM outbox_event WHERE id = event_id AND status = 'failed'
    """,
)
FIGURE = """
    INSERT INTO outbox_figure VALUES (%s, %s, %s, %s, %s, %s, %s, %s)
    ON CONFLICT (minute, relay_id, destination) DO UPDATE
    SET delivered = excluded.delivered, failed = excluded.failed, given_up = excluded.given_up,
        latency = excluded.latency, response = excluded.response
"""
SHARES = {"fulfilment": 1.0, "search": 1.2, "billing": 0.5, "mail": 0.35, "warehouse": 0.25, "crm": 0.2}
MINUTES = 60
SHORTEST, PARTS = 7, 4
"""Of the histogram in outbox_figure: powers of two of microseconds, each in so many parts."""


class BusyShop(Admin):
    def __init__(self, directory: Path, users: Users, database: str | None = None) -> None:
        self.chance = random.Random(2026)
        self.database = database or servers.create_database()
        super().__init__(directory, self.database, users, DESTINATIONS)
        self.connection = psycopg.connect(self.database, autocommit=True)

    def start(self) -> None:
        super().start()
        self.processes.relay("second", self.configuration.replace('listen = "127.0.0.1:0"', 'listen = "off"'))
        self.furnish()
        self.tell_the_past()

    def furnish(self) -> None:
        """Events in all states."""
        self.deliver()
        self.refuse()
        self.wait_for_outage()

    def delivering(self) -> str:
        text = ""
        for name in self.destinations:
            address = self.receiver.url(name)
            text += f'[destinations.{name}]\nkind = "http"\nurl = "{address}"\nallow_private = true\n'
        for events, to in ROUTES.items():
            text += f'[[routes]]\nevents = "{events}"\nto = {json.dumps(to)}\n'
        return text

    def write(
        self,
        event_type: str,
        aggregate: tuple[str, str],
        payload: dict[str, Any],
        later: timedelta | None = None,
        tries: int = 5,
    ) -> None:
        trace = uuid.UUID(int=self.chance.getrandbits(128)).hex
        headers = {"traceparent": f"00-{trace}-00f067aa0ba902b7-01", "tenant": "acme"}
        at = datetime.now(timezone.utc) + later if later else None
        self.connection.execute(
            "SELECT outbox_emit(%s, %s, %s, %s, gen_random_uuid()::text, %s, %s, %s)",
            (*aggregate, event_type, json.dumps(payload), json.dumps(headers), tries, at),
        )

    def order(self, number: int) -> dict[str, Any]:
        return {
            "order": number,
            "customer": {"id": 7000 + number % 311, "email": f"customer{number % 311}@example.com"},
            "currency": "EUR",
            "total": round(self.chance.uniform(9, 480), 2),
            "lines": [{"sku": f"SKU-{self.chance.randrange(100, 999)}", "quantity": self.chance.randrange(1, 4)}],
            "gift": number % 7 == 0,
            "card": {"brand": "visa", "number": "4111111111111111"},
        }

    def deliver(self) -> None:
        for number in range(48211, 48211 + 120):
            event_type, kind = KINDS[number % len(KINDS)]
            self.write(event_type, (kind, str(number)), {"case": "delivered", **self.order(number)})
        for number in range(6):
            later = timedelta(minutes=7 * number + 3)
            self.write("order.reminded", ("Order", str(48300 + number)), {"case": "later"}, later)
        wait_until("all is delivered", lambda: self.count("delivered") >= 120, self.processes)

    def refuse(self) -> None:
        for number in range(3):
            self.write("coupon.issued", ("Coupon", f"WINTER-{number}"), {"case": "nowhere"})
        for case, (count, event_type, status, text) in REFUSED.items():
            self.receiver.answer(case, status, text)
            for number in range(count):
                kind = event_type.partition(".")[0].title()
                aggregate = (kind, str(47000 + self.chance.randrange(900)))
                self.write(event_type, aggregate, {"case": case, **self.order(47000 + number)}, tries=1)
        all_of_them = sum(count for count, *_ in REFUSED.values())
        wait_until("all is refused", lambda: self.count("failed") >= all_of_them, self.processes)
        # The story of one order: two events are delivered, one is tried again in a while, one is for later.
        for event_type in ("order.placed", "order.paid"):
            self.write(event_type, ("Order", "48342"), {"case": "delivered", **self.order(48342)})
        told = "SELECT count(*) FROM outbox_event WHERE aggregate_id = '48342' AND status = 'delivered'"
        wait_until("its first events are delivered", lambda: self.number(told) == 2, self.processes)
        later = timedelta(hours=20)
        self.write("order.reminded", ("Order", "48342"), {"case": "later"}, later)
        self.receiver.answer("flaky", 500, "upstream connect error or disconnect/reset before headers")
        self.write("order.shipped", ("Order", "48342"), {"case": "flaky", **self.order(48342)})

    def wait_for_outage(self) -> None:
        self.receiver.answer("/crm", 503)
        for number in range(37):
            self.write("customer.registered", ("Customer", str(7100 + number)), {"case": "crm"})
        parked = "SELECT count(*) FROM outbox_event WHERE parked_on = 'crm'"
        wait_until("one is down", lambda: self.number(parked) >= 30, self.processes)

    def go_on(self) -> None:
        """What is emitted while one looks."""
        for number in range(48350, 48380):
            if number % 4 == 0:
                self.write("stock.counted", ("Product", f"SKU-{number % 900}"), {"case": "stock"})
            event_type, kind = KINDS[number % len(KINDS)]
            self.write(event_type, (kind, str(number)), {"case": "delivered", **self.order(number)})
        wait_until("it is delivered", lambda: self.count("delivered") >= 150, self.processes)

    def forget_this_minute(self) -> None:
        """In which the shop was furnished: that took longer than anything in a shop that is open."""
        self.connection.execute("DELETE FROM outbox_figure WHERE minute >= date_trunc('minute', clock_timestamp())")

    def number(self, query: str) -> int:
        row = self.connection.execute(query).fetchone()
        assert row
        return row[0]

    def count(self, status: str) -> int:
        return self.number(f"SELECT count(*) FROM outbox_event WHERE status = '{status}'")

    def tell_the_past(self) -> None:
        """Hosts with names, an hour of figures, and events that are not all of the last seconds."""
        run = self.connection.execute
        for statement in PAST:
            run(statement)
        relays = [row[0] for row in run("SELECT id FROM outbox_relay ORDER BY host").fetchall()]
        now = datetime.now(timezone.utc).replace(second=0, microsecond=0)
        for ago in range(1, MINUTES + 1):
            for relay in relays:
                for destination in self.destinations:
                    row = self.minute(destination, ago)
                    run(
                        FIGURE,
                        (now - timedelta(minutes=ago), relay, destination, *row),
                    )

    def wave(self, ago: int) -> float:
        """How busy the shop was then, around 1."""
        return 1 + 0.35 * math.sin((MINUTES - ago) / 9) + self.chance.uniform(-0.08, 0.08)

    def minute(self, destination: str, ago: int) -> tuple[int, int, int, str, str]:
        """What a destination did then: delivered, failed, given up, and how long it and its receiver took."""
        wave = self.wave(ago)
        delivered, failed, given_up = int(640 * SHARES[destination] * wave), 0, 0
        slow = 1.0
        if destination in ("mail", "billing") and ago % 13 == 5:
            failed = given_up = 2
        if destination == "crm" and ago < 14:
            delivered, failed = 0, 6
        if destination == "fulfilment" and 24 <= ago < 31:
            slow, failed, given_up = 7.0, int(90 * wave), 3
            delivered //= 2
        if destination == "warehouse" and ago < 6:
            delivered = 0
        latency, response = self.latency(delivered, slow), self.latency(delivered, 0.45 * slow)
        return delivered, failed, given_up, json.dumps(latency), json.dumps(response)

    def latency(self, count: int, slow: float) -> list[int]:
        """A histogram of so many deliveries, of about a dozen milliseconds each."""
        counts = [0] * 80
        for _ in range(count):
            micros = max(1 << SHORTEST, int(self.chance.lognormvariate(math.log(11_000 * slow), 0.55)))
            doubling = micros.bit_length() - 1
            part = (micros >> (doubling - 2)) % PARTS
            counts[min((doubling - SHORTEST) * PARTS + part, len(counts) - 1)] += 1
        return counts

    def stop(self) -> None:
        self.connection.close()
        super().stop()
