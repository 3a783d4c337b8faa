"""What the SQL of the guide needs to be executed."""

from __future__ import annotations

LEFT_OUT = {
    "aggregate_type  text,": "the signature of outbox_emit; a test compares it with the catalogs",
}
"""Blocks that are not executed, by a part of them, and why."""

DATABASES = {"CALL outbox_emit": "mariadb", "RETURNING id;": "sqlite"}
"""Blocks for another database than PostgreSQL, by a part of them."""

PREPARED = {
    "CREATE TABLE orders (id bigint PRIMARY KEY)": r"FROM orders WHERE|INTO orders \(id\)",
    "CREATE TABLE received_event (id text PRIMARY KEY)": "received_event",
    "CREATE TABLE outboxevent (id text PRIMARY KEY)": "outboxevent",
}
"""Tables of the application, and the blocks that need them."""

REPLACED = {"$1": "'1'", "(…)": "('1')", "ROLE relay": "ROLE CURRENT_USER"}
"""What stands for something in the printed statements."""
