"""Destinations: pausing and resuming one, and seeing that one is down and why."""

from __future__ import annotations

from .browser import Browser
from .furniture import new_case
from .program import OPERATOR, Admin


def health(browser: Browser, name: str) -> str | None:
    return browser.text(f'section[data-destination="{name}"] .state')


def test_a_destination_is_paused_and_resumed(operator: Browser, admin: Admin) -> None:
    case = new_case("pause")
    operator.open("/destinations")
    operator.wait("it is up", lambda: health(operator, "letters") == "up")
    operator.click("#pause-letters")
    operator.wait_for_text("#notice", "The destination is paused.")
    assert health(operator, "letters") == "paused"
    assert f"Paused by {OPERATOR}" in (operator.text("#letters .notice") or "")
    admin.wait_for_pause("letters")
    event = admin.emit("letters.written", {"case": case})
    admin.wait_for_state(event, "parked")
    operator.open(f"/events/{event}")
    operator.wait_for_text("#timeline", "Parked on letters")
    assert admin.receiver.of(case) == []

    operator.open("/destinations")
    operator.click("#resume-letters")
    operator.wait_for_text("#notice", "The destination is resumed.")
    admin.receiver.wait_for(case, 1)
    operator.wait("it is up", lambda: health(operator, "letters") == "up")
    operator.open("/audit")
    did = operator.attributes("#audit tr[data-audit]", "data-what")[:2]
    assert did == ["resume", "pause"]
    assert all("letters" in line for line in operator.texts("#audit tr[data-audit]")[:2])


def test_a_destination_that_is_down_says_so_and_why(operator: Browser, admin: Admin) -> None:
    case = new_case("down")
    admin.receiver.answer("/crm", 503)
    events = admin.emit_all("crm.called", [{"case": case}] * 4)
    operator.open("/destinations")
    operator.wait("it is down", lambda: health(operator, "crm") == "down")
    section = operator.text("#crm") or ""
    assert "the receiver answered 503 Service Unavailable" in section
    assert "open" in section
    operator.open("/")
    operator.wait(
        "the overview says so, too", lambda: operator.text("#destinations tr[data-destination=crm] .state") == "down"
    )
    admin.receiver.accept("/crm")
    assert {one.event_id for one in admin.receiver.wait_for(case, 4)} == set(events)
    operator.wait("it is up", lambda: operator.text("#destinations tr[data-destination=crm] .state") == "up")
