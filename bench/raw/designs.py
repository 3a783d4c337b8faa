"""The designs that SQL alone allows, on the final schema: how rows are taken, and how they are settled.

Data only; how they are run says run.py. READ has what a relay needs to know of an event.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

READ = """event.id, event.next_attempt_at, event.seq, event.aggregate_type, event.aggregate_id, event.event_type,
    event.payload::text, event.headers::text, event.idempotency_key, event.attempts, event.max_attempts, event.claims,
    event.created_at"""
DUE = "event.status = 'pending' AND event.parked_on IS NULL AND event.next_attempt_at <= (SELECT clock_timestamp())"
FLOOR = "AND (event.next_attempt_at, event.seq) > ($1::timestamptz, $2::bigint)"
IN_ORDER = "ORDER BY event.next_attempt_at, event.seq LIMIT {batch}"
LOCK = "FOR NO KEY UPDATE SKIP LOCKED"

TAKE = f"SELECT {READ} FROM outbox_event AS event WHERE {DUE} {IN_ORDER} {LOCK}"
TAKE_ABOVE = f"SELECT {READ} FROM outbox_event AS event WHERE {DUE} {FLOOR} {IN_ORDER} {LOCK}"
READ_ABOVE = f"SELECT {READ} FROM outbox_event AS event WHERE {DUE} {FLOOR} {IN_ORDER}"
CLAIM = f"""WITH due AS MATERIALIZED (SELECT event.id FROM outbox_event AS event WHERE {DUE} {IN_ORDER} {LOCK})
    UPDATE outbox_event AS event SET claimed_by = '018f0000-0000-7000-8000-000000000000',
        next_attempt_at = clock_timestamp() + interval '30 seconds', updated_at = clock_timestamp()
    FROM due WHERE event.id = due.id RETURNING {READ}"""
DELIVERED = """UPDATE outbox_event SET status = 'delivered', delivered_at = clock_timestamp(),
    updated_at = clock_timestamp(), next_attempt_at = NULL, claimed_by = NULL, claims = 0 WHERE id = ANY($1::uuid[])"""
DELETE = "DELETE FROM outbox_event WHERE id = ANY($1::uuid[])"
DELETE_RANGE = """DELETE FROM outbox_event WHERE status = 'pending' AND parked_on IS NULL
    AND (next_attempt_at, seq) > ($1::timestamptz, $2::bigint)
    AND (next_attempt_at, seq) <= ($3::timestamptz, $4::bigint)"""


@dataclass(frozen=True)
class Design:
    """How rows are taken and settled, and what is given to the two statements."""

    text: str
    short: str
    take: str
    settle: str
    # What the claim is given: nothing, or the floor.
    floor: bool = False
    # What the settle is given.
    by: Literal["ids", "range"] = "ids"
    # Both in one transaction, or each in its own.
    together: bool = True
    # Reading on one connection while another settles.
    ahead: bool = False
    # Two connections are safe beside each other, or have a half each.
    shared: bool = True
    deletes: bool = False


DESIGNS = {
    "a": Design(
        "claim UPDATE (SKIP LOCKED), then settle UPDATE", "claim, then settle", CLAIM, DELIVERED, together=False
    ),
    "b": Design("lock and settle UPDATE in one transaction", "lock, settle", TAKE, DELIVERED),
    "c": Design("lock and DELETE in one transaction", "lock, delete", TAKE, DELETE, deletes=True),
    "d": Design(
        "ordered read, then DELETE of the range (a ceiling: not safe as it is)",
        "read, delete range (ceiling)",
        READ_ABOVE,
        DELETE_RANGE,
        floor=True,
        by="range",
        together=False,
        shared=False,
        deletes=True,
    ),
    "g": Design(
        "floor, lock and DELETE in one transaction", "floor, lock, delete", TAKE_ABOVE, DELETE, floor=True, deletes=True
    ),
    "h": Design(
        "floor, lock and settle UPDATE in one transaction", "floor, lock, settle", TAKE_ABOVE, DELIVERED, floor=True
    ),
    "e": Design(
        "floor, plain read, DELETE by ids",
        "floor, read, delete",
        READ_ABOVE,
        DELETE,
        floor=True,
        together=False,
        deletes=True,
    ),
    "f": Design(
        "floor, plain read, UPDATE by ids", "floor, read, settle", READ_ABOVE, DELIVERED, floor=True, together=False
    ),
    "e2": Design(
        "as e, reading on one connection while another settles",
        "e, reading ahead",
        READ_ABOVE,
        DELETE,
        floor=True,
        together=False,
        ahead=True,
        deletes=True,
    ),
    "f2": Design(
        "as f, reading on one connection while another settles",
        "f, reading ahead",
        READ_ABOVE,
        DELIVERED,
        floor=True,
        together=False,
        ahead=True,
    ),
}
