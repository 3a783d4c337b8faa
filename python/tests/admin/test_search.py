"""The search: an event is found by what one has of it."""

from __future__ import annotations

from selenium.webdriver.common.keys import Keys

from . import furniture
from .browser import Browser
from .furniture import new_case
from .program import Admin


def search(browser: Browser, text: str) -> None:
    field = browser.fill("#search", text)
    field.send_keys(Keys.ENTER)


def rows(browser: Browser) -> set[str]:
    return set(browser.attributes("#events tr[data-event]", "data-event"))


def test_an_event_is_found_by_its_id_its_key_and_its_aggregate(operator: Browser, admin: Admin) -> None:
    case = new_case("find")
    first = furniture.scheduled(admin, "orders.found", case, aggregate=("Parcel", case))
    options = ("--key", f"key-{case}", "--deliver-at", furniture.LATER)
    second = admin.emit("orders.found", {}, aggregate=("Parcel", case), options=options)
    for text, event in ((first, first), (f"key-{case}", second)):
        operator.open("/")
        search(operator, text)
        operator.wait("its page is there", lambda event=event: operator.path == f"/events/{event}")
    search(operator, case)
    operator.wait("both of the aggregate are listed", lambda: rows(operator) == {first, second})
    # No id, key or aggregate is called so, but a part of one.
    search(operator, case[:-1])
    operator.wait("parts are looked for", lambda: operator.path == f"/events?search={case[:-1]}&did=parts")
    operator.wait_for_text("#notice", "No event has exactly this id, key or aggregate.")
    operator.wait("both are among them", lambda: {first, second} <= rows(operator))
    search(operator, f"no-such-{case}")
    operator.wait_for_text("#events", "No matching events.")


def test_all_events_of_an_aggregate_are_shown_with_their_destinations(operator: Browser, admin: Admin) -> None:
    case = new_case("aggregate")
    sent = furniture.delivered(admin, "orders.placed", case, aggregate=("Basket", case))
    later = furniture.scheduled(admin, "both.reminded", case, aggregate=("Basket", case))
    furniture.scheduled(admin, "orders.placed", case, aggregate=("Parcel", case))
    for text in (f"Basket {case}", f"basket:{case}", f"Basket/{case}"):
        operator.open("/")
        search(operator, text)
        operator.wait_for_text("h1", f"Basket {case}")
        assert rows(operator) == {sent, later}, "delivered ones too"
    # The id alone may be that of several aggregates.
    search(operator, case)
    operator.wait_for_text("h1", f"Basket {case}, Parcel {case}")
    assert len(rows(operator)) == 3
    search(operator, f"Basket {case}")
    operator.wait_for_text("h1", f"Basket {case}")
    assert "2 events with exactly" in (operator.text("#found") or "")
    assert operator.text(f'tr[data-event="{sent}"] td[data-label=to]') == "orders"
    assert operator.text(f'tr[data-event="{later}"] td[data-label=to]') == ", ".join(admin.destinations[:2])
    # What it cannot know of, it says.
    assert "Delivered events are deleted" in (operator.text("#kept") or "")
    assert operator.find("#search").get_property("value") == f"Basket {case}"
    operator.click("#parts")
    operator.wait("parts are looked for", lambda: operator.path == f"/events?search=Basket%20{case}")
