"""What applications and receivers write is shown as it is, harmlessly, however it looks and however long it is."""

from __future__ import annotations

import time

from . import furniture
from .browser import Browser
from .furniture import new_case
from .program import Admin

SCRIPT = "<script>alert(1)</script>"
IMAGE = '"><img src=x onerror=alert(1)>'
"""Would end an attribute, too."""


def assert_harmless(browser: Browser) -> None:
    """Nothing of it has become an element. A dialogue would make the next command fail."""
    assert browser.attributes("script", "src") == ["/assets/live.js"]
    assert not browser.has("img:not([src='/assets/icon.svg'])")
    assert not browser.has("[onerror], iframe, object, embed, base, style, link:not([href^='/assets/'])")


def test_html_in_every_field_is_only_text(operator: Browser, admin: Admin) -> None:
    case = new_case("hostile")
    event_type = f"orders.{case}{SCRIPT}{IMAGE}"
    aggregate = (f"Order{SCRIPT}{IMAGE}", f"{case}{SCRIPT}{IMAGE}")
    admin.receiver.answer(case, 500, f"<html>{SCRIPT}{IMAGE}</html>")
    payload = {"case": case, SCRIPT: f"{IMAGE}</pre>{SCRIPT}"}
    options = ("--key", f"{case}{SCRIPT}{IMAGE}", f"--header=note={SCRIPT}{IMAGE}")
    event = admin.emit(event_type, payload, aggregate=aggregate, options=options)
    admin.wait_for_state(event, "scheduled")
    operator.open(f"/events/{event}")
    operator.fill("#reason", f"{SCRIPT}{IMAGE}")
    operator.click("#do-fail")
    operator.wait_for_text("#notice", "The event is marked failed.")

    assert operator.text("h1") == event_type
    assert f"{SCRIPT}{IMAGE}" in (operator.text("#error") or "")
    shown = operator.text("main") or ""
    for text in (*aggregate, f"{case}{SCRIPT}{IMAGE}", SCRIPT):
        assert text in shown
    assert operator.script("return JSON.parse(document.querySelector('#payload').textContent)") == payload
    assert_harmless(operator)
    searched = f"/events?search={case}"
    for page in (searched, f"/dead-letters?search={case}", "/audit", "/", "/destinations", "/jobs"):
        operator.open(page)
        assert_harmless(operator)
    operator.open(searched)
    assert event_type in operator.texts(f'tr[data-event="{event}"] a')

    # A group of them, from its preview to its job.
    operator.open(f"/dead-letters?search={case}")
    assert SCRIPT in (operator.text("#groups") or "")
    operator.click("#retry-group-1")
    operator.wait_for_text("h1", "Retry 1 event?")
    assert_harmless(operator)
    operator.click("#start")
    operator.wait("it is done", lambda: operator.text("#job-state") == "done")
    assert_harmless(operator)


def test_html_in_an_address_is_only_text(operator: Browser) -> None:
    for page in (
        "/events?event_type=",
        "/events?aggregate_id=",
        "/events?search=",
        "/dead-letters?search=",
        "/search?q=",
    ):
        operator.open(f"{page}%22%3E%3Cscript%3Ealert(1)%3C/script%3E%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E")
        assert_harmless(operator)
    for page, status in (
        ("/events?state=%3Cscript%3Ealert(1)%3C/script%3E", 400),
        ("/%3Cscript%3Ealert(1)%3C/script%3E", 404),
    ):
        operator.expect(f"status of {status}")
        operator.open(page)
        assert_harmless(operator)


def test_a_payload_of_a_megabyte_is_shown_quickly_and_can_be_saved_whole(operator: Browser, admin: Admin) -> None:
    case = new_case("long")
    payload = {"case": case, "lines": [{"number": number, "text": "x" * 80} for number in range(9_000)]}
    options = ("--repeatable", "--deliver-at", furniture.LATER)
    event = admin.emit("orders.long", payload, options=options)
    operator.open("/")
    started = time.monotonic()
    operator.open(f"/events/{event}")
    assert time.monotonic() - started < 5
    assert (operator.text("#payload") or "").startswith("{")
    assert operator.text("#cut") == "Only the beginning is shown."
    assert operator.script("return document.querySelector('#payload').textContent.length") < 100_000
    whole = operator.promise(f"fetch('/events/{event}/payload').then(answer => answer.json())")
    assert whole == payload
