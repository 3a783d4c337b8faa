"""Pictures of the pages, wide and on a phone, light and dark, for docs/screenshots: taken by scripts/screenshots."""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium import webdriver

from tests import processes
from tests.servers import PrivatePostgres

from .browser import DESK, PHONE, Browser
from .busy import BusyShop
from .program import OPERATOR, Users
from .quiet import QuietShop

PICTURES = processes.ROOT / "docs/screenshots"
KINDS = (("light", "light", DESK), ("dark", "dark", DESK), ("phone", "light", PHONE), ("phone-dark", "dark", PHONE))


@pytest.fixture
def shop(tmp_path: Path, users: Users) -> Iterator[BusyShop]:
    with BusyShop(tmp_path, users) as shop:
        yield shop


@pytest.fixture
def quiet_shop(tmp_path: Path, users: Users) -> Iterator[QuietShop]:
    with tempfile.TemporaryDirectory(prefix="pillarbox-quiet.") as room:
        Path(room).chmod(0o755)
        server = PrivatePostgres(Path(room) / "postgres")
        server.start()
        try:
            with QuietShop(tmp_path, users, server.url) as shop:
                yield shop
        finally:
            server.kill()


def take(browser: Browser, name: str, at: str | None = None) -> None:
    """The page that is open, in all ways; its top, or the part `at` in the middle of the window."""
    for kind, scheme, size in KINDS:
        browser.colours(scheme)
        browser.size(*size)
        # Nothing that has just been clicked keeps its mark.
        browser.script("document.activeElement?.blur(); window.scrollTo(0, 0)")
        if at:
            browser.script("document.querySelector(arguments[0]).scrollIntoView({block: 'center'})", at)
        picture = browser.cdp("Page.captureScreenshot", format="png")["data"]
        (PICTURES / f"{name}-{kind}.png").write_bytes(base64.b64decode(picture))
    browser.colours("light")
    browser.size(*DESK)


def first(shop: BusyShop, condition: str) -> str:
    query = f"SELECT id::text FROM outbox_event WHERE {condition} ORDER BY seq DESC LIMIT 1"
    row = shop.connection.execute(query).fetchone()
    assert row
    return row[0]


def test_a_busy_shop(driver: webdriver.Chrome, shop: BusyShop) -> None:
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
    reminder = first(shop, "event_type = 'order.reminded' AND aggregate_id <> '48342'")
    browser.open(f"/events/{reminder}")
    browser.fill("#reason", "the customer has cancelled")
    browser.click("#do-fail")
    browser.wait_for_text("#notice", "The event is marked failed.")
    invoice = first(shop, "event_type = 'invoice.sent' AND status = 'delivered'")
    # An order goes to two destinations, and may be replayed to one of them.
    placed = first(shop, "event_type = 'order.placed' AND status = 'delivered'")
    browser.open(f"/events/{placed}")
    browser.click("#do-replay")
    take(browser, "replay")
    browser.open(f"/events/{invoice}")
    browser.click("#do-replay")
    browser.click("#start")
    browser.wait_for_text("#notice", "This is the replay")

    waiting = first(shop, "aggregate_id = '48342' AND event_type = 'order.shipped'")
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
    some = [
        first(shop, f"event_type = '{name}' AND status = 'failed'") for name in ("invoice.sent", "payment.captured")
    ]
    browser.open("/chosen?action=retry&" + "&".join(f"id={event}" for event in (*some, invoice)))
    take(browser, "chosen")
    browser.expect("status of 404")
    browser.open("/there-is-no-such-page")
    take(browser, "error")
    browser.check()


def test_a_quiet_shop(driver: webdriver.Chrome, quiet_shop: QuietShop) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    browser = Browser(driver, quiet_shop)
    browser.reset()
    browser.become(OPERATOR)
    quiet_shop.forget_this_minute()
    browser.open("/")
    assert browser.has("#no-problems"), browser.text("#problems")
    browser.wait_for_text("#log", "under 3 s")
    take(browser, "overview-healthy")
    take(browser, "overview-log", at="#log")
    browser.check()
