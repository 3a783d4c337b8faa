"""Emits into SQLite as a program in another language does: with a plain INSERT and the columns' defaults."""

import sqlite3
import sys

database = sqlite3.connect(sys.argv[1], timeout=30)


def emit(**columns):
    names, marks = ", ".join(columns), ", ".join("?" for _ in columns)
    with database:
        database.execute(f"INSERT INTO outbox_event ({names}) VALUES ({marks})", list(columns.values()))


def refused(why, **changes):
    event = {"aggregate_type": "Order", "aggregate_id": "refused", "event_type": "order.placed"} | changes
    try:
        emit(**event)
    except sqlite3.IntegrityError as error:
        assert why in str(error), error
    else:
        raise AssertionError(f"not refused: {changes}")


emit(aggregate_type="Order", aggregate_id="42", event_type="order.placed")
emit(aggregate_type="Order", aggregate_id=43, event_type="order.placed", payload='{"total": 19.90}',
     headers='{"tenant": "acme"}', max_attempts=3, idempotency_key="mine")
emit(aggregate_type="Order", aggregate_id="44", event_type="order.placed", next_attempt_at="2099-01-01T00:00:00.000Z")

refused("UNIQUE", aggregate_id="42")
refused("UNIQUE", idempotency_key="mine")
refused("aggregate_type", aggregate_type="é" * 101)
refused("aggregate_type", aggregate_type="")
refused("event_type", event_type="t" * 256)
refused("idempotency_key", idempotency_key="k" * 256)
refused("payload", payload="{")
refused("headers", headers="[]")
refused("max_attempts", max_attempts=-1)
refused("status", status="sending")
for moment in ["2099-01-01 00:00:00", "2099-01-01T00:00:00Z", "2099-01-01T00:00:00.000+01:00", "tomorrow", "4070908800"]:
    refused("next_attempt_at", next_attempt_at=moment)
refused("outbox_event_time", next_attempt_at=None)

# A duplicate of a default key is never quietly another event, however it is inserted.
try:
    with database:
        database.execute(
            "INSERT OR IGNORE INTO outbox_event (aggregate_type, aggregate_id, event_type) VALUES ('Order', '42', 'order.placed')"
        )
except sqlite3.IntegrityError as error:
    assert "UNIQUE" in str(error), error

with database:
    for number in range(200):
        database.execute(
            "INSERT INTO outbox_event (aggregate_type, aggregate_id, event_type, next_attempt_at) VALUES (?, ?, ?, ?)",
            ["Bulk", number, "bulk.made", "2099-01-01T00:00:00.000Z"],
        )
database.execute("INSERT INTO outbox_event (aggregate_type, aggregate_id, event_type) VALUES ('Order', '45', 'rolled.back')")
database.rollback()
