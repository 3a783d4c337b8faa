"""Emit into an outbox on SQLite with nothing but Python: a plain INSERT, the columns' defaults do the rest.

    PILLARBOX_DATABASE_URL=sqlite://shop.db cargo run -- migrate
    python3 examples/emit.py shop.db
"""

import json
import sqlite3
import sys


def place_order(connection, cents):
    """Writes an order and its event, in the caller's transaction."""
    order = connection.execute("INSERT INTO example_order (cents) VALUES (?)", (cents,)).lastrowid
    return order, emit_placed(connection, order, {"cents": cents})


def emit_placed(connection, order, payload):
    """Answers the event's id. Its key is its aggregate, 'Order:1'; one that may happen again needs its own."""
    emit = """
        INSERT INTO outbox_event (aggregate_type, aggregate_id, event_type, payload)
        VALUES ('Order', ?, 'order.placed', ?) RETURNING id
    """
    [(event,)] = connection.execute(emit, (str(order), json.dumps(payload))).fetchall()
    return event


def main(path):
    connection = sqlite3.connect(path, timeout=30)
    connection.execute("CREATE TABLE IF NOT EXISTS example_order (id INTEGER PRIMARY KEY AUTOINCREMENT, cents INTEGER)")

    with connection:  # Commits at its end.
        order, event = place_order(connection, 1990)
    print(f"order {order} is placed, event {event} is in the outbox")

    try:
        with connection:
            emit_placed(connection, order, {})
    except sqlite3.IntegrityError as error:
        print(f"the duplicate is refused: {error}")

    try:
        with connection:  # An exception rolls back.
            order, event = place_order(connection, 500)
            raise ValueError("the card was refused")
    except ValueError as error:
        [(count,)] = connection.execute("SELECT count(*) FROM outbox_event WHERE id = ?", (event,)).fetchall()
        print(f"order {order} is not placed: {error}; its events: {count}")


if __name__ == "__main__":
    main(*sys.argv[1:])
