"""Pictures of the pages, light, dark and on a phone, for docs/screenshots: taken by scripts/screenshots, by no test."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium import webdriver

from tests import processes

from .browser import DESK, PHONE, Browser
from .busy import BusyShop
from .program import OPERATOR, Users

PICTURES = processes.ROOT / "docs/screenshots"


@pytest.fixture
def shop(tmp_path: Path, users: Users) -> Iterator[BusyShop]:
    with BusyShop(tmp_path, users) as shop:
        yield shop


def take(browser: Browser, name: str) -> None:
    """The page that is open, in all ways."""
    for kind, scheme, size in (("light", "light", DESK), ("dark", "dark", DESK), ("phone", "light", PHONE)):
        browser.colours(scheme)
        browser.size(*size)
        # Nothing that has just been clicked keeps its mark.
        browser.script("document.activeElement?.blur(); window.scrollTo(0, 0)")
        picture = browser.cdp("Page.captureScreenshot", format="png")["data"]
        (PICTURES / f"{name}-{kind}.png").write_bytes(base64.b64decode(picture))
    browser.colours("light")
    browser.size(*DESK)


def first(shop: BusyShop, condition: str) -> str:
    query = f"SELECT id::text FROM outbox_event WHERE {condition} ORDER BY seq DESC LIMIT 1"
    row = shop.connection.execute(query).fetchone()
    assert row
    return row[0]


def test_pictures_are_taken(driver: webdriver.Chrome, shop: BusyShop) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    browser = Browser(driver, shop)
    browser.reset()
    browser.open("/login")
    take(browser, "login")
    browser.become(OPERATOR)
    browser.open("/destinations")
    browser.click("#pause-warehouse")
    browser.wait_for_text("#notice", "The destination is paused.")
    shop.wait_for_pause("warehouse")
    shop.go_on()
    reminder = first(shop, "event_type = 'order.reminded'")
    browser.open(f"/events/{reminder}")
    browser.fill("#reason", "the customer has cancelled")
    browser.click("#do-fail")
    browser.wait_for_text("#notice", "The event is marked failed.")
    invoice = first(shop, "event_type = 'invoice.sent' AND status = 'delivered'")
    browser.open(f"/events/{invoice}")
    browser.click("#do-replay")
    take(browser, "replay")
    browser.click("#start")
    browser.wait_for_text("#notice", "This is the replay")

    waiting = first(shop, "aggregate_id = '48342'")
    pages = {
        "overview": "/",
        "events": "/events",
        "event": f"/events/{waiting}",
        "search": "/search?q=Order+48342",
        "dead-letters": "/dead-letters?hours=24",
        "destinations": "/destinations",
    }
    for name, path in pages.items():
        shop.forget_this_minute()
        browser.open(path)
        take(browser, name)
    browser.open("/dead-letters?hours=24")
    shop.receiver.accept("overload")
    browser.click('#groups tr[data-destination="fulfilment"] a.button')
    browser.fill("#rate", "5")
    take(browser, "bulk")
    browser.click("#start")
    browser.wait("half of it is done", lambda: int(browser.text("#job-done") or "0") >= 20)
    take(browser, "job")
    for name in ("jobs", "audit"):
        browser.open(f"/{name}")
        take(browser, name)
    browser.listen()
    assert browser.said == []
