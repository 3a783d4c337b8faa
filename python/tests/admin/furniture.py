"""Events in the states that pages can show, made by the real relay and a receiver that was told what to answer."""

from __future__ import annotations

import uuid
from typing import Any

from .program import Admin

LATER = "2099-01-01T00:00:00Z"
REPEATABLE = ("--repeatable",)
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def new_case(what: str) -> str:
    """A name that nothing else has, for events of one test."""
    return f"{what}-{uuid.uuid4().hex[:8]}"


def delivered(admin: Admin, event_type: str, case: str, **more: Any) -> str:
    event = admin.emit(event_type, {"case": case}, **more)
    admin.receiver.wait_for(case, 1)
    admin.wait_for_state(event, "delivered")
    return event


def scheduled(admin: Admin, event_type: str, case: str, **more: Any) -> str:
    return admin.emit(event_type, {"case": case}, options=(*REPEATABLE, "--deliver-at", LATER), **more)


def failed(admin: Admin, event_type: str, case: str, count: int = 1, **more: Any) -> list[str]:
    """Dead letters; the receiver goes on refusing them."""
    admin.receiver.answer(case, 410, "Gone for good.")
    events = admin.emit_all(event_type, [{"case": case, "number": number} for number in range(count)], **more)
    for event in events:
        admin.wait_for_state(event, "failed")
    return events


def parked(admin: Admin, case: str) -> str:
    """No route leads anywhere."""
    event = admin.emit("nowhere.to.go", {"case": case})
    admin.wait_for_state(event, "parked")
    return event


def tried(admin: Admin, event_type: str, case: str, answer: str = "Out of paper.") -> str:
    """Tried once in vain, with everything that an event can have; it would be tried again in an hour."""
    admin.receiver.answer(case, 500, answer)
    headers = {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01", "tenant": "acme"}
    options = [*REPEATABLE, *(f"--header={name}={value}" for name, value in headers.items())]
    payload = {"case": case, "card": {"number": "4111111111111111"}, "lines": [1, 2.5, True, None]}
    event = admin.emit(event_type, payload, options=options)
    admin.wait_for_state(event, "scheduled")
    return event
